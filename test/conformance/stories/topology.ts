/** Hints: which endpoints are for this node, or its zone (docs/semantics.md 3.5). */

import type { BackendName, StoryCluster } from '../cluster.ts';
import { among, type OtherEnd, type Story } from '../story.ts';
import { as, DRAINING, type EndpointInput, hinted, NODE_PORT, nodePortWeb, pods, told, UNREADY, web } from './build.ts';

const EMPTY_HINT: OtherEnd = { does: 'counts an empty hint as that for a zone without a name' };

interface Row {
  readonly id: string;
  readonly title: string;
  readonly row: string;
  readonly endpoints: readonly (BackendName | EndpointInput)[];
  /** Default: a. */
  readonly zone?: string | undefined;
  readonly used: readonly BackendName[];
  readonly field?: string;
  readonly also?: readonly string[];
  readonly kubeProxy?: OtherEnd;
}

const ROWS: readonly Row[] = [
  {
    id: 'hints-without-ready',
    title: 'without a ready endpoint hints are not looked at',
    row: '3.5.1',
    endpoints: [
      { ...hinted('pod-1', { zones: ['b'] }), conditions: { ready: false, serving: true, terminating: true } },
      { ...hinted('other', { zones: ['a'] }), conditions: { ready: false, serving: true, terminating: true } },
    ],
    used: ['pod-1', 'other'],
  },
  {
    id: 'node-hints-first',
    title: 'a node with endpoints hinted for it uses those, whatever the zones say',
    row: '3.5.2',
    field: 'endpoints.hints.forNodes',
    endpoints: [
      hinted('pod-1', { nodes: ['node'], zones: ['b'] }),
      hinted('pod-2', { nodes: ['other-node'], zones: ['a'] }),
      hinted('other', { nodes: ['other-node', 'node'], zones: ['a'] }),
    ],
    used: ['pod-1', 'other'],
    also: ['KEP-3015'],
  },
  {
    id: 'node-hints-fall-back-to-zone',
    title: 'a node with no endpoint hinted for it falls back to its zone',
    row: '3.5.3',
    field: 'endpoints.hints.forNodes',
    endpoints: [
      hinted('pod-1', { nodes: ['x'], zones: ['a'] }),
      hinted('pod-2', { nodes: ['y'], zones: ['a', 'b'] }),
      hinted('other', { nodes: ['other-node'], zones: ['b'] }),
    ],
    used: ['pod-1', 'pod-2'],
    also: ['KEP-3015'],
  },
  {
    id: 'hints-for-others-alone',
    title: 'with hints for other nodes and other zones alone, all are used',
    row: '3.5.4',
    endpoints: [hinted('pod-1', { nodes: ['x'], zones: ['b'] }), hinted('other', { nodes: ['x'], zones: ['c'] })],
    used: ['pod-1', 'other'],
    also: ['k8s#116098'],
  },
  {
    id: 'hints-one-endpoint-without-zone',
    title: 'with hints for other nodes, and one endpoint without a zone’s, all are used',
    row: '3.5.5',
    endpoints: [hinted('pod-1', { nodes: ['x'], zones: ['a'] }), hinted('other', { nodes: ['x'] })],
    used: ['pod-1', 'other'],
  },
  {
    id: 'node-hints-incomplete',
    title: 'node hints count only when every ready endpoint has one; zone hints then do',
    row: '3.5.6',
    endpoints: [
      hinted('pod-1', { nodes: ['x'], zones: ['a'] }),
      hinted('pod-2', { zones: ['a'] }),
      hinted('other', { nodes: ['node'], zones: ['b'] }),
    ],
    used: ['pod-1', 'pod-2'],
    also: ['KEP-2433'],
  },
  {
    id: 'zone-hints-for-others-alone',
    title: 'zone hints for other zones alone keep nobody out',
    row: '3.5.7',
    endpoints: [hinted('pod-1', { zones: ['b'] }), hinted('other', { zones: ['c'] })],
    used: ['pod-1', 'other'],
  },
  {
    id: 'node-without-zone',
    title: 'a node without a zone label uses all endpoints',
    row: '3.5.7',
    field: 'metadata.labels[topology.kubernetes.io/zone]',
    zone: undefined,
    endpoints: [hinted('pod-1', { zones: ['a'] }), hinted('other', { zones: ['b'] })],
    used: ['pod-1', 'other'],
  },
  {
    id: 'hint-missing-makes-all-idle',
    title: 'one ready endpoint without a hint makes all hints idle',
    row: '3.5.8',
    endpoints: [hinted('pod-1', { zones: ['a'] }), 'pod-2', hinted('other', { zones: ['b'] })],
    used: ['pod-1', 'pod-2', 'other'],
    also: ['k8s#124699'],
  },
  {
    id: 'zone-hint-empty',
    title: 'an empty zone hint is none, for a node with a zone',
    row: '3.5.8',
    endpoints: [hinted('pod-1', { zones: ['a'] }), hinted('pod-2', { zones: [''] }), hinted('other', { zones: ['b'] })],
    used: ['pod-1', 'pod-2', 'other'],
    also: ['KEP-4444'],
    kubeProxy: EMPTY_HINT,
  },
  {
    id: 'zone-hint-empty-node-without-zone',
    title: 'an empty zone hint is none, for a node without a zone label',
    row: '3.5.8',
    zone: undefined,
    endpoints: [hinted('pod-1', { zones: ['a'] }), hinted('pod-2', { zones: [''] })],
    used: ['pod-1', 'pod-2'],
    also: ['KEP-4444'],
    kubeProxy: EMPTY_HINT,
  },
  {
    id: 'node-without-zone-node-hints',
    title: 'a node without a zone label uses the endpoints hinted for it',
    row: '3.5.2',
    field: 'endpoints.hints.forNodes',
    zone: undefined,
    endpoints: [hinted('pod-1', { nodes: ['node'] }), hinted('other', { nodes: ['other-node'] })],
    used: ['pod-1'],
    also: ['KEP-3015'],
  },
  {
    id: 'not-ready-without-node-hint',
    title: 'an endpoint without a node hint that is not ready changes nothing',
    row: '3.5.2',
    field: 'endpoints.hints.forNodes',
    endpoints: [hinted('pod-1', { nodes: ['node'] }), as('pod-2', UNREADY), hinted('other', { nodes: ['other-node'] })],
    used: ['pod-1'],
  },
  {
    id: 'not-ready-without-hint',
    title: 'an endpoint without a hint that is not ready changes nothing',
    row: '3.5.6',
    endpoints: [hinted('pod-1', { zones: ['a'] }), as('pod-2', UNREADY), hinted('other', { zones: ['b'] })],
    used: ['pod-1'],
  },
];

function rowStory({
  id,
  title,
  row,
  endpoints,
  used,
  field = 'endpoints.hints.forZones',
  also = [],
  kubeProxy,
  ...rest
}: Row): Story {
  const zone = 'zone' in rest ? rest.zone : 'a';
  return {
    id,
    title,
    field,
    covers: [row, ...also],
    ...(kubeProxy === undefined ? {} : { kubeProxy }),
    tell: (w: StoryCluster) => ({
      objects: [web(w), pods(w, ...endpoints)],
      ...(zone === undefined ? {} : { zone }),
      packets: [told('pod-3', w.clusterIP(10), among(used))],
    }),
  };
}

export const topologyStories: readonly Story[] = [
  ...ROWS.map(rowStory),
  {
    id: 'zone-is-the-label-of-now',
    title: 'the zone is the Node’s label of now',
    field: 'metadata.labels[topology.kubernetes.io/zone]',
    covers: ['3.5.6', '3.5.7'],
    tell: (w) => {
      const objects = [web(w), pods(w, hinted('pod-1', { zones: ['a'] }), hinted('other', { zones: ['b'] }))];
      const used = (...backends: BackendName[]) => [told('pod-3', w.clusterIP(10), among(backends))];
      return {
        objects,
        zone: 'a',
        packets: used('pod-1'),
        next: [
          { objects, zone: 'b', packets: used('other') },
          { objects, zone: 'c', packets: used('pod-1', 'other') },
          { objects, packets: used('pod-1', 'other') },
          { objects, zone: 'a', packets: used('pod-1') },
        ],
      };
    },
  },
  {
    id: 'node-endpoint-goes-and-returns',
    title: 'when the endpoint of a node goes, its zone serves it, then all, until it is back',
    field: 'endpoints.hints.forNodes',
    covers: ['3.5.2', '3.5.3', '3.5.4', 'KEP-3015'],
    tell: (w) => {
      const here = hinted('pod-1', { nodes: ['node'], zones: ['a'] });
      const near = hinted('pod-2', { nodes: ['x'], zones: ['a'] });
      const far = hinted('other', { nodes: ['other-node'], zones: ['b'] });
      const leaving = { ...here, conditions: DRAINING };
      const told3 = (...backends: BackendName[]) => [told('pod-3', w.clusterIP(10), among(backends))];
      const all = [web(w), pods(w, here, near, far)];
      return {
        objects: all,
        zone: 'a',
        packets: told3('pod-1'),
        next: [
          { objects: [web(w), pods(w, leaving, near, far)], zone: 'a', packets: told3('pod-2') },
          { objects: [web(w), pods(w, leaving, far)], zone: 'a', packets: told3('other') },
          { objects: all, zone: 'a', packets: told3('pod-1') },
        ],
      };
    },
  },
  {
    id: 'hints-under-local',
    title: 'hints mean nothing to policy Local',
    field: 'endpoints.hints.forZones',
    covers: ['3.2', '3.3.3'],
    tell: (w) => ({
      objects: [
        nodePortWeb(w, { externalTrafficPolicy: 'Local' }),
        pods(w, hinted('pod-1', { zones: ['b'] }), hinted('other', { zones: ['a'] })),
      ],
      zone: 'a',
      packets: [
        told('outside', w.node, among(['pod-1']), { port: NODE_PORT }),
        told('pod-3', w.clusterIP(10), among(['other'])),
      ],
    }),
  },
];
