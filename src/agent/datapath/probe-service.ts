/**
 * A Service of the agent's own, whose only endpoint is the agent: a connection to its address passes the rules that the mode wrote for it, as
 * for any other Service. No Service of a cluster can have its name, because a namespace has no dot.
 */
import { type Address, FAMILIES, type Family, familyOf, type SocketAddress } from '../../base/address.ts';
import { goneEvent, type SourceEvent } from '../../proxy/model/events.ts';
import type { ServiceKey, SliceKey } from '../../proxy/model/objects.ts';

export const PROBE_SERVICE: ServiceKey = 'slicewire.dev/datapath';
/** The port of the Service that leads to the agent. */
export const PROBE_PORT = 80;
/** The one that leads to the agent's namespace (`makePodNetwork`), from which it is asked as well: a Pod that reaches itself. */
export const POD_PORT = 81;

interface ProbeServiceInput {
  /** The reserved address of each family. */
  readonly addresses: readonly Address[];
  /** Where the agent answers, in each of the families. */
  readonly answering: readonly SocketAddress[];
  /** Where it answers in its namespace. */
  readonly inPod: readonly SocketAddress[];
  readonly nodeName: string;
}

/** The same objects when they go. */
export function goneProbeEvents(): readonly SourceEvent[] {
  const slices = FAMILIES.flatMap((family) => PORT_NAMES.map((name) => goneEvent('slices', sliceKey(family, name))));
  return [goneEvent('services', PROBE_SERVICE), ...slices];
}

const PORT_NAMES = ['node', 'pod'] as const;
type PortName = (typeof PORT_NAMES)[number];

function sliceKey(family: Family, name: PortName): SliceKey {
  return `${PROBE_SERVICE}-${name}-${family.toLowerCase()}`;
}

/** The Service and its slices as a source would send them. */
export function probeServiceEvents(input: ProbeServiceInput): readonly SourceEvent[] {
  const { addresses, answering, inPod, nodeName } = input;
  const families = new Set(answering.map(({ address }) => familyOf(address)));
  const pod = inPod.length === 0 ? [] : [{ name: 'pod', protocol: 'TCP', port: POD_PORT, nodePort: 0 } as const];
  const service: SourceEvent = {
    kind: 'service',
    key: PROBE_SERVICE,
    service: {
      key: PROBE_SERVICE,
      createdAt: 0,
      type: 'ClusterIP',
      clusterIPs: addresses.filter((address) => families.has(familyOf(address))),
      externalIPs: [],
      loadBalancerIPs: [],
      sourceRanges: undefined,
      ports: [{ name: 'node', protocol: 'TCP', port: PROBE_PORT, nodePort: 0 }, ...pod],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      affinitySeconds: 0,
      healthCheckNodePort: 0,
    },
    faults: [],
  };
  const slice = (name: PortName) => (at: SocketAddress) => sliceEvent(at, name, nodeName);
  return [service, ...answering.map(slice('node')), ...inPod.map(slice('pod'))];
}

function sliceEvent({ address, port }: SocketAddress, name: PortName, nodeName: string): SourceEvent {
  const family = familyOf(address);
  const key = sliceKey(family, name);
  const conditions = { ready: true, serving: true, terminating: false };
  return {
    kind: 'slice',
    key,
    slice: {
      key,
      service: PROBE_SERVICE,
      family,
      ports: [{ name, protocol: 'TCP', port }],
      endpoints: [{ address, ...conditions, nodeName, zoneHints: [], nodeHints: [] }],
    },
    triggeredAt: 0,
    faults: [],
  };
}
