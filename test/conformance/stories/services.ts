/** Which Services are served at all (4.1, 4.2), and what of their ports counts. */

import { cluster, type StoryCluster } from '../cluster.ts';
import { among, type Expected, REJECTED, type Story, UNSERVED, UNTOUCHED } from '../story.ts';
import { NODE_PORT, nodePortWeb, PORT, pods, podsWith, told, web } from './build.ts';

/** `web` under another name, or with labels. */
function labelled(object: object, metadata: Record<string, unknown>): object {
  const whole = object as { metadata: Record<string, unknown> };
  return { ...whole, metadata: { ...whole.metadata, ...metadata } };
}

const otherFamilyIP = (w: StoryCluster) => (w.family === 'IPv4' ? 'fd00:96::10' : '10.96.0.10');

export const serviceStories: readonly Story[] = [
  {
    id: 'headless-no-address',
    title: 'a headless Service has no address',
    field: 'spec.clusterIP',
    covers: ['1.1'],
    tell: (w) => ({
      objects: [web(w, { clusterIP: 'None', externalIPs: [w.externalIP(1)] }), pods(w, 'pod-1')],
      packets: [told('pod-3', w.externalIP(1), UNTOUCHED)],
    }),
  },
  {
    id: 'external-name-only-a-name',
    title: 'a Service of type ExternalName is a name alone',
    field: 'spec.type',
    covers: ['1.1'],
    tell: (w) => ({
      objects: [web(w, { type: 'ExternalName', externalName: 'example.com' }), pods(w, 'pod-1')],
      packets: [told('pod-3', w.clusterIP(10), UNTOUCHED)],
    }),
  },
  {
    id: 'name-begins-with-digit',
    title: 'a Service whose name begins with a digit is served',
    field: 'metadata.name',
    covers: ['KEP-5311'],
    tell: (w) => ({
      objects: [
        labelled(web(w), { name: '1web' }),
        labelled(pods(w, 'pod-1'), { labels: { 'kubernetes.io/service-name': '1web' } }),
      ],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
    }),
  },
  {
    id: 'service-of-other-proxy',
    title: 'a Service of another service proxy is left to it',
    field: 'metadata.labels[service.kubernetes.io/service-proxy-name]',
    covers: ['1.1', 'KEP-2447'],
    tell: (w) => ({
      objects: [
        labelled(web(w), { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }),
        pods(w, 'pod-1'),
      ],
      packets: [told('pod-3', w.clusterIP(10), UNTOUCHED)],
    }),
  },
  {
    id: 'service-with-headless-label',
    title: 'a Service with the label of headless ones is left alone, whatever its cluster IP is',
    field: 'metadata.labels[service.kubernetes.io/headless]',
    covers: ['1.1', 'k8s#134321'],
    kubeProxy: { does: 'of 1.36 serves such a Service, and looks for the label at slices alone' },
    tell: (w) => {
      const served = nodePortWeb(w, { externalIPs: [w.externalIP(1)] });
      const packets = (expected: Expected, masqueraded: Expected) => [
        told('pod-3', w.clusterIP(10), expected),
        told('outside', w.externalIP(1), masqueraded),
        told('outside', w.node, masqueraded, { port: NODE_PORT }),
      ];
      const state = (object: object) => ({
        objects: [object, pods(w, 'pod-1')],
        packets: packets(among(['pod-1']), among(['pod-1'], 'all')),
      });
      const left = (object: object) => ({
        objects: [object, pods(w, 'pod-1')],
        packets: packets(UNTOUCHED, UNTOUCHED),
      });
      const label = (value: string) => ({ labels: { 'service.kubernetes.io/headless': value } });
      return {
        ...left(labelled(served, label(''))),
        next: [state(served), left(labelled(served, label('false'))), state(served)],
      };
    },
  },
  {
    id: 'slices-of-others-passed-over',
    title: 'slices with the label of another proxy, or of headless Services, are passed over, and count without it',
    field: 'metadata.labels[service.kubernetes.io/service-proxy-name] of a slice',
    covers: ['2.2'],
    kubeProxy: { does: 'of 1.36 uses slices with the label service-proxy-name' },
    tell: (w) => {
      const own = podsWith(w, { name: 'own' }, ['pod-1']);
      const other = podsWith(w, { name: 'other' }, ['pod-2']);
      const both = {
        objects: [web(w), own, other],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']))],
      };
      const without = (label: string) => ({
        objects: [
          web(w),
          own,
          labelled(other, { labels: { 'kubernetes.io/service-name': 'web', [`service.kubernetes.io/${label}`]: 'x' } }),
        ],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      });
      return {
        ...without('service-proxy-name'),
        next: [both, without('headless'), both, without('service-proxy-name')],
      };
    },
  },
  {
    id: 'service-becomes-left-alone',
    title: 'a Service that becomes one of those is as good as deleted',
    field: 'spec.type',
    covers: ['1.1', '1.13'],
    tell: (w) => {
      const served = {
        objects: [web(w), pods(w, 'pod-1')],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      };
      const left = (object: object) => ({
        objects: [object, pods(w, 'pod-1')],
        packets: [told('pod-3', w.clusterIP(10), UNTOUCHED)],
      });
      const label = { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } };
      return {
        ...served,
        next: [left(web(w, { type: 'ExternalName' })), served, left(labelled(web(w), label)), served],
      };
    },
  },
  {
    id: 'service-without-family-address',
    title: 'a Service without an address of the family is not served in it',
    field: 'spec.clusterIPs',
    covers: ['1.1', '1.2', 'k8s#88784'],
    tell: (w) => ({
      objects: [nodePortWeb(w, { clusterIP: otherFamilyIP(w) }), pods(w, 'pod-1')],
      packets: [told('outside', w.node, UNTOUCHED, { port: NODE_PORT })],
    }),
  },
  {
    id: 'dual-stack-own-addresses',
    title: 'of a dual-stack Service each family has its own address and its own endpoints',
    field: 'spec.ipFamilies',
    covers: ['1.2', 'k8s#97343'],
    tell: (w) => {
      const other = w.family === 'IPv4' ? 'IPv6' : 'IPv4';
      const elsewhere = cluster(other);
      return {
        objects: [
          nodePortWeb(w, {
            clusterIP: otherFamilyIP(w),
            clusterIPs: [otherFamilyIP(w), w.clusterIP(10)],
            ipFamilies: [other, w.family],
          }),
          pods(w, 'pod-1'),
          podsWith(elsewhere, { name: 'other-family' }, ['pod-2']),
        ],
        packets: [
          told('pod-3', w.clusterIP(10), among(['pod-1'])),
          told('outside', w.node, among(['pod-1'], 'all'), { port: NODE_PORT }),
        ],
      };
    },
  },
  {
    id: 'ports-by-name-and-protocol',
    title: 'ports find their endpoints by name and protocol, not by number',
    field: 'spec.ports.name',
    covers: ['1.3', '2.4'],
    tell: (w) => ({
      objects: [
        web(w, {
          ports: [
            { name: 'a', port: PORT },
            { name: 'b', port: PORT + 1 },
            { name: 'c', port: PORT + 2 },
          ],
        }),
        podsWith(w, { name: 'a', portName: 'a' }, ['pod-1']),
        podsWith(w, { name: 'b', portName: 'b' }, ['pod-2']),
      ],
      packets: [
        told('pod-3', w.clusterIP(10), among(['pod-1'])),
        told('pod-3', w.clusterIP(10), among(['pod-2']), { port: PORT + 1 }),
        told('pod-3', w.clusterIP(10), REJECTED, { port: PORT + 2 }),
        told('pod-3', w.clusterIP(10), UNSERVED, { port: PORT + 3 }),
      ],
    }),
  },
  {
    id: 'node-port-of-any-type',
    title: 'a node port counts whatever the type of the Service is',
    field: 'spec.ports.nodePort',
    covers: ['1.5'],
    tell: (w) => ({
      objects: [nodePortWeb(w, { type: 'ClusterIP' }), pods(w, 'pod-1')],
      packets: [told('outside', w.node, among(['pod-1'], 'all'), { port: NODE_PORT })],
    }),
  },
  {
    id: 'same-name-two-namespaces',
    title: 'two Services of one name in two namespaces are two',
    field: 'metadata.namespace',
    covers: ['1.3'],
    tell: (w) => ({
      objects: [web(w), pods(w, 'pod-1'), labelled(web(w, { clusterIP: w.clusterIP(11) }), { namespace: 'other' })],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1'])), told('pod-3', w.clusterIP(11), REJECTED)],
    }),
  },
  {
    id: 'service-changes-and-goes',
    title: 'a Service changes its address, and is deleted',
    field: 'spec.clusterIP',
    covers: ['1.13'],
    tell: (w) => {
      const state = (n: number) => ({
        objects: [web(w, { clusterIP: w.clusterIP(n) }), pods(w, 'pod-1')],
        packets: [
          told('pod-3', w.clusterIP(n), among(['pod-1'])),
          told('pod-3', w.clusterIP(n === 10 ? 11 : 10), UNTOUCHED),
        ],
      });
      const gone = { objects: [pods(w, 'pod-1')], packets: [told('pod-3', w.clusterIP(10), UNTOUCHED)] };
      return { ...state(10), next: [state(11), state(10), gone, state(10)] };
    },
  },
  {
    id: 'slices-before-and-after-service',
    title: 'slices may come before their Service, and stay after it',
    field: 'metadata.labels[kubernetes.io/service-name]',
    covers: ['2.2', '1.13'],
    tell: (w) => ({
      objects: [pods(w, 'pod-1')],
      packets: [told('pod-3', w.clusterIP(10), UNTOUCHED)],
      next: [{ objects: [pods(w, 'pod-1'), web(w)], packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))] }],
    }),
  },
  {
    id: 'unknown-values-are-defaults',
    title: 'values that do not exist are the defaults of the API: policies, affinity, type',
    field: 'spec.internalTrafficPolicy, spec.externalTrafficPolicy, spec.sessionAffinity, spec.type',
    covers: ['1.9', '1.10', '1.11'],
    tell: (w) => ({
      objects: [
        nodePortWeb(w, {
          internalTrafficPolicy: 'Near',
          externalTrafficPolicy: 'Far',
          sessionAffinity: 'Cookie',
          type: 'Port',
        }),
        pods(w, 'pod-1', 'other'),
      ],
      packets: [
        told('pod-3', w.clusterIP(10), among(['pod-1', 'other'])),
        told('outside', w.node, among(['pod-1', 'other'], 'all'), { port: NODE_PORT }),
      ],
    }),
  },
];
