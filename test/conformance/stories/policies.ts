/** Which list serves which traffic, and what an empty one answers (docs/semantics.md 4.1), on every kind of external address. */

import type { StoryCluster } from '../cluster.ts';
import { among, DROPPED, type Expected, REJECTED, type Story, type StoryCase, type StorySettings } from '../story.ts';
import {
  as,
  balancerWeb,
  clusterCidr,
  DRAINING,
  LOCAL_WHOEVER_ASKS,
  NODE_PORT,
  nodePortWeb,
  OWN_NODE_ALONE,
  PORT,
  pods,
  REFUSES_INTERNAL_LOCAL,
  web,
} from './build.ts';

/** A kind of external address: a Service that has it, and where its clients go. */
interface External {
  /** The ids of its stories begin with it. */
  readonly id: string;
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
    id: 'node-port',
    name: 'a node port',
    row: '6.7',
    emptyRow: '6.8',
    field: 'spec.ports.nodePort',
    service: nodePortWeb,
    at: (w) => ({ to: w.node, port: NODE_PORT }),
  },
  {
    id: 'external-ip',
    name: 'an external IP',
    row: '6.3',
    emptyRow: '6.4',
    field: 'spec.externalIPs',
    service: (w, spec) => web(w, { externalIPs: [w.externalIP(1)], ...spec }),
    at: (w) => ({ to: w.externalIP(1), port: PORT }),
  },
  {
    id: 'lb',
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
function leavesNode(row: string): Pick<Story, 'kubeProxy'> {
  return row === '6.7'
    ? {}
    : { kubeProxy: { does: 'lets what the node itself sends leave the node', modes: ['iptables'] } };
}

/** The stories of one kind of address; the rules are those of docs/semantics.md 4.1. */
function storiesOf({ id, name, row, emptyRow, field, service, at }: External): Story[] {
  const packet = (w: StoryCluster, from: 'outside' | 'pod-3' | 'other' | 'node', expected: Expected) => ({
    packet: { from, ...at(w) },
    expected,
  });
  return [
    {
      id: `${id}-cluster`,
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
      id: `${id}-cluster-without-endpoints`,
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
      id: `${id}-local`,
      title: `${name}, policy Local: outside only endpoints here and seen by them; a pod and the node all`,
      field: 'spec.externalTrafficPolicy',
      covers: ['4.1.4', '4.1.5', '4.1.6', '7.5', 'k8s#57678', 'k8s#66062', 'k8s#124260'],
      kubeProxy: LOCAL_WHOEVER_ASKS,
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
      id: `${id}-local-without-endpoint-here`,
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
      id: `${id}-local-without-endpoints`,
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
      id: `${id}-local-pods-unknown`,
      title: `${name}, policy Local: where pods cannot be told, a pod is as good as outside`,
      field: 'spec.externalTrafficPolicy',
      covers: ['4.2', '5.1.5'],
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, 'pod-1', 'other')],
        packets: [packet(w, 'outside', among(['pod-1'])), packet(w, 'pod-3', among(['pod-1']))],
      }),
    },
    {
      id: `${id}-local-draining-here`,
      title: `${name}, policy Local: a draining endpoint here serves outside while ready ones elsewhere serve pods`,
      field: 'spec.externalTrafficPolicy',
      covers: ['3.3.3', '4.1.4', '4.1.5', 'KEP-1669'],
      kubeProxy: LOCAL_WHOEVER_ASKS,
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, as('pod-1', DRAINING), 'other')],
        settings: clusterCidr(w),
        packets: [packet(w, 'outside', among(['pod-1'])), packet(w, 'pod-3', among(['other']))],
      }),
    },
    {
      id: `${id}-local-remote-pod-to-itself`,
      title: `${name}, policy Local: a pod of another node reaches itself, masqueraded`,
      field: 'spec.externalTrafficPolicy',
      covers: ['7.5', '7.7'],
      kubeProxy: OWN_NODE_ALONE,
      tell: (w) => ({
        objects: [service(w, LOCAL), pods(w, 'pod-1', 'other')],
        settings: clusterCidr(w),
        packets: [
          packet(w, 'other', among(['pod-1', 'other'], ['other'])),
          packet(w, 'pod-3', among(['pod-1', 'other'])),
        ],
        next: [
          {
            objects: [service(w, LOCAL), pods(w, 'other')],
            packets: [packet(w, 'other', among(['other'], 'all')), packet(w, 'pod-3', among(['other']))],
          },
        ],
      }),
    },
    {
      id: `${id}-cluster-remote-pod-to-itself`,
      title: `${name}, policy Cluster: a pod of another node reaches itself, masqueraded as before every endpoint`,
      field,
      covers: ['7.4', '7.7'],
      tell: (w) => ({
        objects: [service(w, {}), pods(w, 'pod-1', 'other')],
        settings: clusterCidr(w),
        packets: [packet(w, 'other', among(['pod-1', 'other'], 'all'))],
        next: [
          {
            objects: [service(w, {}), pods(w, 'other')],
            packets: [packet(w, 'other', among(['other'], 'all'))],
          },
        ],
      }),
    },
    {
      id: `${id}-internal-policy-apart`,
      title: `${name}: the internal policy is not its own`,
      field: 'spec.internalTrafficPolicy',
      covers: ['3.3.3', '4.1.3'],
      kubeProxy: REFUSES_INTERNAL_LOCAL,
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

const NODE = (w: StoryCluster) => ({ to: w.node, port: NODE_PORT });

/** A pod of another node uses the node port, by the settings that tell pods. */
function toldBy(
  w: StoryCluster,
  localDetector: StorySettings['localDetector'] & object,
  expected: Expected,
): StoryCase {
  return {
    objects: [nodePortWeb(w, LOCAL), pods(w, 'pod-1', 'other')],
    settings: { localDetector },
    packets: [{ packet: { from: 'other', ...NODE(w) }, expected }],
  };
}

export const policyStories: readonly Story[] = [
  ...EXTERNALS.flatMap(storiesOf),
  {
    id: 'local-remote-pod-told-apart',
    title: 'policy Local: a pod of another node that this one tells from its own is as good as outside',
    field: '--detect-local-mode=NodeCIDR',
    covers: ['5.1.2', '7.5', '7.7'],
    tell: (w) => toldBy(w, { kind: 'cidr', cidr: w.podCidr }, among(['pod-1'])),
  },
  {
    id: 'local-one-bridge-for-all-nodes',
    title:
      'policy Local: pods of all nodes on one bridge count as pods of this node, and each reaches itself, masqueraded',
    field: '--detect-local-mode=BridgeInterface',
    covers: ['5.1.3', '7.5', '7.7'],
    kubeProxy: OWN_NODE_ALONE,
    tell: (w) => toldBy(w, { kind: 'interface', name: 'eth0' }, among(['pod-1', 'other'], ['other'])),
  },
  {
    id: 'local-masquerade-all-remote-pod',
    title: 'policy Local with --masquerade-all: a pod of another node reaches itself, masqueraded',
    field: '--masquerade-all',
    covers: ['7.2', '7.7'],
    kubeProxy: OWN_NODE_ALONE,
    tell: (w) => ({
      objects: [nodePortWeb(w, LOCAL), pods(w, 'pod-1', 'other')],
      settings: { ...clusterCidr(w), masqueradeAll: true },
      packets: [{ packet: { from: 'other', ...NODE(w) }, expected: among(['pod-1', 'other'], ['other']) }],
    }),
  },
  {
    id: 'local-affinity-remote-pod',
    title: 'policy Local with affinity: a pod of another node that is known to itself is masqueraded',
    field: 'spec.sessionAffinity',
    covers: ['7.7', '7.8'],
    onlyInterpreted: 'an endpoint that remembers a client answers it alone, and the first one is a matter of chance',
    tell: (w) => ({
      objects: [nodePortWeb(w, { ...LOCAL, sessionAffinity: 'ClientIP' }), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'other', ...NODE(w), knownTo: ['other'] }, expected: among(['other'], 'all') }],
    }),
  },
  {
    id: 'cluster-ip-remote-pod-to-itself',
    title: 'a cluster IP that another node leaves to this one: a pod there that comes to itself keeps its address',
    field: 'spec.clusterIP',
    covers: ['7.7'],
    kubeProxy: { does: 'masquerades it', modes: ['iptables'] },
    onlyInterpreted: 'the pod does not recognise its own answer',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'other', to: w.clusterIP(10), port: PORT }, expected: among(['pod-1', 'other']) }],
    }),
  },
  {
    id: 'external-policy-without-meaning',
    title: 'the external policy of a Service that nobody outside reaches means nothing',
    field: 'spec.externalTrafficPolicy',
    covers: ['1.10'],
    tell: (w) => ({
      objects: [web(w, LOCAL), pods(w, 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: among(['other']) }],
    }),
  },
  {
    id: 'policy-changes-and-back',
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
