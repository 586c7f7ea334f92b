/** The objects of a simulated cluster of three nodes: their Nodes, and the Service of their agents. */
import { service, slice } from '../../helpers/cluster/objects.ts';
import type { Action } from './actions.ts';
import { NODE, NODE_ADDRESSES, nodeAction } from './objects.ts';

export const AGENTS_SERVICE = 'agents';

/** The nodes of the cluster by name, each with its address. The first one is the one whose packets are checked in every history. */
export const FLEET_NODES = {
  [NODE]: NODE_ADDRESSES[0],
  'node-2': '192.168.7.11',
  'node-3': '192.168.7.12',
} as const;

export function fleetObjects(): Action[] {
  const ports = [{ name: 'health', port: 10_256, protocol: 'TCP' }];
  const endpoints = Object.entries(FLEET_NODES).map(([nodeName, address]) => ({ addresses: [address], nodeName }));
  const spec = { clusterIP: 'None', clusterIPs: ['None'], ports };
  return [
    ...Object.keys(FLEET_NODES)
      .filter((name) => name !== NODE)
      .map((name) => nodeAction(name, undefined)),
    { kind: 'put', of: 'services', object: service({ name: AGENTS_SERVICE, spec }) },
    {
      kind: 'put',
      of: 'slices',
      object: slice({ name: `${AGENTS_SERVICE}-1`, service: AGENTS_SERVICE, ports, endpoints }),
    },
  ];
}
