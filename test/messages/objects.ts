/** Objects as the API server gives them. */
import type { Row } from './row.ts';

const service = (spec: object, rest: object = {}) => ({
  kind: 'Service',
  metadata: { name: 'web', namespace: 'shop' },
  spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }], ...spec },
  ...rest,
});
const slice = (fields: object) => ({
  kind: 'EndpointSlice',
  metadata: { name: 'web-x', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  ports: [{ port: 80 }],
  endpoints: [{ addresses: ['10.0.0.1'] }],
  ...fields,
});
const node = (fields: object) => ({ kind: 'Node', metadata: { name: 'node-a' }, ...fields });

export const OBJECTS: readonly Row<object>[] = [
  {
    name: 'no ports',
    input: service({ ports: [] }),
    message: 'Service shop/web: spec.ports: must list a port; without one there is nothing to serve (object set aside)',
  },
  {
    name: 'a port that is none',
    input: service({ ports: [{ port: 70_000 }] }),
    message: 'Service shop/web: spec.ports[0].port: 70000: must be a whole number from 1 to 65535 (object set aside)',
  },
  {
    name: 'a port that is a string',
    input: service({ ports: [{ port: 'http' }] }),
    message: 'Service shop/web: spec.ports[0].port: http: must be a number, not a string (object set aside)',
  },
  {
    name: 'a port without a number',
    input: service({ ports: [{ name: 'http' }] }),
    message: 'Service shop/web: spec.ports[0].port: is missing; it must be a number (object set aside)',
  },
  {
    name: 'ports that are no list',
    input: service({ ports: { port: 80 } }),
    message: 'Service shop/web: spec.ports: {"port":80}: must be a list, not a map (object set aside)',
  },
  {
    name: 'a name of a port that is none',
    input: service({ ports: [{ name: 'HTTP', port: 80 }] }),
    message:
      'Service shop/web: spec.ports[0].name: HTTP: must be a port name: lower-case letters, digits and -, at most 63 characters (object set aside)',
  },
  {
    name: 'a protocol that is none',
    input: service({ ports: [{ protocol: 'HTTP', port: 80 }] }),
    message: 'Service shop/web: spec.ports[0].protocol: HTTP: must be one of TCP, UDP, SCTP (object set aside)',
  },
  {
    name: 'a node port that is none',
    input: service({ ports: [{ port: 80, nodePort: -1 }] }),
    message: 'Service shop/web: spec.ports[0].nodePort: -1: must be a whole number from 1 to 65535 (object set aside)',
  },
  {
    name: 'a port twice',
    input: service({
      ports: [
        { name: 'a', port: 80 },
        { name: 'b', port: 80 },
      ],
    }),
    message:
      'Service shop/web: spec.ports[1]: b TCP 80: repeats the number or the name of an earlier port (part left out)',
  },
  {
    name: 'a node port twice',
    input: service({
      ports: [
        { name: 'a', port: 80, nodePort: 30_000 },
        { name: 'b', port: 81, nodePort: 30_000 },
      ],
    }),
    message:
      'Service shop/web: spec.ports[1].nodePort: 30000: is already the node port of an earlier port (part left out)',
  },
  {
    name: 'a cluster IP that is none',
    input: service({ clusterIP: '10.96.0.256' }),
    message: 'Service shop/web: spec.clusterIP: 10.96.0.256: must be an IP address (object set aside)',
  },
  {
    name: 'two cluster IPs of one family',
    input: service({ clusterIPs: ['10.96.0.1', '10.96.0.2'] }),
    message:
      'Service shop/web: spec.clusterIPs[1]: 10.96.0.2: must not be of the same family as the address before it (object set aside)',
  },
  {
    name: 'a cluster IP of another family',
    input: service({ clusterIPs: ['10.96.0.1'], ipFamilies: ['IPv6'] }),
    message:
      'Service shop/web: spec.clusterIPs[0]: 10.96.0.1: must be an IPv6 address, as spec.ipFamilies[0] says (object set aside)',
  },
  {
    name: 'an external IP that is none',
    input: service({ externalIPs: ['lb'] }),
    message: 'Service shop/web: spec.externalIPs[0]: lb: must be an IP address (part left out)',
  },
  {
    name: 'a source range that is none',
    input: service({ loadBalancerSourceRanges: ['10.0.0.1'] }),
    message:
      'Service shop/web: spec.loadBalancerSourceRanges[0]: 10.0.0.1: must be a CIDR; as it is, it admits no client (part left out)',
  },
  {
    name: 'a type that is none',
    input: service({ type: 'Balancer' }),
    message:
      'Service shop/web: spec.type: Balancer: must be ClusterIP, NodePort, LoadBalancer or ExternalName; treated as ClusterIP (default used)',
  },
  {
    name: 'a policy that is none',
    input: service({ externalTrafficPolicy: 'local' }),
    message:
      'Service shop/web: spec.externalTrafficPolicy: local: must be Cluster or Local; treated as Cluster (default used)',
  },
  {
    name: 'an affinity that is none',
    input: service({ sessionAffinity: 'Cookie' }),
    message: 'Service shop/web: spec.sessionAffinity: Cookie: must be None or ClientIP; treated as None (default used)',
  },
  {
    name: 'an affinity without its time',
    input: service({ sessionAffinity: 'ClientIP' }),
    message:
      'Service shop/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: is missing, and sessionAffinity ClientIP needs it; treated as 10800 (default used)',
  },
  {
    name: 'an affinity of no time',
    input: service({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } }),
    message:
      'Service shop/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: 0: must be a whole number from 1 to 86400; treated as 10800 (default used)',
  },
  {
    name: 'a health check port that is none',
    input: service({ healthCheckNodePort: 99_999 }),
    message:
      'Service shop/web: spec.healthCheckNodePort: 99999: must be a whole number from 1 to 65535 (part left out)',
  },
  {
    name: 'an ingress that is a name',
    input: service({}, { status: { loadBalancer: { ingress: [{ hostname: 'lb.example.com' }] } } }),
    message:
      'Service shop/web: status.loadBalancer.ingress[0].hostname: lb.example.com: is a host name, not an address; the proxy serves addresses only (no effect here)',
  },
  {
    name: 'an ingress that is no address',
    input: service({}, { status: { loadBalancer: { ingress: [{ ip: 'lb' }] } } }),
    message: 'Service shop/web: status.loadBalancer.ingress[0].ip: lb: must be an IP address (part left out)',
  },
  {
    name: 'a mode of an ingress that is none',
    input: service({}, { status: { loadBalancer: { ingress: [{ ip: '192.0.2.1', ipMode: 'vip' }] } } }),
    message: 'Service shop/web: status.loadBalancer.ingress[0].ipMode: vip: must be VIP or Proxy (part left out)',
  },
  {
    name: 'labels that are no map',
    input: { ...service({}), metadata: { name: 'web', namespace: 'shop', labels: [] } },
    message: 'Service shop/web: metadata.labels: []: must be a map of names to values, not a list (object set aside)',
  },
  {
    name: 'a label that is true',
    input: { ...service({}), metadata: { name: 'web', namespace: 'shop', labels: { a: true } } },
    message:
      'Service shop/web: metadata.labels.a: true: must be a string, not true or false; write it in quotes (object set aside)',
  },
  {
    name: 'a slice of nobody',
    input: { ...slice({}), metadata: { name: 'web-x', namespace: 'shop' } },
    message:
      'EndpointSlice shop/web-x: metadata.labels[kubernetes.io/service-name]: must be the name of the Service of the slice (object set aside)',
  },
  {
    name: 'a slice of no type',
    input: slice({ addressType: undefined }),
    message: 'EndpointSlice shop/web-x: addressType: is missing; it must be a string (object set aside)',
  },
  {
    name: 'a slice of another type',
    input: slice({ addressType: 'IPv5' }),
    message: 'EndpointSlice shop/web-x: addressType: IPv5: must be IPv4, IPv6 or FQDN (object set aside)',
  },
  {
    name: 'a slice of names',
    input: slice({ addressType: 'FQDN' }),
    message:
      'EndpointSlice shop/web-x: addressType: FQDN: the endpoints are host names, not addresses; the proxy serves addresses only (no effect here)',
  },
  {
    name: 'an endpoint that is no address',
    input: slice({ endpoints: [{ addresses: ['web'] }] }),
    message: 'EndpointSlice shop/web-x: endpoints[0].addresses[0]: web: must be an IP address (part left out)',
  },
  {
    name: 'an endpoint without an address',
    input: slice({ endpoints: [{ addresses: [] }] }),
    message: 'EndpointSlice shop/web-x: endpoints[0].addresses[0]: must be an IP address (part left out)',
  },
  {
    name: 'an endpoint of another family',
    input: slice({ endpoints: [{ addresses: ['fd00::1'] }] }),
    message:
      'EndpointSlice shop/web-x: endpoints[0].addresses[0]: fd00::1: must be an IPv4 address, as addressType says (part left out)',
  },
  {
    name: 'a condition that is a string',
    input: slice({ endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: 'true' } }] }),
    message:
      'EndpointSlice shop/web-x: endpoints[0].conditions.ready: true: must be true or false, not a string; write it without quotes (object set aside)',
  },
  {
    name: 'a hint that no Node can have',
    input: slice({ endpoints: [{ addresses: ['10.0.0.1'], hints: { forZones: [{ name: '-' }] } }] }),
    message:
      'EndpointSlice shop/web-x: endpoints[0].hints.forZones[0].name: -: must be the name of a zone or node (part left out)',
  },
  {
    name: 'a port of a slice that is none',
    input: slice({ ports: [{ port: 0 }] }),
    message: 'EndpointSlice shop/web-x: ports[0].port: 0: must be a whole number from 1 to 65535 (part left out)',
  },
  {
    name: 'a port of a slice without a number',
    input: slice({ ports: [{}] }),
    message: 'EndpointSlice shop/web-x: ports[0].port: must be a whole number from 1 to 65535 (part left out)',
  },
  {
    name: 'a slice with too many endpoints',
    input: slice({ endpoints: Array.from({ length: 20_001 }, () => ({ addresses: ['10.0.0.1'] })) }),
    message:
      'EndpointSlice shop/web-x: endpoints: 20001 endpoints: must be at most 20000; Kubernetes allows 1000 (object set aside)',
  },
  {
    name: 'an address of a Node that is none',
    input: node({ status: { addresses: [{ type: 'InternalIP', address: 'node' }] } }),
    message: 'Node node-a: status.addresses[0]: node: must be an IP address (part left out)',
  },
  {
    name: 'a range of pods that is none',
    input: node({ spec: { podCIDRs: ['10.244.0.0'] } }),
    message: 'Node node-a: spec.podCIDRs[0]: 10.244.0.0: must be a CIDR (part left out)',
  },
  {
    name: 'a range of cluster IPs that is none',
    input: { kind: 'ServiceCIDR', metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0'] } },
    message: 'ServiceCIDR kubernetes: spec.cidrs[0]: 10.96.0.0: must be a CIDR (part left out)',
  },
];
