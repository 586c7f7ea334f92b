/** ClusterIP Services: balancing, protocols, readiness, refusal, masquerading, hairpin. */
import { balanced, DROPPED, REJECTED, type Story, UNTOUCHED } from '../story.ts';
import { as, clusterCidr, DRAINING, PORT, pods, podsWith, UNREADY, web } from './build.ts';

const HALVES = { 'pod-1': 1 / 2, 'pod-2': 1 / 2 };
const THIRDS = { 'pod-1': 1 / 3, 'pod-2': 1 / 3, other: 1 / 3 };

export const clusterIPStories: readonly Story[] = [
  {
    title: 'a pod is balanced over all endpoints and keeps its address',
    field: 'spec.clusterIP',
    source: 'reference 5.6, 5.7',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'pod-2', 'other')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced(THIRDS) }],
    }),
  },
  {
    title: 'UDP is balanced like TCP',
    field: 'spec.ports.protocol',
    source: 'reference 5.6',
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
    title: 'SCTP is balanced like TCP',
    field: 'spec.ports.protocol',
    source: 'reference 5.6',
    onlyInterpreted: 'the kernel of the tests may lack SCTP sockets',
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
    title: 'one port number in two protocols goes to two sets of endpoints',
    field: 'spec.ports.protocol',
    source: 'reference 3.4',
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
    title: 'the node is masqueraded when a cluster CIDR is known, a pod is not',
    field: '--cluster-cidr',
    source: 'reference 1.9, 5.7',
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
    title: 'pods are told by their bridge',
    field: '--detect-local-mode=BridgeInterface',
    source: 'reference 1.9',
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
    title: 'pods are told by the prefix of their interfaces',
    field: '--detect-local-mode=InterfaceNamePrefix',
    source: 'reference 1.9',
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
    title: 'all traffic is masqueraded on request',
    field: '--masquerade-all',
    source: 'reference 5.7',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { masqueradeAll: true },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    title: 'another bit of the mark asks for masquerading',
    field: '--iptables-masquerade-bit',
    source: 'reference 5.5',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { masqueradeAll: true, masqueradeBit: 31 },
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    title: 'a pod that reaches itself sees the node as the client',
    field: 'spec.clusterIP',
    source: 'reference 5.7, k8s#53775',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', 'pod-2')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-1', to: w.clusterIP(10), port: PORT }, expected: balanced(HALVES, ['pod-1']) }],
    }),
  },
  {
    title: 'a pod that is the only endpoint reaches itself',
    field: 'spec.clusterIP',
    source: 'k8s#53775',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      packets: [
        { packet: { from: 'pod-1', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    title: 'an endpoint whose node is not known may be the sender itself',
    field: 'endpoints.nodeName',
    source: 'design 5',
    tell: (w) => ({
      objects: [web(w), pods(w, { at: 'pod-1', placeless: true })],
      packets: [
        { packet: { from: 'pod-1', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    title: 'a Service without endpoints refuses at once, pods, the node and outside',
    field: 'endpoints',
    source: 'reference 2.6',
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
    title: 'a UDP Service without endpoints refuses at once',
    field: 'endpoints',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [web(w, { ports: [{ port: PORT, protocol: 'UDP' }] })],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT, protocol: 'UDP' }, expected: REJECTED }],
    }),
  },
  {
    title: 'a port that no Service has is left alone',
    field: 'spec.ports.port',
    source: 'reference 5.6',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      packets: [
        { packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT + 1 }, expected: UNTOUCHED },
        { packet: { from: 'pod-3', to: w.clusterIP(11), port: PORT }, expected: UNTOUCHED },
      ],
    }),
  },
  {
    title: 'endpoints that are not ready get nothing',
    field: 'endpoints.conditions.ready',
    source: 'reference 2.5',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1', as('pod-2', UNREADY))],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'draining endpoints get nothing while a ready one is there',
    field: 'endpoints.conditions.terminating',
    source: 'reference 2.5, KEP-1669',
    tell: (w) => ({
      objects: [web(w), pods(w, as('pod-1', DRAINING), 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ other: 1 }) }],
    }),
  },
  {
    title: 'draining endpoints that still serve are used when none is ready',
    field: 'endpoints.conditions.serving',
    source: 'reference 2.5, KEP-1669',
    tell: (w) => ({
      objects: [web(w), pods(w, as('pod-1', DRAINING), as('pod-2', UNREADY))],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'endpoints that neither are ready nor serve leave the Service without any',
    field: 'endpoints.conditions.serving',
    source: 'reference 2.5',
    tell: (w) => ({
      objects: [
        web(w),
        pods(w, as('pod-1', { ready: false, serving: false, terminating: true }), as('pod-2', UNREADY)),
      ],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: REJECTED }],
    }),
  },
  {
    title: 'conditions that are not set mean ready',
    field: 'endpoints.conditions.ready',
    source: 'reference 3.3',
    tell: (w) => ({
      objects: [web(w), pods(w, as('pod-1', {}))],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'endpoints of several slices are one set, and one that is in two counts once',
    field: 'metadata.labels[kubernetes.io/service-name]',
    source: 'reference 3.4',
    tell: (w) => ({
      objects: [web(w), podsWith(w, { name: 'a' }, ['pod-1', 'pod-2']), podsWith(w, { name: 'b' }, ['pod-2', 'other'])],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced(THIRDS) }],
    }),
  },
  {
    title: 'of an endpoint in two slices the one that is not draining counts',
    field: 'endpoints.conditions.terminating',
    source: 'reference 3.4',
    tell: (w) => ({
      objects: [
        web(w),
        podsWith(w, { name: 'a' }, [as('pod-1', DRAINING)]),
        podsWith(w, { name: 'b' }, ['pod-1', 'pod-2']),
      ],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced(HALVES) }],
    }),
  },
  {
    title: 'internal policy Local: only endpoints of this node',
    field: 'spec.internalTrafficPolicy',
    source: 'reference 2.6, KEP-2086',
    tell: (w) => ({
      objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, 'pod-1', 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'internal policy Local without an endpoint here: dropped, and refused when there is none at all',
    field: 'spec.internalTrafficPolicy',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, 'other')],
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: DROPPED }],
    }),
  },
];
