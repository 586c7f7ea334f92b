/** Services for the page: one of each kind that it shows in its own way, and hostile ones. */
import { podAddress, remotePodAddress } from '../../../src/cli/lab/lab.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';

/** Would run where text becomes elements: it sets the title of the page. */
export const HOSTILE = `<img src=x onerror="document.title='hostile'">`;
/** The longest name. */
export const LONG = `l${'o'.repeat(61)}g`;

const PORTS = [{ name: 'http', port: 8080 }];
const http = (more: object = {}) => [{ name: 'http', port: 80, ...more }];

/** The slice of shop/web with this many endpoints of this node, and one of another. */
export function webSlice(count: number): object {
  const here = Array.from({ length: count }, (_, i) => ({ addresses: [podAddress(i + 1).v4], nodeName: 'node' }));
  const there = { addresses: [remotePodAddress(1).v4], nodeName: 'other', conditions: { ready: false } };
  return slice({ name: 'web-1', namespace: 'shop', service: 'web', ports: PORTS, endpoints: [...here, there] });
}

export function webService(annotation = HOSTILE): object {
  const spec = {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.10',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    loadBalancerSourceRanges: ['192.0.2.0/24'],
    sessionAffinity: 'ClientIP',
    ports: http({ nodePort: 30_080 }),
  };
  const made = service({
    name: 'web',
    namespace: 'shop',
    spec,
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } },
  });
  return { ...made, metadata: { name: 'web', namespace: 'shop', annotations: { note: annotation } } };
}

/** All but shop/web. */
export function otherObjects(): object[] {
  const clusterIP = (n: number) => `10.96.1.${n}`;
  return [
    nodeOf('zone-a'),
    service({ name: 'empty', namespace: 'shop', spec: { clusterIP: clusterIP(1), ports: http() } }),
    service({ name: LONG, namespace: 'shop', spec: { clusterIP: clusterIP(2), ports: http() } }),
    slice({ name: 'long-1', namespace: 'shop', service: LONG, ports: PORTS, endpoints: [podAddress(1).v4] }),
    // The agent names the object, the field and the value.
    service({
      name: 'wrong',
      namespace: 'shop',
      spec: { clusterIP: clusterIP(3), ports: http(), externalIPs: [HOSTILE] },
    }),
    service({ name: 'hostile', namespace: 'shop', spec: { clusterIP: clusterIP(4), ports: http() } }),
    slice({
      name: 'hostile-1',
      namespace: 'shop',
      service: 'hostile',
      ports: PORTS,
      endpoints: [{ addresses: [podAddress(2).v4], nodeName: HOSTILE, hostname: HOSTILE, zone: HOSTILE }],
    }),
  ];
}
