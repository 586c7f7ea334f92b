/** The objects for which kube-proxy's rules were recorded: a Service for each form that its rules take. */
import { LAB, podAddress, remotePodAddress } from '../../../src/cli/lab/lab.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';

export const NODE = 'node';
/**
 * The settings of the kube-proxy that was recorded (`test/bench/kube-proxy.ts`), which a question about its rules has to be told, too. In
 * IPVS mode it serves node ports at all addresses.
 */
export function settings(mode: 'iptables' | 'nftables' | 'ipvs'): readonly string[] {
  const own = ['--hostname-override', NODE, '--cluster-cidr', '10.128.0.0/9'];
  return mode === 'ipvs' ? own : [...own, '--nodeport-addresses', 'primary'];
}

const HERE = { nodeName: NODE };
const THERE = { nodeName: 'other' };
const [one, two, three] = [1, 2, 3].map((n) => podAddress(n)) as [
  ReturnType<typeof podAddress>,
  ReturnType<typeof podAddress>,
  ReturnType<typeof podAddress>,
];
const far = remotePodAddress(1);
const READY = { conditions: { ready: true, serving: true, terminating: false } };
const DRAINING = { conditions: { ready: false, serving: true, terminating: true } };
const LOCAL = { externalTrafficPolicy: 'Local' };
const HTTP = [{ name: 'http', port: 8080, protocol: 'TCP' }];

const web = (name: string, clusterIP: string, more: Record<string, unknown> = {}) => ({
  ...{ clusterIP, ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP', ...portOf(more) }] },
  ...Object.fromEntries(Object.entries(more).filter(([field]) => field !== 'nodePort')),
  selector: { app: name },
});

function portOf({ nodePort }: Record<string, unknown>): Record<string, unknown> {
  return nodePort === undefined ? {} : { nodePort };
}

/** Endpoints on this node and on another one. */
const both = (name: string) =>
  slice({
    ...{ name: `${name}-1`, namespace: 'shop', service: name, addressType: 'IPv4', ports: HTTP },
    endpoints: [
      { addresses: [one.v4], ...HERE, ...READY },
      { addresses: [two.v4], ...HERE, ...READY },
      { addresses: [far.v4], ...THERE, ...READY },
    ],
  });

/** Endpoints on another node alone. */
const remote = (name: string) =>
  slice({
    ...{ name: `${name}-1`, namespace: 'shop', service: name, addressType: 'IPv4', ports: HTTP },
    endpoints: [{ addresses: [far.v4], ...THERE, ...READY }],
  });

const shop = (name: string, spec: Record<string, unknown>, status?: Record<string, unknown>) =>
  service({ name, namespace: 'shop', spec, ...(status === undefined ? {} : { status }) });

const balanced = (ip: string) => ({ loadBalancer: { ingress: [{ ip, ipMode: 'VIP' }] } });

export const NODE_OBJECT = {
  ...{ apiVersion: 'v1', kind: 'Node', metadata: { name: NODE } },
  spec: { podCIDR: LAB.podCidr.v4, podCIDRs: [LAB.podCidr.v4, LAB.podCidr.v6] },
  status: {
    addresses: [
      { type: 'InternalIP', address: LAB.node.v4 },
      { type: 'InternalIP', address: LAB.node.v6 },
    ],
  },
};

export const OBJECTS: readonly object[] = [
  NODE_OBJECT,
  shop('web', web('web', '10.96.0.20')),
  both('web'),
  shop('one', web('one', '10.96.0.21', { type: 'NodePort', nodePort: 30_021 })),
  slice({
    ...{ name: 'one-1', namespace: 'shop', service: 'one', addressType: 'IPv4', ports: HTTP },
    endpoints: [{ addresses: [three.v4], ...HERE, ...READY }],
  }),
  shop('empty', web('empty', '10.96.0.22', { type: 'NodePort', nodePort: 30_022 })),
  shop('sticky', web('sticky', '10.96.0.23', { sessionAffinity: 'ClientIP' })),
  both('sticky'),
  shop('inside', web('inside', '10.96.0.24', { internalTrafficPolicy: 'Local' })),
  both('inside'),
  shop('nowhere', web('nowhere', '10.96.0.25', { internalTrafficPolicy: 'Local' })),
  remote('nowhere'),
  shop(
    'local',
    web('local', '10.96.0.26', { type: 'LoadBalancer', nodePort: 30_026, ...LOCAL, healthCheckNodePort: 31_026 }),
    balanced('203.0.113.26'),
  ),
  both('local'),
  shop(
    'away',
    web('away', '10.96.0.27', { type: 'LoadBalancer', nodePort: 30_027, ...LOCAL, healthCheckNodePort: 31_027 }),
    balanced('203.0.113.27'),
  ),
  remote('away'),
  shop(
    'guarded',
    web('guarded', '10.96.0.28', {
      ...{ type: 'LoadBalancer', nodePort: 30_028 },
      loadBalancerSourceRanges: ['192.168.77.0/24', '10.244.0.0/16', '198.51.100.7/32'],
    }),
    balanced('203.0.113.28'),
  ),
  both('guarded'),
  shop('external', web('external', '10.96.0.29', { externalIPs: ['198.51.100.29'] })),
  both('external'),
  shop('draining', web('draining', '10.96.0.30')),
  slice({
    ...{ name: 'draining-1', namespace: 'shop', service: 'draining', addressType: 'IPv4', ports: HTTP },
    endpoints: [
      { addresses: [one.v4], ...HERE, ...DRAINING },
      { addresses: [far.v4], ...THERE, ...DRAINING },
    ],
  }),
  shop('dns', {
    ...{ clusterIP: '10.96.0.31', selector: { app: 'dns' } },
    ports: [
      { name: 'dns', port: 53, targetPort: 5353, protocol: 'UDP' },
      { name: 'dns-tcp', port: 53, targetPort: 5353, protocol: 'TCP' },
    ],
  }),
  slice({
    ...{ name: 'dns-1', namespace: 'shop', service: 'dns', addressType: 'IPv4' },
    ports: [
      { name: 'dns', port: 5353, protocol: 'UDP' },
      { name: 'dns-tcp', port: 5353, protocol: 'TCP' },
    ],
    endpoints: [
      { addresses: [one.v4], ...HERE, ...READY },
      { addresses: [far.v4], ...THERE, ...READY },
    ],
  }),
  shop('dual', {
    ...web('dual', '10.96.0.32', { type: 'NodePort', nodePort: 30_032 }),
    ...{ clusterIPs: ['10.96.0.32', 'fd00:96::32'], ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'] },
  }),
  both('dual'),
  slice({
    ...{ name: 'dual-2', namespace: 'shop', service: 'dual', addressType: 'IPv6', ports: HTTP },
    endpoints: [
      { addresses: [one.v6], ...HERE, ...READY },
      { addresses: [far.v6], ...THERE, ...READY },
    ],
  }),
];
