/** Node ports. */
import { among, balanced, DROPPED, type PacketFate, type Story, UNTOUCHED } from '../story.ts';
import { clusterCidr, NODE_PORT, nodePortWeb, PORT, pods, podsWith, told, vips, web } from './build.ts';

export const nodePortStories: readonly Story[] = [
  {
    id: 'node-port-udp',
    title: 'a node port of UDP',
    field: 'spec.ports.protocol',
    covers: ['6.7', '1.4'],
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
    id: 'node-port-sctp',
    title: 'a node port of SCTP, on several addresses of the node and under policy Local',
    field: 'spec.ports.protocol',
    covers: ['6.7', '6.9', '1.4', '7.5'],
    onlyInterpreted: 'kernels may lack SCTP sockets; test/netns/sctp.test.ts sends its packets over raw ones',
    tell: (w) => {
      const to = { port: NODE_PORT, protocol: 'SCTP' } as const;
      const state = (spec: Record<string, unknown>, packets: readonly PacketFate[]) => ({
        objects: [
          nodePortWeb(w, { ports: [{ port: PORT, nodePort: NODE_PORT, protocol: 'SCTP' }], ...spec }),
          podsWith(w, { protocol: 'SCTP' }, ['pod-1', 'other']),
        ],
        packets,
      });
      const all = among(['pod-1', 'other'], 'all');
      return {
        ...state({}, [told('outside', w.node, all, to), told('pod-3', w.gateway, all, to)]),
        settings: clusterCidr(w),
        next: [state({ externalTrafficPolicy: 'Local' }, [told('outside', w.node, among(['pod-1']), to)])],
      };
    },
  },
  {
    id: 'node-port-keeps-cluster-ip',
    title: 'the cluster IP of a Service with a node port works as before',
    field: 'spec.type',
    covers: ['6.1', '6.7'],
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: clusterCidr(w),
      packets: [{ packet: { from: 'pod-3', to: w.clusterIP(10), port: PORT }, expected: balanced({ 'pod-1': 1 }) }],
    }),
  },
  {
    id: 'node-port-chosen-addresses',
    title: 'node ports on chosen addresses only',
    field: '--nodeport-addresses',
    covers: ['6.9', '1.5', 'k8s#89923', 'k8s#61953'],
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { nodePortAddresses: [w.node] },
      packets: [
        { packet: { from: 'outside', to: w.node, port: NODE_PORT }, expected: balanced({ 'pod-1': 1 }, 'all') },
        {
          packet: { from: 'pod-3', to: w.gateway, port: NODE_PORT },
          expected: UNTOUCHED,
        },
      ],
    }),
  },
  {
    id: 'node-port-on-loopback',
    title: 'the node reaches a node port by 127.0.0.1',
    field: '--iptables-localhost-nodeports',
    covers: ['6.10', '6.9'],
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
    id: 'node-port-not-on-loopback',
    title: 'no node port on a loopback address when that is not wanted, and never on ::1',
    field: '--iptables-localhost-nodeports',
    covers: ['6.9', '6.10'],
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { localhostNodePorts: false },
      packets: [{ packet: { from: 'node', to: w.loopback, port: NODE_PORT }, expected: UNTOUCHED }],
    }),
  },
  {
    id: 'node-port-any-loopback-address',
    title: 'any loopback address will do, and a neighbour reaches none of them (CVE-2020-8558)',
    field: '--iptables-localhost-nodeports',
    covers: ['6.10', '6.11', 'CVE-2020-8558', 'k8s#92315'],
    families: ['IPv4'],
    onlyInterpreted: 'test/netns/localhost.test.ts sends such packets',
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1')],
      settings: { localhostNodePorts: true },
      packets: [
        told('node', '127.0.0.5', among(['pod-1'], 'all'), { port: NODE_PORT }),
        told('outside', '127.0.0.1', DROPPED, { port: NODE_PORT + 1, as: w.address('outside') }),
        told('pod-3', '127.0.0.1', DROPPED, { port: NODE_PORT + 1, as: w.address('pod-3') }),
      ],
    }),
  },
  {
    id: 'sole-pod-by-outer-addresses',
    title: 'a pod that is the only endpoint reaches itself by a node port, an external IP and the load balancer',
    field: 'spec.ports.nodePort',
    covers: ['7.7', 'k8s#53775'],
    tell: (w) => ({
      objects: [
        web(
          w,
          { type: 'LoadBalancer', ports: [{ port: PORT, nodePort: NODE_PORT }], externalIPs: [w.externalIP(1)] },
          vips(w.vip(1)),
        ),
        pods(w, 'pod-1'),
      ],
      settings: clusterCidr(w),
      packets: [
        told('pod-1', w.node, among(['pod-1'], 'all'), { port: NODE_PORT }),
        told('pod-1', w.externalIP(1), among(['pod-1'], 'all')),
        told('pod-1', w.vip(1), among(['pod-1'], 'all')),
      ],
    }),
  },
  {
    id: 'sole-pod-under-local',
    title: 'under policy Local too, where nothing else is masqueraded',
    field: 'spec.externalTrafficPolicy',
    covers: ['7.7', 'k8s#53775'],
    tell: (w) => ({
      objects: [nodePortWeb(w, { externalTrafficPolicy: 'Local' }), pods(w, 'pod-1')],
      settings: clusterCidr(w),
      packets: [told('pod-1', w.node, among(['pod-1'], 'all'), { port: NODE_PORT })],
    }),
  },
];
