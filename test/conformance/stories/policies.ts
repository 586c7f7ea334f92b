/** Which list serves which traffic, and what an empty one answers (docs/semantics.md 4.1), on every kind of external address. */

import type { StoryCluster } from '../cluster.ts';
import { among, DROPPED, type Expected, REJECTED, type Story } from '../story.ts';
import { as, balancerWeb, clusterCidr, DRAINING, NODE_PORT, nodePortWeb, PORT, pods, web } from './build.ts';

/** A kind of external address: a Service that has it, and where its clients go. */
interface External {
  readonly name: string;
  /** Its rule in docs/semantics.md, and the one for a Service without endpoints. */
  readonly row: string;
  readonly emptyRow: string;
  readonly field: string;
  service(w: StoryCluster, spec: Record<string, unknown>): object;
  at(w: StoryCluster): { readonly to: string; readonly port: number };
}

const EXTERNALS: readonly External[] = [
  {
    name: 'a node port',
    row: '6.7',
    emptyRow: '6.8',
    field: 'spec.ports.nodePort',
    service: nodePortWeb,
    at: (w) => ({ to: w.node, port: NODE_PORT }),
  },
  {
    name: 'an external IP',
    row: '6.3',
    emptyRow: '6.4',
    field: 'spec.externalIPs',
    service: (w, spec) => web(w, { externalIPs: [w.externalIP(1)], ...spec }),
    at: (w) => ({ to: w.externalIP(1), port: PORT }),
  },
  {
    name: 'an address of the load balancer',
    row: '6.5',
    emptyRow: '6.6',
    field: 'status.loadBalancer.ingress',
    service: balancerWeb,
    at: (w) => ({ to: w.vip(1), port: PORT }),
  },
];

const LOCAL = { externalTrafficPolicy: 'Local' };

/** A node port is the node's own: the others leave it. */
function leavesNode(row: string): { kubeProxy?: string } {
  return row === '6.7' ? {} : { kubeProxy: 'lets what the node itself sends leave the node' };
}

/** The stories of one kind of address; the rules are those of docs/semantics.md 4.1. */
function storiesOf({ name, row, emptyRow, field, service, at }: External): Story[] {
  const packet = (w: StoryCluster, from: 'outside' | 'pod-3' | 'node', expected: Expected) => ({
    packet: { from, ...at(w) },
    expected,
  });
  return [
    {
      title: `${name}, policy Cluster: all endpoints, masqueraded, whoever asks`,
      field,
      covers: ['4.1.3', '4.1.7', row, '7.4'],
      tell: (w) => ({
        objects: [service(w, {}), pods(w, 'pod-1', 'other')],
        settings: clusterCidr(w),
        packets: (['outside', 'pod-3', 'node'] as const).map((from) =>
          packet(w, from, among(['pod-1', 'other'], 'all')),
        ),
      }),
    },
    {
      title: `${name}, policy Cluster, without endpoints: refused, whoever asks`,
      field,
      covers: ['4.1.3', '4.1.7', emptyRow],
      ...leavesNode(row),
      tell: (w) => ({
        objects: [service(w, {})],
        settings: clusterCidr(w),
        packets: (['outside', 'pod-3', 'node'] as const).map((from) => packet(w, from, REJECTED)),
      }),
    },
    {
      title: `${name}, policy Local: outside only endpoints here and seen by them; a pod and the node all`,
      field: 'spec.externalTrafficPolicy',
      covers: ['4.1.4', '4.1.5', '4.1.6', '7.5', 'k8s#57678', 'k8s#66062', 'k8s#124260'],
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, 'pod-1', 'other')],
        settings: clusterCidr(w),
        packets: [
          packet(w, 'outside', among(['pod-1'])),
          packet(w, 'pod-3', among(['pod-1', 'other'])),
          packet(w, 'node', among(['pod-1', 'other'], 'all')),
        ],
      }),
    },
    {
      title: `${name}, policy Local, without an endpoint here: outside dropped, a pod and the node served`,
      field: 'spec.externalTrafficPolicy',
      covers: ['4.1.4', '4.1.5', '4.1.6', '7.6', 'k8s#71596'],
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, 'other')],
        settings: clusterCidr(w),
        packets: [
          packet(w, 'outside', DROPPED),
          packet(w, 'pod-3', among(['other'])),
          packet(w, 'node', among(['other'], 'all')),
        ],
      }),
    },
    {
      title: `${name}, policy Local, without any endpoint: refused, whoever asks`,
      field: 'spec.externalTrafficPolicy',
      ...leavesNode(row),
      covers: ['4.1.4', '4.1.5', '4.1.6', emptyRow],
      tell: (w) => ({
        objects: [service(w, LOCAL)],
        settings: clusterCidr(w),
        packets: (['outside', 'pod-3', 'node'] as const).map((from) => packet(w, from, REJECTED)),
      }),
    },
    {
      title: `${name}, policy Local: where pods cannot be told, a pod is as good as outside`,
      field: 'spec.externalTrafficPolicy',
      covers: ['4.2', '5.1.5'],
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, 'pod-1', 'other')],
        packets: [packet(w, 'outside', among(['pod-1'])), packet(w, 'pod-3', among(['pod-1']))],
      }),
    },
    {
      title: `${name}, policy Local: a draining endpoint here serves outside while ready ones elsewhere serve pods`,
      field: 'spec.externalTrafficPolicy',
      covers: ['3.3.3', '4.1.4', '4.1.5', 'KEP-1669'],
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, as('pod-1', DRAINING), 'other')],
        settings: clusterCidr(w),
        packets: [packet(w, 'outside', among(['pod-1'])), packet(w, 'pod-3', among(['other']))],
      }),
    },
    {
      title: `${name}: the internal policy is not its own`,
      field: 'spec.internalTrafficPolicy',
      covers: ['3.3.3', '4.1.3'],
      tell: (w) => ({
        objects: [service(w, { internalTrafficPolicy: 'Local' }), pods(w, 'other')],
        settings: clusterCidr(w),
        packets: [
          packet(w, 'outside', among(['other'], 'all')),
          { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: DROPPED },
        ],
      }),
    },
  ];
}

export const policyStories: readonly Story[] = [
  ...EXTERNALS.flatMap(storiesOf),
  {
    title: 'the external policy of a Service that nobody outside reaches means nothing',
    field: 'spec.externalTrafficPolicy',
    covers: ['1.10'],
    tell: (w) => ({
      objects: [web(w, LOCAL), pods(w, 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: among(['other']) }],
    }),
  },
  {
    title: 'a policy changes back and forth',
    field: 'spec.externalTrafficPolicy',
    covers: ['4.1.3', '4.1.4'],
    tell: (w) => {
      const state = (spec: Record<string, unknown>, expected: Expected) => ({
        objects: [nodePortWeb(w, spec), pods(w, 'pod-1', 'other')],
        packets: [{ packet: { from: 'outside' as const, to: w.node, port: NODE_PORT }, expected }],
      });
      const cluster = state({}, among(['pod-1', 'other'], 'all'));
      return { ...cluster, next: [state(LOCAL, among(['pod-1'])), cluster] };
    },
  },
];
