/** Kubernetes' end-to-end tests of slices, Endpoints, mirroring and topology: what holds them. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';

const API_ALONE = 'it tests the API server alone';
const BY_HINTS = [
  'a node with endpoints hinted for it uses those, whatever the zones say',
  'a node with no endpoint hinted for it falls back to its zone',
  'with hints for other nodes and other zones alone, all are used',
  'zone hints for other zones alone keep nobody out',
];

/** Tests of their own titles. */
function titled(file: string, ...titles: readonly string[]): UpstreamCase[] {
  return titles.map((title) => ({ title, tests: { [`test/upstream/e2e/${file}.test.ts`]: [title] } }));
}

export const ENDPOINTSLICE: UpstreamFile = {
  path: 'test/e2e/network/endpointslice.go',
  cases: [
    ...titled(
      'endpointslice',
      'should create and delete EndpointSlices for a Service with a selector that matches no pods',
      'should create Endpoints and EndpointSlices for Pods matching a Service',
    ),
    { title: 'should support creating EndpointSlice API operations', not: API_ALONE },
    ...titled(
      'endpointslice',
      'should support a Service with multiple ports specified in multiple EndpointSlices',
      'should support a Service with multiple endpoint IPs specified in multiple EndpointSlices',
    ).map((one) => ({
      ...one,
      stories: ['endpoints of several slices are one set, and one that is in two counts once'],
    })),
  ],
};

export const ENDPOINTSLICE_MIRRORING: UpstreamFile = {
  path: 'test/e2e/network/endpointslicemirroring.go',
  cases: titled(
    'endpointslicemirroring',
    'should mirror a custom Endpoints resource through create update and delete',
    'should mirror a custom Endpoint with multiple subsets and same IP address',
  ),
};

export const ENDPOINTS: UpstreamFile = {
  path: 'test/e2e/network/endpoints.go',
  cases: [
    { title: 'should test the lifecycle of an Endpoint', not: API_ALONE },
    ...titled(
      'endpointslice',
      'should create and delete Endpoints for a Service with a selector that matches no pods',
      'should create Endpoints for Pods matching a Service',
    ),
  ],
};

export const TRAFFIC_DISTRIBUTION: UpstreamFile = {
  path: 'test/e2e/network/traffic_distribution.go',
  cases: titled(
    'traffic-distribution',
    'should route traffic to an endpoint in the same zone when using PreferClose',
    'should route traffic correctly between pods on multiple nodes when using PreferClose',
    'should route traffic to an endpoint in the same zone when using PreferSameZone',
    'should route traffic correctly between pods on multiple nodes when using PreferSameZone',
    'should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode',
    'should route traffic to an endpoint on the same node when using PreferSameNode and fall back when the endpoint becomes unavailable',
  ).map((one) => ({ ...one, stories: BY_HINTS })),
};

export const TOPOLOGY_HINTS: UpstreamFile = {
  path: 'test/e2e/network/topology_hints.go',
  cases: titled('traffic-distribution', 'should distribute endpoints evenly').map((one) => ({
    ...one,
    stories: BY_HINTS,
  })),
};
