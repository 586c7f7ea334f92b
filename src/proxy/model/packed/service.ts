/** A Service, packed. Its key stays outside: whoever keeps the text has it as the key of a map. Pure. */
import type { Address, Cidr } from '../../../base/address.ts';
import { PROTOCOLS } from '../../../base/address.ts';
import type { Service, ServiceKey, ServicePortSpec } from '../objects.ts';
import { isUuid, type Packed, Packer, packUuid, Unpacker, unpackUuid } from './bytes.ts';
import { packVersion } from './version.ts';

const packer = new Packer();
const TYPES: readonly Service['type'][] = ['ClusterIP', 'NodePort', 'LoadBalancer'];

/** Bits of the first byte; the lowest two are the type. */
const INTERNAL_LOCAL = 4;
const EXTERNAL_LOCAL = 8;
const HAS_RANGES = 16;
const HAS_UID = 32;
const HAS_UUID = 64;
/** Milliseconds of the time of creation: the API server's times have whole seconds. */
const HAS_MILLISECONDS = 128;

/** `version`: its resourceVersion; "" for none. */
export function packService(service: Service, version = ''): Packed<Service> {
  const { type, uid, createdAt, clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports } = service;
  const hasUuid = uid !== undefined && isUuid(uid);
  packer.begin();
  packVersion(packer, version);
  packer.byte(
    TYPES.indexOf(type) |
      (service.internalTrafficPolicy === 'Local' ? INTERNAL_LOCAL : 0) |
      (service.externalTrafficPolicy === 'Local' ? EXTERNAL_LOCAL : 0) |
      (sourceRanges === undefined ? 0 : HAS_RANGES) |
      (uid === undefined ? 0 : hasUuid ? HAS_UUID : HAS_UID) |
      (createdAt % 1000 === 0 ? 0 : HAS_MILLISECONDS),
  );
  if (hasUuid) packUuid(packer, uid);
  else if (uid !== undefined) packer.text(uid);
  packer.number(createdAt % 1000 === 0 ? createdAt / 1000 : createdAt);
  const addresses = (all: readonly Address[]) => packer.list(all, (address) => packer.address(address));
  addresses(clusterIPs);
  addresses(externalIPs);
  addresses(loadBalancerIPs);
  if (sourceRanges !== undefined) packer.list(sourceRanges, (range) => packer.text(range));
  packer.list(ports, ({ name, protocol, port, nodePort }) => {
    packer.byte(PROTOCOLS.indexOf(protocol));
    packer.text(name);
    packer.number(port);
    packer.number(nodePort);
  });
  packer.number(service.affinitySeconds);
  packer.number(service.healthCheckNodePort);
  return packer.end();
}

export function unpackService(key: ServiceKey, packed: Packed<Service>): Service {
  const from = new Unpacker(packed);
  from.number();
  const bits = from.byte();
  const has = (bit: number) => (bits & bit) !== 0;
  const uid = has(HAS_UUID) ? unpackUuid(from) : has(HAS_UID) ? from.text() : undefined;
  const time = from.number();
  const addresses = () => from.list(() => from.address());
  return {
    key,
    ...(uid === undefined ? {} : { uid }),
    createdAt: has(HAS_MILLISECONDS) ? time : time * 1000,
    type: TYPES[bits & 3] ?? 'ClusterIP',
    clusterIPs: addresses(),
    externalIPs: addresses(),
    loadBalancerIPs: addresses(),
    sourceRanges: has(HAS_RANGES) ? from.list(() => from.text() as Cidr) : undefined,
    ports: from.list(() => portSpec(from)),
    internalTrafficPolicy: has(INTERNAL_LOCAL) ? 'Local' : 'Cluster',
    externalTrafficPolicy: has(EXTERNAL_LOCAL) ? 'Local' : 'Cluster',
    affinitySeconds: from.number(),
    healthCheckNodePort: from.number(),
  };
}

function portSpec(from: Unpacker): ServicePortSpec {
  const protocol = PROTOCOLS[from.byte()] ?? 'TCP';
  return { protocol, name: from.text(), port: from.number(), nodePort: from.number() };
}
