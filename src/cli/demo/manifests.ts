/** The objects of the demo, as a person would write them. */
import { dump } from 'js-yaml';
import { podAddress } from './lab.ts';

export const WEB = { clusterIP: '10.96.0.10', port: 80, nodePort: 30080 } as const;
export const EMPTY = { clusterIP: '10.96.0.20', port: 80 } as const;
/** A Service without a selector: its servers are outside of the cluster. */
export const OUTSIDE = {
  clusterIP: '10.96.0.30',
  port: 80,
  serverPort: 8081,
  servers: ['192.168.4.100', '192.168.4.254'],
} as const;
export const POD_PORT = 8080;

/** YAML of the Service `web`, and of one that has no endpoints. */
export function servicesYaml(): string {
  const web = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: {
      type: 'NodePort',
      clusterIP: WEB.clusterIP,
      ports: [{ name: 'http', port: WEB.port, nodePort: WEB.nodePort, targetPort: POD_PORT }],
    },
  };
  const empty = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'empty' },
    spec: { clusterIP: EMPTY.clusterIP, ports: [{ port: EMPTY.port }] },
  };
  return [web, empty].map((object) => dump(object)).join('---\n');
}

/** YAML of the Service `outside` and the slice that names its two servers. */
export function outsideYaml(): string {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'outside' },
    spec: { clusterIP: OUTSIDE.clusterIP, ports: [{ port: OUTSIDE.port, targetPort: OUTSIDE.serverPort }] },
  };
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'outside-1', labels: { 'kubernetes.io/service-name': 'outside' } },
    addressType: 'IPv4',
    ports: [{ name: '', port: OUTSIDE.serverPort, protocol: 'TCP' }],
    endpoints: OUTSIDE.servers.map((address) => ({ addresses: [address] })),
  };
  return [service, slice].map((object) => dump(object)).join('---\n');
}

/** YAML of the slice of `web` with these pods, by number. */
export function sliceYaml(pods: readonly number[]): string {
  return dump({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: POD_PORT, protocol: 'TCP' }],
    endpoints: pods.map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' })),
  });
}
