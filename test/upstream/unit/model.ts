/** Cases of kube-proxy's maps of Services and endpoints, and of its Node. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, rows, sameRows, tested, told } from '../held.ts';

const SLICES = 'test/upstream/unit/endpoint-slices.test.ts';
const ENDPOINTS = 'test/upstream/unit/endpoints-map.test.ts';
const SERVICES = 'test/upstream/unit/service-map.test.ts';
const ORDER =
  'whether another order alone is looked at again is left open: endpoints are sorted afterwards, and the rules stay the same';
const NOTHING_LEFT = 'nothing is left of slices that are deleted, of one Service or of several';

export const SLICE_CACHE: UpstreamFile = {
  path: 'pkg/proxy/endpointslicecache_test.go',
  cases: [
    ...sameRows('TestEndpointsMapFromESC', SLICES, [
      '1 slice, 2 hosts, ports 80,443',
      '2 slices, same port',
      '2 overlapping slices, same port',
      '2 slices, overlapping endpoints, some endpoints unready in 1 or both',
      '2 slices, overlapping endpoints, some endpoints unready and some endpoints terminating',
      '2 slices, overlapping endpoints, all unready',
      '3 slices with different services and namespaces',
      'Nil port should not break anything',
      'Different endpoints with duplicate IPs should not be filtered',
    ]),
    tested('TestEndpointInfoByServicePort/simple use case with 3 endpoints', SLICES, '1 slice, 2 hosts, ports 80,443'),
    tested(
      'TestEndpointInfoByServicePort/4 different slices with duplicate IPs',
      SLICES,
      'Different endpoints with duplicate IPs should not be filtered',
    ),
    {
      title: 'TestEndpointInfoByServicePort/with duplicate Endpoints, prefer non-terminating',
      stories: ['of an endpoint in two slices the one that is of use counts'],
      tests: { [SLICES]: ['with duplicate Endpoints, prefer non-terminating'] },
      differs:
        'of equal ones the first slice by name counts; kube-proxy takes the last that is not terminating, in the order of a map',
    },
    ...sameRows('TestEsDataChanged', SLICES, [
      'identical slices, ports only',
      'port removed',
      'port added',
      'identical with endpoints',
      'identical with endpoint added',
    ]),
    notHere('TestEsDataChanged/identical slices, ports out of order', ORDER),
    notHere('TestEsDataChanged/identical with endpoints out of order', ORDER),
    tested('TestEndpointSliceCacheClearedCorrectly', SLICES, NOTHING_LEFT),
    tested('TestSameServiceEndpointSliceCacheClearedCorrectly', SLICES, NOTHING_LEFT),
  ],
};

const CHANGED_ROWS: Readonly<Record<string, string>> = {
  empty: 'nothing',
  'no change, unnamed port': 'no change, unnamed port',
  'no change, named port, local': 'no change, named port, local',
  'no change, multiple slices': 'no change, multiple subsets',
  'no change, multiple slices, multiple ports, local': 'no change, multiple subsets, multiple ports, local',
  'no change, multiple services, slices, IPs, and ports': 'no change, multiple endpoints, subsets, IPs, and ports',
  'add an EndpointSlice': 'add an Endpoints',
  'remove an EndpointSlice': 'remove an Endpoints',
  'add an IP and port': 'add an IP and port',
  'remove an IP and port': 'remove an IP and port',
  'add a slice to an endpoint': 'add a subset',
  'remove a slice from an endpoint': 'remove a subset',
  'rename a port': 'rename a port',
  'renumber a port': 'renumber a port',
  'complex add and remove': 'complex add and remove',
  'change from 0 endpoint address to 1 unnamed port': 'change from 0 endpoint address to 1 unnamed port',
  'change from terminating to empty pod': 'change from terminating to empty pod',
};
const TIMES = 'are those of the slices that changed, each once';
const NO_TIMES =
  'are missing without the annotation, and of a slice that is deleted: its annotation is of an earlier change';
const KEPT_TIME =
  'a change counts although its slice is deleted before the sync; kube-proxy forgets the times of all slices of the Service then';

export const ENDPOINT_CHANGES: UpstreamFile = {
  path: 'pkg/proxy/endpointschangetracker_test.go',
  cases: [
    tested(
      'TestGetLocalEndpointIPs',
      ENDPOINTS,
      'ready endpoints on this node are counted by address, and those that drain are not',
    ),
    ...Object.entries(CHANGED_ROWS).map(([row, test]) => tested(`TestUpdateEndpointsMap/${row}`, ENDPOINTS, test)),
    {
      title: 'TestUpdateEndpointsMap/change from ready to terminating pod',
      tests: { [ENDPOINTS]: ['change from ready to terminating pod'] },
      differs: 'flows are not looked through for an endpoint that begins to drain: they go on',
    },
    ...rows(
      'TestLastChangeTriggerTime',
      ['Single addEndpoints', 'addEndpoints then updatedEndpoints', 'Add two endpoints then modify one'],
      (title) => tested(title, SLICES, TIMES),
    ),
    ...rows('TestLastChangeTriggerTime', ['Endpoints without annotation set', 'delete'], (title) =>
      tested(title, SLICES, NO_TIMES),
    ),
    tested(
      'TestLastChangeTriggerTime/Endpoints create before tracker started',
      SLICES,
      'do not count from before the start, and each is taken once',
    ),
    ...rows(
      'TestLastChangeTriggerTime',
      ['addEndpoints then deleteEndpoints', 'add then delete then add again'],
      (title) => ({
        title,
        tests: { [SLICES]: [TIMES, NO_TIMES] },
        differs: KEPT_TIME,
      }),
    ),
    ...sameRows('TestEndpointSliceUpdate', SLICES, [
      "add a simple slice that doesn't already exist",
      'add the same slice that already exists',
      'add a slice that overlaps with existing state',
      'add a slice that overlaps with existing state and partial ports',
      'remove a slice that overlaps with existing state',
      "remove a slice that doesn't even exist in current state",
      'transition all endpoints to unready state',
      'transition all endpoints to ready state',
      'transition some endpoints to ready state',
      'transition some endpoints to terminating state',
    ]),
    tested('TestEndpointSliceUpdate/add an FQDN slice (invalid address type)', SLICES, 'a slice of host names is none'),
    notHere(
      'TestCheckoutChanges/empty slices',
      'it tests how kube-proxy keeps changes until a sync: nothing in, nothing out',
    ),
    tested('TestCheckoutChanges/adding initial slice', SLICES, "add a simple slice that doesn't already exist"),
    tested('TestCheckoutChanges/removing port in update', SLICES, 'removing port in update'),
  ],
};

export const SERVICE_CHANGES: UpstreamFile = {
  path: 'pkg/proxy/servicechangetracker_test.go',
  cases: [
    tested('TestServiceToServiceMap/nothing', SERVICES, 'leave nothing when they come and go before a sync'),
    ...sameRows('TestServiceToServiceMap', SERVICES, [
      'headless service',
      'headless sctp service',
      'headless service without port',
      'cluster ip service',
      'nodeport service',
      'load balancer service',
      'load balancer service ipMode VIP',
      'load balancer service ipMode Proxy',
      'load balancer service with only local traffic policy',
      'external name service',
      'service with ipv6 clusterIP under ipv4 mode, service should be filtered',
      'service with ipv4 clusterIP under ipv6 mode, service should be filtered',
    ]),
    ...rows(
      'TestServiceToServiceMap',
      [
        'service with ipv4 configurations under ipv4 mode',
        'service with ipv6 configurations under ipv6 mode',
        'service with both ipv4 and ipv6 configurations under ipv4 mode, ipv6 fields should be filtered',
        'service with both ipv4 and ipv6 configurations under ipv6 mode, ipv4 fields should be filtered',
      ],
      (title, row): UpstreamCase => ({
        title,
        tests: { [SERVICES]: [row] },
        differs:
          'an address that is an external IP and one of the load balancer has the source ranges (docs/semantics.md 1.14)',
      }),
    ),
    tested(
      'TestServiceToServiceMap/service with extra space in LoadBalancerSourceRanges',
      SERVICES,
      'service with extra space in LoadBalancerSourceRanges',
    ),
    told('TestServiceMapUpdateHeadless', 'a headless Service has no address'),
    told('TestUpdateServiceTypeExternalName', 'a Service that becomes one of those is as good as deleted'),
    tested(
      'TestBuildServiceMapAddRemove',
      SERVICES,
      'have a port of the map for each of theirs, and a health check port where policy Local asks for it',
    ),
    tested(
      'TestBuildServiceMapServiceUpdate',
      SERVICES,
      'change their type and back, and an equal Service is no change',
    ),
    tested('TestServiceCacheLeaks', SERVICES, 'leave nothing when they come and go before a sync'),
  ],
};

const FOLLOWS_NODE = { 'test/netns/cluster.test.ts': ['follows-node'] };
const NO_EXIT =
  'the agent takes what the Node says now, and its process goes on; kube-proxy exits and is started again';

export const NODE: UpstreamFile = {
  path: 'pkg/proxy/node_test.go',
  cases: [
    ...rows(
      'TestNewNodeManager',
      [
        "node object doesn't exist",
        "node object doesn't exist, with watchPodCIDRs",
        'node object exist without NodeIP',
        'node object exist with NodeIP',
        'watchPodCIDRs and node object exist without PodCIDRs',
        'watchPodCIDRs and node object exist with NodeIP and PodCIDR',
        'watchPodCIDRs and node object exist without NodeIP and with PodCIDR',
      ],
      (title): UpstreamCase => ({
        title,
        tests: {
          ...FOLLOWS_NODE,
          'test/agent/mode-settings.test.ts': [
            'knows the node by --bind-address, the Node object, or its interfaces',
            'recognises local pods by the first CIDR of the family, the Node’s, a bridge, a prefix, or not at all',
          ],
        },
      }),
    ),
    ...rows(
      'TestNodeManagerOnNodeChange',
      [
        'node updated with same NodeIPs',
        'node updated with different NodeIPs',
        'watchPodCIDR and node updated with same PodCIDRs',
        'watchPodCIDR and node updated with different PodCIDRs',
      ],
      (title): UpstreamCase => ({ title, tests: FOLLOWS_NODE, differs: NO_EXIT }),
    ),
    {
      title: 'TestNodeManagerOnNodeDelete',
      tests: {
        'test/serve/health.test.ts': [
          'is unhealthy for a Node that is ineligible or unknown, and stays alive (docs/semantics.md 9.4)',
        ],
      },
      differs:
        'the agent goes on with the last addresses and the last zone of a Node that was deleted (docs/semantics.md 9.2)',
    },
    { title: 'TestNodeManagerNode', tests: FOLLOWS_NODE },
  ],
};
