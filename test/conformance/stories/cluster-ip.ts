/** ClusterIP Services: balancing, protocols, readiness, refusal, masquerading, hairpin. */
import { among, balanced, DROPPED, REJECTED, type Story, UNSERVED, UNTOUCHED } from '../story.ts';
import { clusterCidr, PORT, pods, podsWith, REFUSES_INTERNAL_LOCAL, told, toldFrom, web } from './build.ts';

const HALVES = { 'pod-1': 1 / 2, 'pod-2': 1 / 2 };
const THIRDS = { 'pod-1': 1 / 3, 'pod-2': 1 / 3, other: 1 / 3 };

export const clusterIPStories: readonly Story[] = [
  {
    id: 'cluster-ip-balanced',
    title: 'a pod is balanced over all endpoints and keeps its address',
    field: 'spec.clusterIP',
    covers: ['4.1.1', '6.1', '7.9', 'k8s#37932'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'pod-2', 'other')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced(THIRDS) }],
    }),
  },
  {
    id: 'cluster-ip-udp',
    title: 'UDP is balanced like TCP',
    field: 'spec.ports.protocol',
    covers: ['6.1', '1.4'],
    tell: (w) => ({
      objects: [
        web(w, { ports: [{ port: PORT, protocol: 'UDP' }] }),
        podsWith(w, { protocol: 'UDP' }, ['pod-1', 'pod-2']),
      ],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT, protocol: 'UDP' }, expected: balanced(HALVES) },
      ],
    }),
  },
  {
    id: 'cluster-ip-sctp',
    title: 'SCTP is balanced like TCP',
    field: 'spec.ports.protocol',
    covers: ['6.1', '1.4'],
    onlyInterpreted: 'kernels may lack SCTP sockets; test/netns/sctp.test.ts sends its packets over raw ones',
    tell: (w) => ({
      objects: [
        web(w, { ports: [{ port: PORT, protocol: 'SCTP' }] }),
        podsWith(w, { protocol: 'SCTP' }, ['pod-1', 'pod-2']),
      ],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT, protocol: 'SCTP' }, expected: balanced(HALVES) },
      ],
    }),
  },
  {
    id: 'one-port-two-protocols',
    title: 'one port number in two protocols goes to two sets of endpoints',
    field: 'spec.ports.protocol',
    covers: ['2.4', '1.3', '1.4'],
    tell: (w) => ({
      objects: [
        web(w, {
          ports: [
            { name: 'dns-tcp', port: PORT, protocol: 'TCP' },
            { name: 'dns', port: PORT, protocol: 'UDP' },
          ],
        }),
        podsWith(w, { name: 'web-1', portName: 'dns-tcp' }, ['pod-1']),
        podsWith(w, { name: 'web-2', portName: 'dns', protocol: 'UDP' }, ['pod-2']),
      ],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) },
        {
          packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT, protocol: 'UDP' },
          expected: balanced({ 'pod-2': 1 }),
        },
      ],
    }),
  },
  {
    id: 'node-masqueraded-by-cluster-cidr',
    title: 'the node is masqueraded when a cluster CIDR is known, a pod is not',
    field: '--cluster-cidr',
    covers: ['5.1.1', '7.3'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [
        {
          packet: { from: 'node', to: w.clusterIP(10), port: PORT },
          expected: balanced({ 'pod-1': 1 / 2, other: 1 / 2 }, 'all'),
        },
        {
          packet: { from: 'outside', to: w.clusterIP(10), port: PORT },
          expected: balanced({ 'pod-1': 1 / 2, other: 1 / 2 }, 'all'),
        },
        {
          packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT },
          expected: balanced({ 'pod-1': 1 / 2, other: 1 / 2 }),
        },
      ],
    }),
  },
  {
    id: 'pods-by-bridge',
    title: 'pods are told by their bridge',
    field: '--detect-local-mode=BridgeInterface',
    covers: ['5.1.3', '7.3'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { localDetector: { kind: 'interface', name: 'cni0' } },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) },
        { packet: { from: 'outside', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    id: 'pods-by-own-range',
    title: 'pods of this node are told by its own range: those of other nodes are masqueraded',
    field: '--detect-local-mode=NodeCIDR',
    covers: ['5.1.2', '7.3'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'other')],
      settings: { localDetector: { kind: 'cidr', cidr: w.podCidr } },
      packets: [
        told('pod-3', w.clusterIP(10), among(['pod-1', 'other'])),
        ...toldFrom(['remote-pod', 'outside', 'node'], w.clusterIP(10), among(['pod-1', 'other'], 'all')),
      ],
    }),
  },
  {
    id: 'pods-by-interface-prefix',
    title: 'pods are told by the prefix of their interfaces',
    field: '--detect-local-mode=InterfaceNamePrefix',
    covers: ['5.1.4', '7.3'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { localDetector: { kind: 'interface', name: 'cn+' } },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) },
        { packet: { from: 'outside', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    id: 'all-masqueraded',
    title: 'all traffic is masqueraded on request',
    field: '--masquerade-all',
    covers: ['7.2'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { masqueradeAll: true },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    id: 'other-mark-bit',
    title: 'another bit of the mark asks for masquerading',
    field: '--iptables-masquerade-bit',
    covers: ['7.1'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { masqueradeAll: true, masqueradeBit: 31 },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    id: 'pod-reaches-itself',
    title: 'a pod that reaches itself sees the node as the client',
    field: 'spec.clusterIP',
    covers: ['7.7', 'k8s#53775'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'pod-2')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-1', to: w.clusterIP(10), port: PORT }, expected: balanced(HALVES, ['pod-1']) }],
    }),
  },
  {
    id: 'sole-pod-reaches-itself',
    title: 'a pod that is the only endpoint reaches itself',
    field: 'spec.clusterIP',
    covers: ['7.7', 'k8s#53775'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      packets: [
        { packet: { from: 'pod-1', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    id: 'cluster-ip-without-endpoints',
    title: 'a Service without endpoints refuses at once, pods, the node and outside',
    field: 'endpoints',
    covers: ['4.1.1', '6.2'],
    tell: (w) => ({
      objects: [web(w)],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: REJECTED },
        { packet: { from: 'node', to: w.clusterIP(10), port: PORT }, expected: REJECTED },
        { packet: { from: 'outside', to: w.clusterIP(10), port: PORT }, expected: REJECTED },
      ],
    }),
  },
  {
    id: 'cluster-ip-udp-without-endpoints',
    title: 'a UDP Service without endpoints refuses at once',
    field: 'endpoints',
    covers: ['4.1.1', '6.2', 'k8s#139628'],
    tell: (w) => ({
      objects: [web(w, { ports: [{ port: PORT, protocol: 'UDP' }] })],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT, protocol: 'UDP' }, expected: REJECTED }],
    }),
  },
  {
    id: 'unserved-port',
    title: 'a port that no Service has is left alone',
    field: 'spec.ports.port',
    covers: ['k8s#22952'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT + 1 }, expected: UNSERVED },
        { packet: { from: 'pod-3', to: w.clusterIP(11), port: PORT }, expected: UNTOUCHED },
      ],
    }),
  },
  {
    id: 'internal-local',
    title: 'internal policy Local: only endpoints of this node',
    field: 'spec.internalTrafficPolicy',
    covers: ['4.1.2', '1.9', 'KEP-2086'],
    tell: (w) => ({
      objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, 'pod-1', 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    id: 'internal-local-without-endpoint-here',
    title: 'internal policy Local without an endpoint here: dropped, and refused when there is none at all',
    field: 'spec.internalTrafficPolicy',
    covers: ['4.1.2', '6.2'],
    kubeProxy: REFUSES_INTERNAL_LOCAL,
    tell: (w) => {
      const state = (expected: typeof DROPPED, ...others: 'other'[]) => ({
        objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, ...others)],
        packets: toldFrom(['pod-3', 'node', 'outside'], w.clusterIP(10), expected),
      });
      return { ...state(DROPPED, 'other'), next: [state(REJECTED), state(DROPPED, 'other')] };
    },
  },
];
