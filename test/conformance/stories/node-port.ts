/** Node ports. */
import { balanced, DROPPED, REJECTED, type Story, UNTOUCHED } from '../story.ts';
import { clusterCidr, NODE_PORT, nodePortWeb, PORT, pods, podsWith } from './build.ts';

const BOTH = { 'pod-1': 1 / 2, other: 1 / 2 };

export const nodePortStories: readonly Story[] = [
  {
    title: 'a client outside is balanced over all endpoints and masqueraded',
    field: 'spec.ports.nodePort',
    source: 'reference 2.6, 5.7',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: balanced(BOTH, 'all') }],
    }),
  },
  {
    title: 'a pod and the node use the node port as well',
    field: 'spec.ports.nodePort',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1', 'other')],
      packets: [
        { packet: { from: 'pod-3', to: w.node, port: NODE_PORT }, expected: balanced(BOTH, 'all') },
        { packet: { from: 'node', to: w.node, port: NODE_PORT }, expected: balanced(BOTH, 'all') },
      ],
    }),
  },
  {
    title: 'a node port of UDP',
    field: 'spec.ports.protocol',
    source: 'reference 5.6',
    tell: (w) => ({
      objects: [
        nodePortWeb(w, { ports: [{ port: PORT, nodePort: NODE_PORT, protocol: 'UDP' }] }),
        podsWith(w, { protocol: 'UDP' }, ['pod-1']),
      ],
      packets: [
        {
          packet: { from: 'outside', to: w.node, port: NODE_PORT, protocol: 'UDP' },
          expected: balanced({ 'pod-1': 1 }, 'all'),
        },
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: UNTOUCHED },
      ],
    }),
  },
  {
    title: 'a node port without endpoints refuses at once',
    field: 'endpoints',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [nodePortWeb(w)],
      packets: [
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: REJECTED },
        { packet: { from: 'pod-3', to: w.node, port: NODE_PORT }, expected: REJECTED },
      ],
    }),
  },
  {
    title: 'the cluster IP of a Service with a node port works as before',
    field: 'spec.type',
    source: 'reference 5.6',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    title: 'node ports on chosen addresses only',
    field: '--nodeport-addresses',
    source: 'reference 5.8',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { nodePortAddresses: [w.node] },
      packets: [
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
        {
          packet: { from: 'pod-3', to: [...w.local].find((address) => address !== w.node) ?? '', port: NODE_PORT },
          expected: UNTOUCHED,
        },
      ],
    }),
  },
  {
    title: 'the node reaches a node port by 127.0.0.1',
    field: '--iptables-localhost-nodeports',
    source: 'reference 5.1, 5.8',
    families: ['IPv4'],
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { localhostNodePorts: true },
      packets: [
        { packet: { from: 'node', to: w.loopback, port: NODE_PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
      ],
    }),
  },
  {
    title: 'no node port on a loopback address when that is not wanted, and never on ::1',
    field: '--iptables-localhost-nodeports',
    source: 'reference 5.8',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { localhostNodePorts: false },
      packets: [{ packet: { from: 'node', to: w.loopback, port: NODE_PORT }, expected: UNTOUCHED }],
    }),
  },
  {
    title: 'external policy Local: outside reaches endpoints of this node and is not masqueraded',
    field: 'spec.externalTrafficPolicy',
    source: 'reference 2.6',
    tell: (w) => ({
      objects: [nodePortWeb(w, { externalTrafficPolicy: 'Local' }), pods(w, 'pod-1', 'other')],
      settings: clusterCidr(w),
      packets: [
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: balanced({ 'pod-1': 1 }) },
        { packet: { from: 'pod-3', to: w.node, port: NODE_PORT }, expected: balanced(BOTH) },
        { packet: { from: 'node', to: w.node, port: NODE_PORT }, expected: balanced(BOTH, 'all') },
      ],
    }),
  },
  {
    title: 'external policy Local without an endpoint here: outside is dropped, pods and the node are served',
    field: 'spec.externalTrafficPolicy',
    source: 'reference 2.6, k8s#71596',
    tell: (w) => ({
      objects: [nodePortWeb(w, { externalTrafficPolicy: 'Local' }), pods(w, 'other')],
      settings: clusterCidr(w),
      packets: [
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: DROPPED },
        { packet: { from: 'pod-3', to: w.node, port: NODE_PORT }, expected: balanced({ other: 1 }) },
        { packet: { from: 'node', to: w.node, port: NODE_PORT }, expected: balanced({ other: 1 }, 'all') },
      ],
    }),
  },
];
