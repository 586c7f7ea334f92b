/** Which endpoints count: their conditions (docs/semantics.md 3.4), and the slices that they come in (docs/semantics.md 2). */
import { slice } from '../../helpers/cluster/objects.ts';
import type { BackendName, StoryCluster } from '../cluster.ts';
import { among, DROPPED, REJECTED, type Story } from '../story.ts';
import {
  as,
  DRAINING,
  type EndpointInput,
  NODE_PORT,
  nodePortWeb,
  OWN_NODE_ALONE,
  POD_PORT,
  PORT,
  pods,
  podsWith,
  REFUSES_INTERNAL_LOCAL,
  told,
  UNREADY,
  web,
} from './build.ts';

/** A Service with this internal policy and these endpoints, asked by a pod of this node. */
function asked(
  policy: 'Cluster' | 'Local',
  endpoints: readonly (BackendName | EndpointInput)[],
  expected: readonly BackendName[] | typeof REJECTED | typeof DROPPED,
): Story['tell'] {
  return (w: StoryCluster) => ({
    objects: [web(w, { internalTrafficPolicy: policy }), pods(w, ...endpoints)],
    packets: [told('pod-3', w.clusterIP(10), 'kind' in expected ? expected : among(expected))],
  });
}

const GONE = { ready: false, serving: false, terminating: true };

const conditionStories: readonly Story[] = [
  {
    id: 'ready-elsewhere',
    title: 'a ready endpoint elsewhere is used under policy Cluster, and not under Local',
    field: 'endpoints.conditions.ready',
    covers: ['3.4.1', '4.1.1', '4.1.2'],
    tell: asked('Local', ['pod-1', 'other'], ['pod-1']),
  },
  {
    id: 'ready-here',
    title: 'a ready endpoint here is used under both policies',
    field: 'endpoints.conditions.ready',
    covers: ['3.4.2'],
    tell: asked('Cluster', ['pod-1', 'other'], ['pod-1', 'other']),
  },
  {
    id: 'ready-though-not-serving',
    title: 'what is ready is used though it does not serve, as with publishNotReadyAddresses',
    field: 'spec.publishNotReadyAddresses',
    covers: ['3.4.1', '3.4.2'],
    tell: asked(
      'Cluster',
      [as('pod-1', { ready: true, serving: false }), as('other', { ready: true, serving: false, terminating: true })],
      ['pod-1', 'other'],
    ),
  },
  {
    id: 'draining-beside-ready',
    title: 'draining endpoints get nothing while a ready one is there',
    field: 'endpoints.conditions.terminating',
    covers: ['3.4.3', '3.1', '3.3.1', 'KEP-1669'],
    tell: asked('Cluster', [as('pod-1', DRAINING), 'other'], ['other']),
  },
  {
    id: 'draining-when-none-ready',
    title: 'draining endpoints that still serve are used when none is ready anywhere',
    field: 'endpoints.conditions.serving',
    covers: ['3.4.3', '3.4.4', '3.1', 'KEP-1669', 'k8s#110301'],
    tell: asked('Cluster', [as('pod-1', DRAINING), as('other', DRAINING), as('pod-2', UNREADY)], ['pod-1', 'other']),
  },
  {
    id: 'local-draining-beside-ready-elsewhere',
    title: 'under policy Local a draining endpoint here is used though ready ones are elsewhere',
    field: 'endpoints.conditions.terminating',
    covers: ['3.4.4', '3.2', 'KEP-1669'],
    tell: asked('Local', [as('pod-1', DRAINING), 'other'], ['pod-1']),
  },
  {
    id: 'local-draining-beside-ready-here',
    title: 'under policy Local a draining endpoint here gets nothing while a ready one is here',
    field: 'endpoints.conditions.terminating',
    covers: ['3.4.4', '3.2'],
    tell: asked('Local', [as('pod-1', DRAINING), 'pod-2', 'other'], ['pod-2']),
  },
  {
    id: 'serving-but-not-ready',
    title: 'an endpoint that serves but is neither ready nor draining is never used',
    field: 'endpoints.conditions.serving',
    covers: ['3.4.5'],
    tell: asked('Cluster', [as('pod-1', { ready: false, serving: true, terminating: false })], REJECTED),
  },
  {
    id: 'neither-ready-nor-serving',
    title: 'endpoints that neither are ready nor serve leave the Service without any',
    field: 'endpoints.conditions.serving',
    covers: ['3.4.6', '4.1.1', 'k8s#106030'],
    tell: asked('Cluster', [as('pod-1', GONE), as('pod-2', UNREADY)], REJECTED),
  },
  {
    id: 'local-only-draining-elsewhere',
    title: 'under policy Local others that only drain count as somebody: dropped, not refused',
    field: 'endpoints.conditions.terminating',
    covers: ['3.2', '3.3.2', '4.1.2'],
    kubeProxy: REFUSES_INTERNAL_LOCAL,
    tell: asked('Local', [as('other', DRAINING)], DROPPED),
  },
  {
    id: 'local-nobody-anywhere',
    title: 'under policy Local with nobody anywhere: refused',
    field: 'spec.internalTrafficPolicy',
    covers: ['4.1.2', '3.3.2'],
    tell: asked('Local', [as('other', UNREADY)], REJECTED),
  },
  {
    id: 'not-ready',
    title: 'endpoints that are not ready get nothing',
    field: 'endpoints.conditions.ready',
    covers: ['3.4.6'],
    tell: asked('Cluster', ['pod-1', as('pod-2', UNREADY)], ['pod-1']),
  },
  {
    id: 'conditions-unset',
    title: 'conditions that are not set mean ready, serving and not terminating',
    field: 'endpoints.conditions',
    covers: ['2.3'],
    tell: asked('Cluster', [as('pod-1', {}), as('pod-2', { terminating: false })], ['pod-1', 'pod-2']),
  },
  {
    id: 'draining-decided-apart',
    title: 'the fall-back to draining endpoints is decided apart for Cluster and for Local',
    field: 'endpoints.conditions.terminating',
    covers: ['3.3.3', '4.1.1', '4.1.4'],
    tell: (w) => ({
      objects: [nodePortWeb(w, { externalTrafficPolicy: 'Local' }), pods(w, as('pod-1', DRAINING), 'other')],
      packets: [
        told('pod-3', w.clusterIP(10), among(['other'])),
        told('outside', w.node, among(['pod-1']), { port: NODE_PORT }),
      ],
    }),
  },
  {
    id: 'endpoint-comes-drains-goes',
    title: 'an endpoint comes, drains, goes and comes back',
    field: 'endpoints',
    covers: ['3.4.2', 'k8s#92019'],
    tell: (w) => {
      const state = (endpoints: readonly (BackendName | EndpointInput)[], expected: Parameters<typeof told>[2]) => ({
        objects: [web(w), pods(w, ...endpoints)],
        packets: [told('pod-3', w.clusterIP(10), expected)],
      });
      return {
        ...state(['pod-1'], among(['pod-1'])),
        next: [
          state(['pod-1', 'pod-2'], among(['pod-1', 'pod-2'])),
          state([as('pod-1', DRAINING), 'pod-2'], among(['pod-2'])),
          state(['pod-2'], among(['pod-2'])),
          state([], REJECTED),
          state(['pod-1'], among(['pod-1'])),
        ],
      };
    },
  },
];

const sliceStories: readonly Story[] = [
  {
    id: 'several-slices-one-set',
    title: 'endpoints of several slices are one set, and one that is in two counts once',
    field: 'metadata.labels[kubernetes.io/service-name]',
    covers: ['2.1', '2.4'],
    tell: (w) => ({
      objects: [web(w), podsWith(w, { name: 'a' }, ['pod-1', 'pod-2']), podsWith(w, { name: 'b' }, ['pod-2', 'other'])],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2', 'other']))],
    }),
  },
  {
    id: 'endpoint-in-two-slices',
    title: 'of an endpoint in two slices the one that is of use counts',
    field: 'endpoints.conditions.terminating',
    covers: ['2.4'],
    kubeProxy: { does: 'takes the last that is not terminating, in the order of a map', isByChance: true },
    tell: (w) => ({
      objects: [
        web(w),
        podsWith(w, { name: 'a' }, [as('pod-1', DRAINING), as('pod-2', UNREADY)]),
        podsWith(w, { name: 'b' }, ['pod-1', 'pod-2']),
      ],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']))],
    }),
  },
  {
    id: 'endpoint-moves-between-slices',
    title: 'an endpoint that moves from one slice to another is never lost',
    field: 'endpoints',
    covers: ['2.1'],
    tell: (w) => {
      const state = (a: readonly BackendName[], b: readonly BackendName[]) => ({
        objects: [web(w), podsWith(w, { name: 'a' }, a), podsWith(w, { name: 'b' }, b)],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']))],
      });
      return {
        ...state(['pod-1', 'pod-2'], []),
        next: [state(['pod-1', 'pod-2'], ['pod-2']), state(['pod-1'], ['pod-2']), state([], ['pod-1', 'pod-2'])],
      };
    },
  },
  {
    id: 'slices-with-different-numbers',
    title: 'slices may give one port name different numbers',
    field: 'ports.port',
    covers: ['2.4'],
    onlyInterpreted: 'the hosts of the lab answer on one port',
    tell: (w) => {
      const odd = slice({
        name: 'odd',
        service: 'web',
        addressType: w.family,
        ports: [{ name: 'http', port: POD_PORT }],
        endpoints: [{ addresses: [w.address('pod-1')], nodeName: 'node' }],
      });
      return {
        objects: [
          web(w, { ports: [{ name: 'http', port: PORT, targetPort: 'anything' }] }),
          odd,
          podsWith(w, { portName: 'other-name' }, ['pod-2']),
        ],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      };
    },
  },
  {
    id: 'incomplete-ports-and-endpoints',
    title: 'ports and endpoints that say too little, and slices of others, are passed over',
    field: 'ports, endpoints.addresses, addressType',
    covers: ['2.2'],
    tell: (w) => {
      const base = { service: 'web', addressType: w.family };
      const here = { nodeName: 'node' };
      const other = w.family === 'IPv4' ? ('IPv6' as const) : ('IPv4' as const);
      const wrong = other === 'IPv6' ? 'fd00:244:1::99' : '10.244.1.99';
      const headless = slice({ ...base, name: 'headless', endpoints: [{ addresses: [w.address('pod-2')], ...here }] });
      (headless as { metadata: { labels: Record<string, string> } }).metadata.labels['service.kubernetes.io/headless'] =
        '';
      return {
        objects: [
          web(w),
          // The second address of an endpoint is not looked at.
          slice({
            ...base,
            name: 'a',
            endpoints: [{ addresses: [] }, { addresses: [w.address('pod-1'), w.address('pod-2')], ...here }],
          }),
          slice({
            ...base,
            name: 'no-number',
            ports: [{ name: '' }],
            endpoints: [{ addresses: [w.address('other')] }],
          }),
          slice({ ...base, name: 'of-the-other-family', addressType: other, endpoints: [wrong] }),
          slice({ ...base, name: 'of-another', service: 'webb', endpoints: [w.address('pod-2')] }),
          headless,
        ],
        packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      };
    },
  },
  {
    id: 'endpoint-on-unknown-node',
    title: 'an endpoint whose node is not known is on no node: not local, but it may be the sender itself',
    field: 'endpoints.nodeName',
    covers: ['2.3', '7.7'],
    kubeProxy: OWN_NODE_ALONE,
    tell: (w) => ({
      objects: [web(w), pods(w, { at: 'pod-1', placeless: true })],
      packets: [told('pod-1', w.clusterIP(10), among(['pod-1'], 'all'))],
      next: [
        {
          objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, { at: 'pod-1', placeless: true })],
          packets: [told('pod-1', w.clusterIP(10), DROPPED)],
        },
      ],
    }),
  },
];

export const endpointStories: readonly Story[] = [...conditionStories, ...sliceStories];
