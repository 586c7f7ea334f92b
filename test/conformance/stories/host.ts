/** The node itself: its firewall, its own servers, packets that conntrack does not understand. */

import type { StoryCluster } from '../cluster.ts';
import { ACCEPTED, among, DROPPED, type Story, UNSERVED, UNTOUCHED } from '../story.ts';
import { HEALTH_PORT, NODE_PORT, nodePortWeb, PORT, pods, told, vips, web } from './build.ts';

function healthy(w: StoryCluster, spec: Record<string, unknown> = {}): object {
  const base = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_PORT };
  return web(w, { ...base, ...spec }, vips(w.vip(1)));
}

const HEALTH = { port: HEALTH_PORT };

export const hostStories: readonly Story[] = [
  {
    id: 'health-port-closed-firewall',
    title: 'the health check of a load balancer passes a closed firewall, with and without endpoints here',
    field: 'spec.healthCheckNodePort',
    covers: ['6.15', '1.12'],
    tell: (w) => ({
      objects: [healthy(w), pods(w, 'pod-1')],
      closed: true,
      packets: [told('outside', w.node, ACCEPTED, HEALTH)],
      next: [
        { objects: [healthy(w), pods(w, 'other')], packets: [told('outside', w.node, ACCEPTED, HEALTH)] },
        { objects: [healthy(w)], packets: [told('outside', w.node, ACCEPTED, HEALTH)] },
        { objects: [], packets: [told('outside', w.node, DROPPED, HEALTH)] },
      ],
    }),
  },
  {
    id: 'health-port-not-opened',
    title: 'a health check port of another type or policy opens nothing',
    field: 'spec.healthCheckNodePort',
    covers: ['1.12'],
    tell: (w) => {
      const closed = (spec: Record<string, unknown>) => ({
        objects: [healthy(w, spec), pods(w, 'pod-1')],
        packets: [told('outside', w.node, DROPPED, HEALTH)],
      });
      return { ...closed({ externalTrafficPolicy: 'Cluster' }), closed: true, next: [closed({ type: 'NodePort' })] };
    },
  },
  {
    id: 'node-ports-closed-firewall',
    title: 'node ports pass a firewall that forwards nothing by itself',
    field: '--iptables-masquerade-bit',
    covers: ['8.1'],
    kubeProxy: { does: 'accepts no marked packets in INPUT', modes: ['ipvs'] },
    tell: (w) => ({
      objects: [nodePortWeb(w), pods(w, 'pod-1', 'other')],
      closed: true,
      packets: [told('outside', w.node, among(['pod-1', 'other'], 'all'), { port: NODE_PORT })],
    }),
  },
  {
    id: 'invalid-not-forwarded',
    title: 'a packet that conntrack finds invalid is not forwarded: it would leave untranslated',
    field: '--conntrack-tcp-be-liberal',
    covers: ['8.1', 'k8s#74839', 'k8s#117924'],
    onlyInterpreted: 'conntrack takes up connections in their midst: a client cannot make such a packet at will',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      packets: [told('pod-1', w.address('outside'), DROPPED, { state: 'INVALID' })],
    }),
  },
  {
    id: 'invalid-where-liberal',
    title: 'where conntrack is to be liberal such a packet passes',
    field: '--conntrack-tcp-be-liberal',
    covers: ['8.1', 'k8s#94861'],
    onlyInterpreted: 'conntrack takes up connections in their midst: a client cannot make such a packet at will',
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1')],
      settings: { dropInvalid: false },
      packets: [told('pod-1', w.address('outside'), UNTOUCHED, { state: 'INVALID' })],
    }),
  },
  {
    id: 'server-on-vip',
    title: 'a server of the node is not reachable by an address of a Service (host port on a VIP)',
    field: 'spec.clusterIP, status.loadBalancer.ingress',
    covers: ['k8s#72236', 'k8s#22952'],
    tell: (w) => ({
      objects: [web(w, { type: 'LoadBalancer' }, vips(w.vip(1))), pods(w, 'pod-1')],
      packets: [w.clusterIP(10), w.vip(1)].map((to) => told('outside', to, UNSERVED, HEALTH)),
    }),
  },
  {
    id: 'server-on-node-port',
    title: 'a server of the node on the node port of another address keeps it, though the Service refuses',
    field: '--nodeport-addresses',
    covers: ['6.9', 'k8s#82163'],
    kubeProxy: { does: 'refuses on every address of the node', modes: ['iptables'] },
    tell: (w) => {
      const refusing = web(w, { type: 'NodePort', ports: [{ port: PORT, nodePort: HEALTH_PORT }] });
      return {
        objects: [refusing],
        settings: { nodePortAddresses: [w.node] },
        packets: [told('outside', w.node, { kind: 'rejected' }, HEALTH), told('pod-3', w.gateway, ACCEPTED, HEALTH)],
      };
    },
  },
  {
    id: 'server-on-loopback',
    title: 'a server on loopback keeps its port where node ports are not on loopback, though the Service refuses',
    field: '--iptables-localhost-nodeports',
    covers: ['6.9'],
    kubeProxy: { does: 'refuses on loopback as well', modes: ['iptables'] },
    tell: (w) => ({
      objects: [web(w, { type: 'NodePort', ports: [{ port: PORT, nodePort: HEALTH_PORT }] })],
      settings: { localhostNodePorts: false },
      packets: [told('node', w.loopback, ACCEPTED, HEALTH), told('outside', w.node, { kind: 'rejected' }, HEALTH)],
    }),
  },
];
