/** The ServicePorts of one Service, packed, with the time of its creation. Pure. */
import { type Address, type Cidr, endpointText, type Family, PROTOCOLS } from '../../../base/address.ts';
import type { ServiceKey, TrafficPolicy } from '../objects.ts';
import type { IdleHints } from '../selection.ts';
import type { Backend, FlowTargets, Frontend, FrontendRole, ServicePort } from '../service-port.ts';
import { type Packed, Packer, Unpacker } from './bytes.ts';
import { packLimit, unpackLimit } from './packed-objects.ts';

/** The ServicePorts of a Service. */
export interface PortsOfService {
  /** Milliseconds since 1970, 0 when unknown. */
  readonly createdAt: number;
  readonly ports: readonly ServicePort[];
}

const packer = new Packer();
const ROLES: readonly FrontendRole[] = ['cluster-ip', 'external-ip', 'load-balancer', 'node-port'];
const EMPTY: readonly Frontend['empty'][] = [undefined, 'reject', 'drop'];

/** Bits of a port; the lowest two are the protocol. */
const IPV6 = 4;
const HAS_ANY = 8;
const INTERNAL_LOCAL = 16;
const EXTERNAL_LOCAL = 32;
const HAS_RANGES = 64;
/** It has values that few ports have. */
const HAS_MORE = 128;
/** Bits of those. */
const HAS_TARGETS = 1;
const HAS_HINTS = 2;
const HAS_SCHEDULER = 4;
const HAS_WEIGHTS = 8;
const HASHES_ADDRESS = 16;
const HASHES_PORT = 32;
const HAS_LIMITS = 64;

export function packPorts({ createdAt, ports }: PortsOfService): Packed<PortsOfService> {
  packer.begin();
  packer.number(createdAt);
  packer.list(ports, packPort);
  return packer.end();
}

function packPort(port: ServicePort): void {
  const { flowTargets, idleHints, readyLocal, alsoAnswering, sourceRanges, ipvsScheduler, limits } = port;
  const isLocal = (policy: TrafficPolicy) => policy === 'Local';
  const more =
    (flowTargets === undefined ? 0 : HAS_TARGETS) |
    (idleHints === undefined ? 0 : HAS_HINTS) |
    (ipvsScheduler === undefined ? 0 : HAS_SCHEDULER) |
    (hasWeights(port.cluster) || hasWeights(port.local) ? HAS_WEIGHTS : 0) |
    (port.hashes === 'address' ? HASHES_ADDRESS : 0) |
    (port.hashes === 'address and port' ? HASHES_PORT : 0) |
    (limits === undefined ? 0 : HAS_LIMITS);
  const isRare = more + port.affinitySeconds + port.healthCheckNodePort + readyLocal.length + alsoAnswering.length > 0;
  packer.byte(
    PROTOCOLS.indexOf(port.protocol) |
      (port.family === 'IPv6' ? IPV6 : 0) |
      (port.hasAny ? HAS_ANY : 0) |
      (isLocal(port.internalPolicy) ? INTERNAL_LOCAL : 0) |
      (isLocal(port.externalPolicy) ? EXTERNAL_LOCAL : 0) |
      (sourceRanges === undefined ? 0 : HAS_RANGES) |
      (isRare ? HAS_MORE : 0),
  );
  // The id is the key of the Service, or that with a colon and the name.
  packer.text(port.id.slice(port.service.length + 1));
  packer.list(port.frontends, packFrontend);
  packer.list(port.cluster, packBackend);
  packer.list(port.local, packBackend);
  if (sourceRanges !== undefined) packer.list(sourceRanges, (range) => packer.text(range));
  if (!isRare) return;
  packer.byte(more);
  packer.number(port.affinitySeconds);
  packer.number(port.healthCheckNodePort);
  packer.list(readyLocal, (address) => packer.address(address));
  packer.list(alsoAnswering, (text) => packer.text(text));
  if (flowTargets !== undefined) packTargets(flowTargets);
  if (idleHints !== undefined) packHints(idleHints);
  if (ipvsScheduler !== undefined) packer.text(ipvsScheduler);
  if (limits !== undefined) packer.list(limits, (limit) => packLimit(packer, limit));
  if ((more & HAS_WEIGHTS) !== 0) for (const list of [port.cluster, port.local]) packer.list(list, packWeight);
}

function packFrontend({ role, address, port, policy, empty }: Frontend): void {
  packer.byte(ROLES.indexOf(role) | (policy === 'Local' ? 4 : 0) | (EMPTY.indexOf(empty) << 3));
  if (role !== 'node-port' && address !== undefined) packer.address(address);
  packer.number(port);
}

function packBackend({ address, port, hairpin }: Backend): void {
  packer.address(address);
  packer.number(port * 2 + (hairpin ? 1 : 0));
}

function hasWeights([first]: readonly Backend[]): boolean {
  return first?.weight !== undefined;
}

function packWeight({ weight = 0 }: Backend): void {
  packer.number(weight);
}

function packTargets({ all, local }: FlowTargets): void {
  for (const list of [all, local]) packer.list(list, (socket) => packer.text(socket));
}

function packHints({ zones, why }: IdleHints): void {
  packer.text(zones);
  packer.text(why);
}

export function unpackPorts(service: ServiceKey, packed: Packed<PortsOfService>): PortsOfService {
  const from = new Unpacker(packed);
  return { createdAt: from.number(), ports: from.list(() => portFrom(from, service)) };
}

function portFrom(from: Unpacker, service: ServiceKey): ServicePort {
  const bits = from.byte();
  const has = (bit: number) => (bits & bit) !== 0;
  const policy = (bit: number): TrafficPolicy => (has(bit) ? 'Local' : 'Cluster');
  const name = from.text();
  const id = name === '' ? service : `${service}:${name}`;
  const family: Family = has(IPV6) ? 'IPv6' : 'IPv4';
  const protocol = PROTOCOLS[bits & 3] ?? 'TCP';
  const port = {
    key: `${id}/${protocol}/${family}`,
    id,
    service,
    family,
    protocol,
    frontends: from.list(() => frontendFrom(from)),
    cluster: from.list(() => backendFrom(from)),
    local: from.list(() => backendFrom(from)),
    hasAny: has(HAS_ANY),
    internalPolicy: policy(INTERNAL_LOCAL),
    externalPolicy: policy(EXTERNAL_LOCAL),
    sourceRanges: has(HAS_RANGES) ? from.list(() => from.text() as Cidr) : undefined,
  };
  if (!has(HAS_MORE)) return { ...port, ...NO_MORE };
  const { weights, ...more } = moreFrom(from);
  if (weights === undefined) return { ...port, ...more };
  const { cluster, local } = port;
  return {
    ...port,
    ...more,
    cluster: cluster.map((backend, i) => weighted(backend, weights.cluster[i])),
    local: local.map((backend, i) => weighted(backend, weights.local[i])),
  };
}

/** A list without weights has 0 for each. */
function weighted(backend: Backend, weight = 0): Backend {
  return weight === 0 ? backend : { ...backend, weight };
}

type More = Pick<
  ServicePort,
  | 'affinitySeconds'
  | 'healthCheckNodePort'
  | 'readyLocal'
  | 'alsoAnswering'
  | 'flowTargets'
  | 'idleHints'
  | 'ipvsScheduler'
  | 'hashes'
  | 'limits'
>;

const NO_MORE: More = {
  affinitySeconds: 0,
  healthCheckNodePort: 0,
  readyLocal: [],
  alsoAnswering: [],
  flowTargets: undefined,
  idleHints: undefined,
};

interface Weights {
  readonly cluster: readonly number[];
  readonly local: readonly number[];
}

function moreFrom(from: Unpacker): More & { readonly weights?: Weights } {
  const bits = from.byte();
  const texts = () => from.list(() => from.text());
  const numbers = () => from.list(() => from.number());
  return {
    affinitySeconds: from.number(),
    healthCheckNodePort: from.number(),
    readyLocal: from.list(() => from.address()),
    alsoAnswering: texts(),
    flowTargets: (bits & HAS_TARGETS) === 0 ? undefined : { all: texts(), local: texts() },
    idleHints: (bits & HAS_HINTS) === 0 ? undefined : { zones: from.text(), why: from.text() },
    ...((bits & HAS_SCHEDULER) === 0 ? {} : { ipvsScheduler: from.text() }),
    ...((bits & HASHES_ADDRESS) === 0 ? {} : { hashes: 'address' as const }),
    ...((bits & HASHES_PORT) === 0 ? {} : { hashes: 'address and port' as const }),
    ...((bits & HAS_LIMITS) === 0 ? {} : { limits: from.list(() => unpackLimit(from)) }),
    ...((bits & HAS_WEIGHTS) === 0 ? {} : { weights: { cluster: numbers(), local: numbers() } }),
  };
}

function frontendFrom(from: Unpacker): Frontend {
  const bits = from.byte();
  const role = ROLES[bits & 3] ?? 'cluster-ip';
  const address: Address | undefined = role === 'node-port' ? undefined : from.address();
  return {
    role,
    address,
    port: from.number(),
    policy: (bits & 4) === 0 ? 'Cluster' : 'Local',
    empty: EMPTY[bits >> 3],
  };
}

function backendFrom(from: Unpacker): Backend {
  const address = from.address();
  const number = from.number();
  const port = Math.floor(number / 2);
  return { address, port, text: endpointText(address, port), hairpin: number % 2 === 1 };
}
