/** External IPs and the load balancer's addresses: who has them, and who may use them. */

import type { StoryCluster } from '../cluster.ts';
import { among, DROPPED, REJECTED, type Story, UNTOUCHED } from '../story.ts';
import { balancerWeb, clusterCidr, NODE_PORT, PORT, pods, told, toldFrom, vips, web } from './build.ts';

const host = (w: StoryCluster, address: string) => `${address}/${w.family === 'IPv4' ? 32 : 128}`;
/** A range that holds nobody of the lab. */
const nobody = (w: StoryCluster) => (w.family === 'IPv4' ? '203.0.113.0/24' : 'fd00:203::/64');
const everybody = (w: StoryCluster) => (w.family === 'IPv4' ? '0.0.0.0/0' : '::/0');
/** A range of the other family. */
const otherFamily = (w: StoryCluster) => (w.family === 'IPv4' ? 'fd00::/8' : '192.168.0.0/16');

/** A load balancer with these ranges and two addresses. */
function ranged(w: StoryCluster, ranges: readonly string[], spec: Record<string, unknown> = {}): object {
  return web(w, { type: 'LoadBalancer', loadBalancerSourceRanges: ranges, ...spec }, vips(w.vip(1), w.vip(2)));
}

const addressStories: readonly Story[] = [
  {
    id: 'external-ip-of-other-cluster-ip',
    title: "an external IP that is another Service's cluster IP takes nothing from it",
    field: 'spec.externalIPs',
    covers: ['CVE-2020-8554', 'k8s#97076'],
    kubeProxy: { does: 'writes both rules; which comes first is not defined', isByChance: true },
    tell: (w) => {
      const hijacker = web(w, { clusterIP: w.clusterIP(11), externalIPs: [w.clusterIP(10)] }) as {
        metadata: { name: string };
      };
      hijacker.metadata.name = 'a-hijacker';
      return {
        objects: [web(w), pods(w, 'pod-1'), hijacker],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      };
    },
  },
  {
    id: 'external-ips-switched-off',
    title: 'with AllowServiceExternalIPs=false no external IP is served, whatever else the Service has',
    field: '--feature-gates, spec.externalIPs',
    covers: ['1.6', 'CVE-2020-8554', 'KEP-5707'],
    tell: (w) => ({
      servesExternalIPs: false,
      objects: [
        web(
          w,
          {
            type: 'LoadBalancer',
            ports: [{ port: PORT, nodePort: NODE_PORT }],
            externalIPs: [w.externalIP(1), w.node, w.vip(2)],
          },
          vips(w.vip(1)),
        ),
        pods(w, 'pod-1'),
      ],
      packets: [
        ...[w.externalIP(1), w.vip(2)].flatMap((to) => toldFrom(['outside', 'pod-3'], to, UNTOUCHED)),
        told('pod-3', w.clusterIP(10), among(['pod-1'])),
        told('outside', w.vip(1), among(['pod-1'], 'all')),
        told('outside', w.node, among(['pod-1'], 'all'), { port: NODE_PORT }),
      ],
    }),
  },
  {
    id: 'external-ips-off-without-endpoints',
    title: 'without endpoints an external IP is not even refused when the gate leaves it aside',
    field: '--feature-gates, spec.externalIPs',
    covers: ['1.6', 'KEP-5707'],
    tell: (w) => ({
      servesExternalIPs: false,
      objects: [web(w, { externalIPs: [w.externalIP(1)] })],
      packets: [told('outside', w.externalIP(1), UNTOUCHED), told('pod-3', w.clusterIP(10), REJECTED)],
    }),
  },
  {
    id: 'other-family-addresses',
    title: 'addresses of the other family stop nothing',
    field: 'spec.externalIPs, status.loadBalancer.ingress',
    covers: ['1.6', '1.7', 'k8s#73157', 'k8s#80297'],
    tell: (w) => {
      const wrong = w.family === 'IPv4' ? 'fd00:192::7' : '192.0.2.7';
      return {
        objects: [
          web(w, { type: 'LoadBalancer', externalIPs: [wrong, w.externalIP(1)] }, vips(wrong, w.vip(1))),
          pods(w, 'pod-1'),
        ],
        packets: [w.externalIP(1), w.vip(1)].map((to) => told('outside', to, among(['pod-1'], 'all'))),
      };
    },
  },
  {
    id: 'malformed-addresses-left-out',
    title: 'an external IP or ingress that is no address is left out, and the others stay',
    field: 'spec.externalIPs, status.loadBalancer.ingress',
    covers: ['1.6', '1.7'],
    tell: (w) => ({
      objects: [
        web(
          w,
          { type: 'LoadBalancer', externalIPs: ['lb.example', w.externalIP(1)] },
          { loadBalancer: { ingress: [{ hostname: 'lb.example' }, { ip: w.vip(1), ipMode: 'VIP' }] } },
        ),
        pods(w, 'pod-1'),
      ],
      packets: [w.externalIP(1), w.vip(1)].map((to) => told('outside', to, among(['pod-1'], 'all'))),
    }),
  },
  {
    id: 'lb-translates-itself',
    title: 'an address that the load balancer translates itself is left to it',
    field: 'status.loadBalancer.ingress.ipMode',
    covers: ['1.7', 'KEP-1860'],
    tell: (w) => ({
      objects: [
        web(w, { type: 'LoadBalancer' }, { loadBalancer: { ingress: [{ ip: w.vip(1), ipMode: 'Proxy' }] } }),
        pods(w, 'pod-1'),
      ],
      packets: [told('outside', w.vip(1), UNTOUCHED)],
    }),
  },
  {
    id: 'outer-addresses-come-and-go',
    title: 'addresses come and go with the status and the spec',
    field: 'status.loadBalancer.ingress',
    covers: ['6.3', '6.5', 'k8s#105249'],
    tell: (w) => {
      const state = (addresses: readonly string[], gone: readonly string[]) => ({
        objects: [web(w, { type: 'LoadBalancer' }, vips(...addresses)), pods(w, 'pod-1')],
        packets: [
          ...addresses.map((to) => told('outside', to, among(['pod-1'], 'all'))),
          ...gone.map((to) => told('outside', to, UNTOUCHED)),
        ],
      });
      const [a, b] = [w.vip(1), w.vip(2)];
      return { ...state([], [a, b]), next: [state([a], [b]), state([a, b], []), state([b], [a]), state([], [a, b])] };
    },
  },
];

const rangeStories: readonly Story[] = [
  {
    id: 'ranges-let-in',
    title: 'source ranges let in whom they name and nobody else, on every address of the load balancer',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['1.8', '6.12', '6.13', 'k8s#109826'],
    tell: (w) => ({
      objects: [ranged(w, [nobody(w), host(w, w.address('outside'))]), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [1, 2].flatMap((n) => [
        told('outside', w.vip(n), among(['pod-1', 'other'], 'all')),
        ...toldFrom(['pod-3', 'remote-pod', 'node'], w.vip(n), DROPPED),
      ]),
    }),
  },
  {
    id: 'ranges-under-local',
    title: 'they hold under policy Local as well, for outside and for pods',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.13', '4.1.4'],
    tell: (w) => ({
      objects: [
        ranged(w, [host(w, w.address('outside'))], { externalTrafficPolicy: 'Local' }),
        pods(w, 'pod-1', 'other'),
      ],
      settings: clusterCidr(w),
      packets: [told('outside', w.vip(1), among(['pod-1'])), told('pod-3', w.vip(1), DROPPED)],
    }),
  },
  {
    id: 'ranges-with-node',
    title: 'a range that holds the node lets the node in, on every address',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.14', 'k8s#119656', 'k8s#109826'],
    tell: (w) => ({
      objects: [ranged(w, [host(w, w.node)]), pods(w, 'pod-1')],
      settings: { nodeAddresses: [w.node] },
      packets: [1, 2].flatMap((n) => [
        told('node', w.vip(n), among(['pod-1'], 'all')),
        told('outside', w.vip(n), DROPPED),
      ]),
    }),
  },
  {
    id: 'ranges-with-node-address',
    title: 'so it is where the node has the address itself, and the packet has it as its source',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.14', 'k8s#119656'],
    tell: (w) => ({
      objects: [ranged(w, [host(w, w.node)]), pods(w, 'pod-1')],
      settings: { nodeAddresses: [w.node] },
      nodeHas: [w.vip(1), w.vip(2)],
      packets: [1, 2].flatMap((n) => [
        told('node', w.vip(n), among(['pod-1'], 'all'), { as: w.vip(n) }),
        told('outside', w.vip(n), DROPPED),
      ]),
    }),
  },
  {
    id: 'ranges-without-node',
    title: 'a node that is in no range is kept out, though it has the address',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.14', 'k8s#119656'],
    tell: (w) => ({
      objects: [ranged(w, [host(w, w.address('outside'))]), pods(w, 'pod-1')],
      settings: { nodeAddresses: [w.node] },
      nodeHas: [w.vip(1)],
      packets: [told('node', w.vip(1), DROPPED, { as: w.vip(1) }), told('outside', w.vip(1), among(['pod-1'], 'all'))],
    }),
  },
  {
    id: 'ranges-of-length-0',
    title: 'a range of length 0 is no restriction',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['1.8'],
    tell: (w) => ({
      objects: [ranged(w, [nobody(w), everybody(w)]), pods(w, 'pod-1')],
      packets: toldFrom(['outside', 'remote-pod'], w.vip(1), among(['pod-1'], 'all')),
    }),
  },
  {
    id: 'ranges-of-other-family',
    title: 'ranges of the other family alone let nobody of this one in',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['1.8'],
    kubeProxy: { does: 'opens a family of which no range is named' },
    tell: (w) => ({
      objects: [ranged(w, [otherFamily(w)]), pods(w, 'pod-1')],
      packets: toldFrom(['outside', 'pod-3'], w.vip(1), DROPPED),
    }),
  },
  {
    id: 'ranges-malformed',
    title: 'a range that cannot be read lets nobody in, and those that can be count',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['1.8'],
    kubeProxy: { does: 'opens the address when no range is left' },
    tell: (w) => ({
      objects: [ranged(w, ['10.0.0.0/99', ` ${host(w, w.address('outside'))} `]), pods(w, 'pod-1')],
      packets: [told('outside', w.vip(1), among(['pod-1'], 'all')), told('remote-pod', w.vip(1), DROPPED)],
      next: [
        { objects: [ranged(w, ['10.0.0.0/99']), pods(w, 'pod-1')], packets: [told('outside', w.vip(1), DROPPED)] },
      ],
    }),
  },
  {
    id: 'ranges-for-external-ip-too',
    title: 'an external IP that is the address of the load balancer too has its source ranges',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.13'],
    kubeProxy: { does: 'lets everybody in by the external IP', modes: ['iptables'] },
    tell: (w) => ({
      objects: [ranged(w, [nobody(w)], { externalIPs: [w.vip(1)] }), pods(w, 'pod-1')],
      packets: [told('outside', w.vip(1), DROPPED)],
    }),
  },
  {
    id: 'ranges-not-for-others',
    title: 'source ranges do not hold for the cluster IP, external IPs and node ports',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.12', 'k8s#33586'],
    tell: (w) => ({
      objects: [
        ranged(w, [nobody(w)], { externalIPs: [w.externalIP(1)], ports: [{ port: PORT, nodePort: NODE_PORT }] }),
        pods(w, 'pod-1'),
      ],
      settings: clusterCidr(w),
      packets: [
        told('outside', w.vip(1), DROPPED),
        told('outside', w.externalIP(1), among(['pod-1'], 'all')),
        told('outside', w.node, among(['pod-1'], 'all'), { port: NODE_PORT }),
        told('pod-3', w.clusterIP(10), among(['pod-1'])),
      ],
    }),
  },
  {
    id: 'ranges-come-and-go',
    title: 'ranges come, change and go',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.13', 'k8s#88698'],
    tell: (w) => {
      const state = (ranges: readonly string[], isIn: boolean) => ({
        objects: [ranged(w, ranges), pods(w, 'pod-1')],
        packets: [told('outside', w.vip(1), isIn ? among(['pod-1'], 'all') : DROPPED)],
      });
      const outside = host(w, w.address('outside'));
      return {
        ...state([], true),
        next: [
          state([nobody(w)], false),
          state([nobody(w), outside], true),
          state([nobody(w)], false),
          state([], true),
        ],
      };
    },
  },
  {
    id: 'ranges-without-endpoints',
    title: 'ranges without endpoints: refused like any other',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.6'],
    tell: (w) => ({
      objects: [ranged(w, [host(w, w.address('outside'))])],
      packets: [told('outside', w.vip(1), { kind: 'rejected' })],
      next: [
        {
          objects: [ranged(w, [host(w, w.address('outside'))]), pods(w, 'pod-1')],
          packets: [told('outside', w.vip(1), among(['pod-1'], 'all')), told('remote-pod', w.vip(1), DROPPED)],
        },
      ],
    }),
  },
];

/** The same addresses without ranges, for the order of things. */
const plainStories: readonly Story[] = [
  {
    id: 'lb-without-ranges',
    title: 'a load balancer without ranges is open to all',
    field: 'spec.loadBalancerSourceRanges',
    covers: ['6.5'],
    tell: (w) => ({
      objects: [balancerWeb(w), pods(w, 'pod-1')],
      packets: toldFrom(['outside', 'remote-pod', 'pod-3', 'node'], w.vip(1), among(['pod-1'], 'all')),
    }),
  },
];

export const loadBalancerStories: readonly Story[] = [...addressStories, ...plainStories, ...rangeStories];
