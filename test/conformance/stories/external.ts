/** External IPs, load-balancer addresses, source ranges, hints, affinity. */
import { balanced, DROPPED, REJECTED, type Story, UNTOUCHED } from '../story.ts';
import { balancerWeb, clusterCidr, PORT, pods, vips, web } from './build.ts';

const BOTH = { 'pod-1': 1 / 2, other: 1 / 2 };

export const externalStories: readonly Story[] = [
  {
    title: 'an external IP is balanced over all endpoints and masqueraded, from outside, pods and the node',
    field: 'spec.externalIPs',
    source: 'reference 2.6, 5.6',
    tell: (w) => ({
      objects: [web(w, { externalIPs: [w.externalIP(1)] }), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: (['outside', 'pod-3', 'node'] as const).map((from) => ({
        packet: { from, to: w.externalIP(1), port: PORT },
        expected: balanced(BOTH, 'all'),
      })),
    }),
  },
  {
    title: 'an external IP without endpoints refuses',
    field: 'spec.externalIPs',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [web(w, { externalIPs: [w.externalIP(1)] })],
      packets: [{ packet: { from: 'outside', to: w.externalIP(1), port: PORT }, expected: REJECTED }],
    }),
  },
  {
    title: "an external IP that is another Service's cluster IP takes nothing from it",
    field: 'spec.externalIPs',
    source: 'CVE-2020-8554',
    tell: (w) => {
      const hijacker = web(w, { clusterIP: w.clusterIP(11), externalIPs: [w.clusterIP(10)] }) as {
        metadata: { name: string };
      };
      hijacker.metadata.name = 'a-hijacker';
      return {
        objects: [web(w), pods(w, 'pod-1'), hijacker],
        packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
      };
    },
  },
  {
    title: 'a load-balancer address with external policy Local: outside sees only endpoints here, and is seen',
    field: 'spec.externalTrafficPolicy',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [balancerWeb(w, { externalTrafficPolicy: 'Local' }), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [
        { packet: { from: 'outside', to: w.vip(1), port: PORT }, expected: balanced({ 'pod-1': 1 }) },
        { packet: { from: 'pod-3', to: w.vip(1), port: PORT }, expected: balanced(BOTH) },
        { packet: { from: 'node', to: w.vip(1), port: PORT }, expected: balanced(BOTH, 'all') },
      ],
    }),
  },
  {
    title: 'an address that the load balancer translates itself is left to it',
    field: 'status.loadBalancer.ingress.ipMode',
    source: 'KEP-1860',
    tell: (w) => ({
      objects: [
        web(
          w,
          { type: 'LoadBalancer' },
          { loadBalancer: { ingress: [{ ip: w.vip(1), ipMode: 'Proxy' }, { hostname: 'lb' }] } },
        ),
        pods(w, 'pod-1'),
      ],
      packets: [{ packet: { from: 'outside', to: w.vip(1), port: PORT }, expected: UNTOUCHED }],
    }),
  },
  {
    title: 'source ranges let in whom they name and nobody else, on every address of the load balancer',
    field: 'spec.loadBalancerSourceRanges',
    source: 'reference 5.7, k8s#109826',
    tell: (w) => ({
      objects: [
        web(
          w,
          {
            type: 'LoadBalancer',
            loadBalancerSourceRanges: [`${w.address('outside')}/${w.family === 'IPv4' ? 32 : 128}`],
          },
          vips(w.vip(1), w.vip(2)),
        ),
        pods(w, 'pod-1'),
      ],
      packets: [1, 2].flatMap((n) => [
        { packet: { from: 'outside' as const, to: w.vip(n), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
        { packet: { from: 'remote-pod' as const, to: w.vip(n), port: PORT }, expected: DROPPED },
      ]),
    }),
  },
  {
    title: 'hints keep a zone to itself, and are not used where this zone has none',
    field: 'endpoints.hints.forZones',
    source: 'reference 2.4, KEP-2433',
    tell: (w) => ({
      objects: [
        web(w),
        pods(
          w,
          { at: 'pod-1', hints: { forZones: [{ name: 'a' }] } },
          { at: 'other', hints: { forZones: [{ name: 'b' }] } },
        ),
      ],
      zone: 'a',
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'ClientIP affinity: a new client is balanced as ever',
    field: 'spec.sessionAffinity',
    source: 'reference 5.7',
    onlyInterpreted: 'a real client is remembered after its first packet; test/netns/affinity.test.ts tells that',
    tell: (w) => ({
      objects: [web(w, { sessionAffinity: 'ClientIP' }), pods(w, 'pod-1', 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced(BOTH) }],
    }),
  },
];
