/** Weights and backups of endpoints, and limits of connections (docs/traffic.md, docs/semantics.md 3.7, 7.10 and 7.12). */

import { service } from '../../helpers/cluster/objects.ts';
import type { BackendName, StoryCluster } from '../cluster.ts';
import { among, balanced, DROPPED, type OtherEnd, REJECTED, type Story } from '../story.ts';
import {
  as,
  DRAINING,
  type EndpointInput,
  NODE_PORT,
  nodePortWeb,
  PORT,
  podsWith,
  told,
  toldFrom,
  UNREADY,
  web,
} from './build.ts';

const WEIGHT = 'metadata.annotations["slicewire.dev/weight"]';
const BACKUP = 'metadata.annotations["slicewire.dev/backup"]';
const LIMIT = 'metadata.annotations["slicewire.dev/max-connections"]';
/** Modes may depart from the weights by 1 % of all connections. */
const WITHIN = 0.01;

const NO_BACKUPS: OtherEnd = { does: 'knows neither weights nor backups, and uses all ready endpoints alike' };

function weighted(shares: Readonly<Partial<Record<BackendName, number>>>, masqueraded: 'all' | 'none' = 'none') {
  return { ...balanced(shares, masqueraded), within: WITHIN };
}

/** The first slice of `web` has these endpoints, the second one those of the annotation. */
function slices(
  w: StoryCluster,
  usual: readonly (BackendName | EndpointInput)[],
  annotations: Record<string, string>,
  ...others: readonly (BackendName | EndpointInput)[]
): object[] {
  return [podsWith(w, {}, usual), podsWith(w, { name: 'web-2', annotations }, others)];
}

const weight = (value: string) => ({ 'slicewire.dev/weight': value });
const backup = { 'slicewire.dev/backup': 'true' };
/** More than the packets of a story. */
const LIMITS = {
  'slicewire.dev/new-connections': '1000/s burst 5000',
  'slicewire.dev/max-connections-per-client': '5000',
  'slicewire.dev/max-connections': '5000',
};

function limitedWeb(w: StoryCluster, more: object = {}): object {
  const spec = { clusterIP: w.clusterIP(10), type: 'NodePort', ports: [{ port: PORT, nodePort: NODE_PORT }], ...more };
  return service({ name: 'web', annotations: LIMITS, spec });
}

export const trafficStories: readonly Story[] = [
  {
    id: 'weight-of-a-slice',
    title: 'a second slice of weight 25 gets a fifth of the connections, by every frontend',
    field: WEIGHT,
    covers: ['7.10', 'k8s#94191'],
    tell: (w) => ({
      objects: [nodePortWeb(w), ...slices(w, ['pod-1'], weight('25'), 'pod-2')],
      packets: [
        told('pod-3', w.clusterIP(10), weighted({ 'pod-1': 0.8, 'pod-2': 0.2 })),
        told('outside', w.node, weighted({ 'pod-1': 0.8, 'pod-2': 0.2 }, 'all'), { port: NODE_PORT }),
      ],
    }),
  },
  {
    id: 'weights-by-address',
    title: 'a slice has weights by address, and 100 for the others',
    field: WEIGHT,
    covers: ['7.10'],
    tell: (w) => ({
      objects: [
        web(w),
        podsWith(w, { annotations: weight(JSON.stringify({ [w.address('pod-1')]: 300, [w.address('other')]: 100 })) }, [
          'pod-1',
          'pod-2',
          'other',
        ]),
      ],
      packets: [told('pod-3', w.clusterIP(10), weighted({ 'pod-1': 0.6, 'pod-2': 0.2, other: 0.2 }))],
    }),
  },
  {
    id: 'weights-that-are-equal',
    title: 'endpoints of equal weights get equal shares',
    field: WEIGHT,
    covers: ['7.9', '7.10'],
    tell: (w) => ({
      objects: [web(w), podsWith(w, { annotations: weight('7') }, ['pod-1', 'pod-2', 'other'])],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2', 'other']))],
    }),
  },
  {
    id: 'weight-that-is-none',
    title: 'a weight that is no number is set aside: the endpoints have the usual one',
    field: WEIGHT,
    covers: ['7.10'],
    tell: (w) => ({
      objects: [web(w), ...slices(w, ['pod-1'], weight('half'), 'pod-2')],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']))],
    }),
  },
  {
    id: 'weight-with-affinity',
    title: 'new clients are divided by the weights, and a client stays with its endpoint',
    field: WEIGHT,
    covers: ['7.8', '7.10'],
    tell: (w) => ({
      objects: [web(w, { sessionAffinity: 'ClientIP' }), ...slices(w, ['pod-1'], weight('25'), 'pod-2')],
      packets: [
        told('pod-3', w.clusterIP(10), weighted({ 'pod-1': 0.8, 'pod-2': 0.2 })),
        told('pod-3', w.clusterIP(10), balanced({ 'pod-2': 1 }), { knownTo: ['pod-2'] }),
      ],
    }),
    onlyInterpreted: 'one client of the lab stays with one endpoint',
  },
  {
    id: 'weight-under-policy-local',
    title: 'under external policy Local the weights of the endpoints of the node count',
    field: WEIGHT,
    covers: ['7.10', '3.2'],
    tell: (w) => ({
      objects: [
        nodePortWeb(w, { externalTrafficPolicy: 'Local' }),
        ...slices(w, ['pod-1', 'other'], weight('25'), 'pod-2'),
      ],
      packets: [told('outside', w.node, weighted({ 'pod-1': 0.8, 'pod-2': 0.2 }), { port: NODE_PORT })],
    }),
  },
  {
    id: 'weight-0',
    title: 'an endpoint of weight 0 gets nothing while another is ready, and all when there is no other',
    field: WEIGHT,
    covers: ['3.7', '7.10'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => ({
      objects: [web(w), ...slices(w, ['pod-1'], weight('0'), 'pod-2')],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
      next: [
        {
          objects: [web(w), ...slices(w, [as('pod-1', UNREADY)], weight('0'), 'pod-2')],
          packets: [told('pod-3', w.clusterIP(10), among(['pod-2']))],
        },
      ],
    }),
  },
  {
    id: 'backup-while-others-are-ready',
    title: 'a backup gets nothing while another endpoint is ready, takes over, and gives back',
    field: BACKUP,
    covers: ['3.7', 'k8s#56440'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => {
      const state = (first: BackendName | EndpointInput, expected: BackendName) => ({
        objects: [web(w), ...slices(w, [first], backup, 'other')],
        packets: toldFrom(['pod-3', 'node'], w.clusterIP(10), among([expected])),
      });
      return { ...state('pod-1', 'pod-1'), next: [state(as('pod-1', UNREADY), 'other'), state('pod-1', 'pod-1')] };
    },
  },
  {
    id: 'backup-of-backups',
    title: 'of two slices of backups, those with a weight come first',
    field: BACKUP,
    covers: ['3.7'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => ({
      objects: [
        web(w),
        podsWith(w, { annotations: { ...backup, ...weight('0') } }, ['pod-1']),
        podsWith(w, { name: 'web-2', annotations: backup }, ['pod-2']),
      ],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-2']))],
    }),
  },
  {
    id: 'backup-under-policy-local',
    title: 'under policy Local a backup of the node is not used while an endpoint of another node is ready',
    field: BACKUP,
    covers: ['3.7', '4.1.2'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => ({
      objects: [web(w, { internalTrafficPolicy: 'Local' }), ...slices(w, ['other'], backup, 'pod-1')],
      packets: [told('pod-3', w.clusterIP(10), DROPPED)],
    }),
  },
  {
    id: 'weight-0-where-all-drain',
    title: 'where no endpoint is ready, draining ones of weight 0 give way to one with a weight',
    field: WEIGHT,
    covers: ['3.7', 'KEP-1669'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => ({
      objects: [
        web(w),
        ...slices(w, [as('pod-1', DRAINING)], weight('0'), as('pod-2', DRAINING), as('other', DRAINING)),
      ],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
    }),
  },
  {
    id: 'draining-beside-a-backup-under-policy-local',
    title: 'under policy Local a draining endpoint of the node is used though a backup there is ready on standby',
    field: BACKUP,
    covers: ['3.7', '3.4.4'],
    kubeProxy: NO_BACKUPS,
    tell: (w) => ({
      objects: [
        web(w, { internalTrafficPolicy: 'Local' }),
        ...slices(w, ['other', as('pod-1', DRAINING)], backup, 'pod-2'),
      ],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1']))],
    }),
  },
  {
    id: 'within-the-limits',
    title: 'connections within the limits of their Service are served as without them, by every frontend',
    field: LIMIT,
    covers: ['7.12'],
    tell: (w) => ({
      objects: [limitedWeb(w), podsWith(w, {}, ['pod-1', 'pod-2'])],
      packets: [
        ...toldFrom(['pod-3', 'node'], w.clusterIP(10), among(['pod-1', 'pod-2'])),
        told('outside', w.node, among(['pod-1', 'pod-2'], 'all'), { port: NODE_PORT }),
      ],
    }),
  },
  {
    id: 'limits-without-endpoints',
    title: 'a Service with limits and without endpoints refuses as without limits',
    field: LIMIT,
    covers: ['7.12', '6.2'],
    tell: (w) => ({ objects: [limitedWeb(w)], packets: [told('pod-3', w.clusterIP(10), REJECTED)] }),
  },
  {
    id: 'limits-under-policy-local',
    title: 'a limit changes nothing for a node without endpoints under external policy Local: it drops',
    field: LIMIT,
    covers: ['7.12', '4.1.4'],
    tell: (w) => ({
      objects: [limitedWeb(w, { externalTrafficPolicy: 'Local' }), podsWith(w, {}, ['other'])],
      packets: [
        told('outside', w.node, DROPPED, { port: NODE_PORT }),
        told('pod-3', w.clusterIP(10), among(['other'])),
      ],
    }),
  },
  {
    id: 'backup-that-is-neither',
    title: 'a backup that is neither true nor false is set aside: the endpoints are none',
    field: BACKUP,
    covers: ['3.7'],
    tell: (w) => ({
      objects: [web(w), ...slices(w, ['pod-1'], { 'slicewire.dev/backup': 'yes' }, 'pod-2')],
      packets: [told('pod-3', w.clusterIP(10), among(['pod-1', 'pod-2']))],
    }),
  },
];
