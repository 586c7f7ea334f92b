/** A Service with a node port before pods of this node and one of another, for tests on a real kernel. */
import { LAB, podAddress, remotePodAddress } from '../../../../src/cli/lab/lab.ts';
import { service, slice } from '../../cluster/objects.ts';
import type { Route } from './traffic.ts';

export const POD_PORT = 8080;
export const NODE_PORT = 30_080;
export const WEB = '10.96.0.10';
/** Ways to the Service: from outside by the node port, from a pod and from the node by the cluster IP. */
export const WEB_ROUTES: readonly Route[] = [
  { from: 'client', address: LAB.node.v4, port: NODE_PORT },
  { from: 'pod-3', address: WEB, port: 80 },
  { from: 'node', address: WEB, port: 80 },
];

/** `here`: numbers of pods of this node; the one of the other node unless it is left out. */
export function webObjects(
  here: readonly number[],
  { hasOther = true, ...spec }: Record<string, unknown> = {},
): object[] {
  const endpoints = here.map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' }));
  if (hasOther === true) endpoints.push({ addresses: [remotePodAddress(1).v4], nodeName: 'other' });
  const ports = [{ port: 80, nodePort: NODE_PORT }];
  return [
    service({ name: 'web', spec: { type: 'NodePort', clusterIP: WEB, ports, ...spec } }),
    slice({ name: 'web-1', service: 'web', addressType: 'IPv4', ports: [{ name: '', port: POD_PORT }], endpoints }),
  ];
}
