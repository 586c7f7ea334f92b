/** ClientIP affinity. That a client is remembered for its timeout, and forgotten after it, is told in test/netns/affinity.test.ts. */
import { among, type Story } from '../story.ts';
import { as, clusterCidr, NODE_PORT, nodePortWeb, PORT, pods, podsWith, told, UNREADY, web } from './build.ts';

const ONLY_INTERPRETED = 'a real client is remembered after its first packet; test/netns/affinity.test.ts tells that';
const STICKY = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } };

export const affinityStories: readonly Story[] = [
  {
    id: 'affinity-new-client',
    title: 'a new client is balanced as ever',
    field: 'spec.sessionAffinity',
    covers: ['7.8', '1.11'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [web(w, STICKY), pods(w, 'pod-1', 'pod-2', 'other')],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2', 'other']))],
    }),
  },
  {
    id: 'affinity-known-client',
    title: 'a client that an endpoint knows goes to that endpoint',
    field: 'spec.sessionAffinity',
    covers: ['7.8'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [web(w, STICKY), pods(w, 'pod-1', 'pod-2')],
      packets: [
        told('pod-3', w.clusterIP(10), among(['pod-2']), { knownTo: ['pod-2'] }),
        told('pod-3', w.clusterIP(10), among(['pod-1']), { knownTo: ['pod-1'] }),
      ],
    }),
  },
  {
    id: 'affinity-endpoint-gone',
    title: 'a client is not held to an endpoint that is no longer ready, or gone',
    field: 'spec.sessionAffinity',
    covers: ['7.8', 'k8s#110302', 'k8s#106030'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => {
      const known = told('pod-3', w.clusterIP(10), among(['pod-1']), { knownTo: ['pod-2'] });
      return {
        objects: [web(w, STICKY), pods(w, 'pod-1', as('pod-2', UNREADY))],
        packets: [known],
        next: [{ objects: [web(w, STICKY), pods(w, 'pod-1')], packets: [known] }],
      };
    },
  },
  {
    id: 'affinity-one-memory',
    title: 'one memory serves all addresses of a port, under both policies',
    field: 'spec.sessionAffinity',
    covers: ['7.8', 'k8s#103000'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [
        nodePortWeb(w, { ...STICKY, externalIPs: [w.externalIP(1)], externalTrafficPolicy: 'Local' }),
        pods(w, 'pod-1', 'pod-2', 'other'),
      ],
      settings: clusterCidr(w),
      packets: [
        told('outside', w.node, among(['pod-2']), { port: NODE_PORT, knownTo: ['pod-2'] }),
        told('outside', w.externalIP(1), among(['pod-2']), { knownTo: ['pod-2'] }),
        told('pod-3', w.clusterIP(10), among(['other']), { knownTo: ['other'] }),
        told('pod-3', w.externalIP(1), among(['other']), { knownTo: ['other'] }),
        told('node', w.externalIP(1), among(['other'], 'all'), { knownTo: ['other'] }),
        // The endpoint that knows it is on another node: policy Local does not go there.
        told('outside', w.node, among(['pod-1', 'pod-2']), { port: NODE_PORT, knownTo: ['other'] }),
      ],
    }),
  },
  {
    id: 'affinity-udp',
    title: 'affinity of UDP',
    field: 'spec.sessionAffinity',
    covers: ['7.8'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [
        web(w, { ...STICKY, ports: [{ port: PORT, protocol: 'UDP' }] }),
        podsWith(w, { protocol: 'UDP' }, ['pod-1', 'pod-2']),
      ],
      packets: [
        told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']), { protocol: 'UDP' }),
        told('pod-3', w.clusterIP(10), among(['pod-1']), { protocol: 'UDP', knownTo: ['pod-1'] }),
      ],
    }),
  },
  {
    id: 'affinity-pod-to-itself',
    title: 'a pod that an endpoint knows and that is this endpoint is masqueraded',
    field: 'spec.sessionAffinity',
    covers: ['7.8', '7.7'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [web(w, STICKY), pods(w, 'pod-1', 'pod-2')],
      packets: [told('pod-1', w.clusterIP(10), among(['pod-1'], 'all'), { knownTo: ['pod-1'] })],
    }),
  },
  {
    id: 'affinity-switched-off',
    title: 'affinity is switched off: nobody is remembered',
    field: 'spec.sessionAffinity',
    covers: ['7.8', '1.11'],
    onlyInterpreted: ONLY_INTERPRETED,
    tell: (w) => ({
      objects: [web(w, STICKY), pods(w, 'pod-1', 'pod-2')],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1']), { knownTo: ['pod-1'] })],
      next: [
        {
          objects: [web(w), pods(w, 'pod-1', 'pod-2')],
          packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']), { knownTo: ['pod-1'] })],
        },
      ],
    }),
  },
];
