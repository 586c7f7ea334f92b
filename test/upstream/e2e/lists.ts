/** The end-to-end tests of Kubernetes for Services and their slices, and what holds them here: the suites have them by the same titles. */
import { type Holdings, type UpstreamFile, upstreamFile } from '../cases.ts';
import type { Suite } from './jig.ts';
import { affinityOfLoadBalancers, affinityOfServices } from './suites/affinity.ts';
import { basics } from './suites/basics.ts';
import { conntrack, conntrackOfLoadBalancers, kubeProxy } from './suites/conntrack.ts';
import { disruptive, disruptiveOfNetworking } from './suites/disruptive.ts';
import { dualStack, noSnat, serviceCidrs } from './suites/dual-stack.ts';
import { granular, granularOfSecond, granularOnHosts, granularOnHostsOfSecond } from './suites/granular.ts';
import { loadBalancers } from './suites/load-balancers.ts';
import { policies } from './suites/policies.ts';
import { protocols } from './suites/protocols.ts';

const API_ALONE = 'It tests the API server alone.';
const NO_HOST_PORTS = 'A hostPort is for the container runtime, and no part of a Service.';
const NO_SCTP_SOCKETS =
  'It needs servers with SCTP sockets. test/netns/sctp.test.ts begins associations through the same rules by raw sockets.';
const ONE_ADDRESS_A_NODE =
  'Each node is asked at one address. The test of Kubernetes takes the n-th of all InternalIPs for that of the n-th node, so it fails with any proxy where nodes have two, as dual-stack nodes do.';

const PROXIED = 'The API server is the proxy.';

/** In nftables mode (KEP-6032), newer than 1.36. */
const RELAY = 'test/netns/localhost-relay.test.ts';
const SLICES = 'test/upstream/e2e/endpointslice.test.ts';
const SEVERAL_SLICES = ['several-slices-one-set', SLICES];
const MIRRORING = 'test/upstream/e2e/endpointslicemirroring.test.ts';
const BY_ZONE = [
  'node-hints-first',
  'node-hints-fall-back-to-zone',
  'hints-for-others-alone',
  'zone-hints-for-others-alone',
  'test/upstream/e2e/traffic-distribution.test.ts',
];

/** All tests of suites in this file of `suites/`. */
function restated(file: string, ...suites: readonly Suite[]): Holdings {
  const titles = suites.flatMap((suite) => Object.keys(suite));
  return Object.fromEntries(titles.map((title) => [title, `test/upstream/e2e/suites/${file}.ts`]));
}

function without(suite: Suite, ...others: readonly Suite[]): Suite {
  return Object.fromEntries(Object.entries(suite).filter(([title]) => !others.some((other) => title in other)));
}

const network = (file: string, holdings: Holdings): UpstreamFile =>
  upstreamFile(`test/e2e/network/${file}.go`, holdings);

export const e2eCases: readonly UpstreamFile[] = [
  network('service', {
    ...restated('basics', basics),
    ...restated('policies', policies),
    ...restated('protocols', protocols),
    ...restated('affinity', affinityOfServices),
    ...restated('disruptive', disruptive),
    'should prevent NodePort collisions': { not: API_ALONE },
    'should check NodePort out-of-range': { not: API_ALONE },
    'should find a service from listing all namespaces': { not: API_ALONE },
    'should complete a service status lifecycle': { not: API_ALONE },
    'should delete a collection of services': { not: API_ALONE },
  }),
  network('conntrack', restated('conntrack', conntrack)),
  network('kube_proxy', {
    ...restated('conntrack', kubeProxy),
    'should update metric for tracking accepted packets destined for localhost nodeports':
      'test/netns/packet-counts.test.ts',
  }),
  network('loadbalancer', {
    ...restated('load-balancers', without(loadBalancers, affinityOfLoadBalancers, conntrackOfLoadBalancers)),
    'should only target nodes with endpoints': {
      by: 'test/upstream/e2e/suites/load-balancers.ts',
      differs: ONE_ADDRESS_A_NODE,
    },
    ...restated('affinity', affinityOfLoadBalancers),
    ...restated('conntrack', conntrackOfLoadBalancers),
    'should handle load balancer cleanup finalizer for service': {
      not: 'The finalizer belongs to the controller of a cloud.',
    },
  }),
  network('networking', {
    ...restated('granular', granular, granularOnHosts),
    ...restated('disruptive', disruptiveOfNetworking),
    'should function for pod-Service: sctp': { not: NO_SCTP_SOCKETS },
    'should function for node-Service: sctp': { not: NO_SCTP_SOCKETS },
    'should function for endpoint-Service: sctp': { not: NO_SCTP_SOCKETS },
    'should provide Internet connection for containers': {
      not: 'It tests the network of Pods, without a Service.',
    },
    'should provider Internet connection for containers using DNS': {
      not: 'It tests the network of Pods, without a Service.',
    },
    'should provide unchanging, static URL paths for kubernetes api services': { not: API_ALONE },
    'should allow creating a Pod with an SCTP HostPort': { not: NO_HOST_PORTS },
  }),
  network('dual_stack', {
    ...restated('dual-stack', dualStack),
    ...restated('granular', granularOfSecond, granularOnHostsOfSecond),
    'should function for pod-Service: sctp': { not: NO_SCTP_SOCKETS },
    'should have at least one dual-stack node': { not: 'It tests the kubelet alone.' },
    'should create pod, add ipv6 and ipv4 ip to host ips': { not: 'It tests the kubelet alone.' },
  }),
  network('no_snat', restated('dual-stack', noSnat)),
  network('service_cidrs', {
    ...restated('dual-stack', serviceCidrs),
    'should support ServiceCIDR API operations': { not: API_ALONE },
    'should support IPAddress API operations': { not: API_ALONE },
  }),
  network('service_latency', {
    'should not be very high': {
      not: 'It has a limit in seconds, which a test here has not: docs/benchmarks.md has the latencies that are measured.',
    },
  }),
  network('hostport', {
    'validates that there is no conflict between pods with same hostPort but different hostIP and protocol': {
      not: NO_HOST_PORTS,
    },
  }),
  network('proxy', {
    'should proxy logs on node with explicit kubelet port using proxy subresource': { not: PROXIED },
    'should proxy logs on node using proxy subresource': { not: PROXIED },
    'should proxy through a service and a pod': { not: PROXIED },
    'A set of valid responses are returned for both pod and service ProxyWithPath': { not: PROXIED },
    'A set of valid responses are returned for both pod and service Proxy': { not: PROXIED },
  }),
  network('localhost_nodeports', {
    'should proxy localhost NodePort traffic to backends across nodes': RELAY,
    'should honor sessionAffinity=ClientIP for localhost NodePort': RELAY,
    'should let a node pull an image from a registry exposed via localhost NodePort': {
      by: RELAY,
      differs:
        'An HTTP server stands for the registry, and a client compares the digest of 24 MiB: a kubelet with a container runtime is not part of it.',
    },
  }),
  network('endpointslice', {
    'should create and delete EndpointSlices for a Service with a selector that matches no pods': SLICES,
    'should create Endpoints and EndpointSlices for Pods matching a Service': SLICES,
    'should support creating EndpointSlice API operations': { not: API_ALONE },
    'should support a Service with multiple ports specified in multiple EndpointSlices': SEVERAL_SLICES,
    'should support a Service with multiple endpoint IPs specified in multiple EndpointSlices': SEVERAL_SLICES,
  }),
  network('endpointslicemirroring', {
    'should mirror a custom Endpoints resource through create update and delete': MIRRORING,
    'should mirror a custom Endpoint with multiple subsets and same IP address': MIRRORING,
  }),
  network('endpoints', {
    'should test the lifecycle of an Endpoint': { not: API_ALONE },
    'should create and delete Endpoints for a Service with a selector that matches no pods': SLICES,
    'should create Endpoints for Pods matching a Service': SLICES,
  }),
  network('traffic_distribution', {
    'should route traffic to an endpoint in the same zone when using PreferClose': BY_ZONE,
    'should route traffic correctly between pods on multiple nodes when using PreferClose': BY_ZONE,
    'should route traffic to an endpoint in the same zone when using PreferSameZone': BY_ZONE,
    'should route traffic correctly between pods on multiple nodes when using PreferSameZone': BY_ZONE,
    'should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode': BY_ZONE,
    'should route traffic to an endpoint on the same node when using PreferSameNode and fall back when the endpoint becomes unavailable':
      BY_ZONE,
  }),
  network('topology_hints', { 'should distribute endpoints evenly': BY_ZONE }),
];
