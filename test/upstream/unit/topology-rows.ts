/** The table of kube-proxy's test of CategorizeEndpoints. */

/**
 * An endpoint in words: its address, then what is true of it. `zone-…` and `node-…` are hints; it is ready, draining (it terminates and
 * serves), or neither; `here` is on this node.
 */
export type EndpointWords = string;

interface Row {
  readonly zone?: string;
  readonly node?: string;
  readonly internal?: 'Local';
  readonly external?: 'Local';
  /** It has a node port. */
  readonly isExternal?: true;
  readonly endpoints: readonly EndpointWords[];
  /** The last numbers of the addresses. */
  readonly cluster?: readonly number[];
  readonly local?: readonly number[];
  /** Other nodes alone have endpoints. */
  readonly hasOthersAlone?: true;
}

const LOCAL = { internal: 'Local' } as const;
const BOTH_LOCAL = { internal: 'Local', external: 'Local', isExternal: true } as const;
const ZONED = ['3 zone-a ready', '4 zone-b ready', '5 zone-c ready', '6 zone-a ready'];
const NODES = [
  '3 zone-a node-1 ready',
  '4 zone-b node-2 ready',
  '5 zone-c node-3 ready',
  '6 zone-a node-4 ready',
] as const;

export const CATEGORIES: Readonly<Record<string, Row>> = {
  "should use topology since all endpoints have hints, node has a zone label and and there are endpoints for the node's zone":
    { zone: 'zone-a', endpoints: ZONED, cluster: [3, 6] },
  'externalTrafficPolicy: Local, topology ignored for Local endpoints': {
    ...{ zone: 'zone-a', external: 'Local', isExternal: true },
    endpoints: ['3 zone-a ready here', '4 zone-b ready here', '5 zone-c ready', '6 zone-a ready'],
    ...{ cluster: [3, 6], local: [3, 4] },
  },
  'internalTrafficPolicy: Local, topology ignored for Local endpoints': {
    ...{ zone: 'zone-a', ...LOCAL, isExternal: true },
    endpoints: ['3 zone-a ready here', '4 zone-b ready here', '5 zone-c ready', '6 zone-a ready'],
    ...{ cluster: [3, 6], local: [3, 4] },
  },
  'empty node labels': { endpoints: ['3 zone-a ready'], cluster: [3] },
  'empty zone label': { zone: '', endpoints: ['3 zone-a ready'], cluster: [3] },
  'node in different zone, no endpoint filtering': { zone: 'zone-b', endpoints: ['3 zone-a ready'], cluster: [3] },
  'unready endpoint': {
    zone: 'zone-a',
    endpoints: ['3 zone-a ready', '4 zone-b ready', '5 zone-c ready', '6 zone-a'],
    cluster: [3],
  },
  'only unready endpoints in same zone (should not filter)': {
    zone: 'zone-a',
    endpoints: ['3 zone-a', '4 zone-b ready', '5 zone-c ready', '6 zone-a'],
    cluster: [4, 5],
  },
  'missing hints, no filtering applied': {
    zone: 'zone-a',
    endpoints: ['3 zone-a ready', '4 zone-b ready', '5 ready', '6 zone-a ready'],
    cluster: [3, 4, 5, 6],
  },
  'multiple hints per endpoint, filtering includes any endpoint with zone included': {
    zone: 'zone-c',
    endpoints: ['3 zone-a zone-b zone-c ready', '4 zone-b zone-c ready', '5 zone-b zone-d ready', '6 zone-c ready'],
    cluster: [3, 4, 6],
  },
  'PreferSameNode available': { zone: 'zone-a', node: 'node-1', endpoints: NODES, cluster: [3] },
  'PreferSameNode ignored if some endpoints unhinted': {
    ...{ zone: 'zone-a', node: 'node-1' },
    endpoints: [NODES[0], '4 ready', NODES[2], NODES[3]],
    cluster: [3, 4, 5, 6],
  },
  'PreferSameNode falls back to PreferSameZone if no endpoint for node': {
    ...{ zone: 'zone-a', node: 'node-0', endpoints: NODES },
    cluster: [3, 6],
  },
  'conflicting topology and localness require merging allEndpoints': {
    ...{ zone: 'zone-a', external: 'Local', isExternal: true },
    endpoints: ['0 zone-a ready here', '1 zone-b ready here', '2 zone-a ready', '3 zone-b ready'],
    ...{ cluster: [0, 2], local: [0, 1] },
  },
  'internalTrafficPolicy: Local, with empty endpoints': { ...LOCAL, endpoints: [] },
  'internalTrafficPolicy: Local, but all endpoints are remote': {
    ...{ ...LOCAL, endpoints: ['0 ready', '1 ready'], hasOthersAlone: true },
  },
  'internalTrafficPolicy: Local, all endpoints are local': {
    ...{ ...LOCAL, endpoints: ['0 ready here', '1 ready here'], local: [0, 1] },
  },
  'internalTrafficPolicy: Local, some endpoints are local': {
    ...{ ...LOCAL, endpoints: ['0 ready here', '1 ready'], local: [0] },
  },
  'Cluster traffic policy, endpoints not Ready': { endpoints: ['0', '1'] },
  'Cluster traffic policy, some endpoints are Ready': { endpoints: ['0', '1 ready'], cluster: [1] },
  'Cluster traffic policy, all endpoints are terminating': {
    endpoints: ['0 draining here', '1 draining'],
    cluster: [0, 1],
  },
  'iTP: Local, eTP: Cluster, some endpoints local': {
    ...{ ...LOCAL, isExternal: true, endpoints: ['0 ready here', '1 ready'], cluster: [0, 1], local: [0] },
  },
  'iTP: Cluster, eTP: Local, some endpoints local': {
    ...{ external: 'Local', isExternal: true, endpoints: ['0 ready here', '1 ready'], cluster: [0, 1], local: [0] },
  },
  'iTP: Local, eTP: Local, some endpoints local': {
    ...{ ...BOTH_LOCAL, endpoints: ['0 ready here', '1 ready'], cluster: [0, 1], local: [0] },
  },
  'iTP: Local, eTP: Local, all endpoints remote': {
    ...{ ...BOTH_LOCAL, endpoints: ['0 ready', '1 ready'], cluster: [0, 1] },
  },
  'iTP: Local, eTP: Local, all endpoints remote and terminating': {
    ...{ ...BOTH_LOCAL, endpoints: ['0 draining', '1 draining'], cluster: [0, 1] },
  },
  'iTP: Cluster, eTP: Local, with terminating endpoints': {
    ...{ external: 'Local', isExternal: true },
    endpoints: ['0 ready', '1 here', '2 draining here', '3 draining'],
    ...{ cluster: [0], local: [2] },
  },
  'externalTrafficPolicy ignored if not externally accessible': {
    ...{ external: 'Local', endpoints: ['0 ready', '1 ready here'], cluster: [0, 1] },
  },
  'no cluster endpoints for iTP:Local internal-only service': {
    ...{ ...LOCAL, endpoints: ['0 ready', '1 ready here'], local: [1] },
  },
  'empty endpoints when no service endpoints exist': { endpoints: [] },
  'single endpoint not ready, not serving, not terminating': { zone: 'zone-a', endpoints: ['0'] },
};
