/**
 * A Service of the agent's own, whose only endpoint is the agent: a connection to its address passes the rules that the mode wrote for it, as
 * for any other Service. No Service of a cluster can have its name, because a namespace has no dot.
 */
import { type Address, FAMILIES, type Family, familyOf, type SocketAddress } from '../../base/address.ts';
import { goneEvent, type SourceEvent } from '../../proxy/model/events.ts';
import type { ServiceKey, SliceKey } from '../../proxy/model/objects.ts';

export const PROBE_SERVICE: ServiceKey = 'slicewire.dev/datapath';
/** The port of the Service. */
export const PROBE_PORT = 80;

interface ProbeServiceInput {
  /** The reserved address of each family. */
  readonly addresses: readonly Address[];
  /** Where the agent answers, in each of the families. */
  readonly answering: readonly SocketAddress[];
  readonly nodeName: string;
}

/** The same objects when they go. */
export function goneProbeEvents(): readonly SourceEvent[] {
  return [goneEvent('services', PROBE_SERVICE), ...FAMILIES.map((family) => goneEvent('slices', sliceKey(family)))];
}

function sliceKey(family: Family): SliceKey {
  return `${PROBE_SERVICE}-${family.toLowerCase()}`;
}

/** The Service and its slices as a source would send them. */
export function probeServiceEvents({ addresses, answering, nodeName }: ProbeServiceInput): readonly SourceEvent[] {
  const families = new Set(answering.map(({ address }) => familyOf(address)));
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
      ports: [{ name: '', protocol: 'TCP', port: PROBE_PORT, nodePort: 0 }],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      affinitySeconds: 0,
      healthCheckNodePort: 0,
    },
    faults: [],
  };
  return [service, ...answering.map((at) => sliceEvent(at, familyOf(at.address), nodeName))];
}

function sliceEvent({ address, port }: SocketAddress, family: Family, nodeName: string): SourceEvent {
  const key = sliceKey(family);
  const conditions = { ready: true, serving: true, terminating: false };
  return {
    kind: 'slice',
    key,
    slice: {
      key,
      service: PROBE_SERVICE,
      family,
      ports: [{ name: '', protocol: 'TCP', port }],
      endpoints: [{ address, ...conditions, nodeName, zoneHints: [], nodeHints: [] }],
    },
    triggeredAt: 0,
    faults: [],
  };
}
