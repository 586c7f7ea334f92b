/** The end-to-end tests of Kubernetes for Services, and what holds them here: the suites have them by the same titles. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, tested } from '../held.ts';
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

/** All tests of a suite in this file of `suites/`. */
function restated(file: string, ...suites: readonly Suite[]): UpstreamCase[] {
  const titles = new Set(suites.flatMap((suite) => Object.keys(suite)));
  return [...titles].map((title) => tested(title, `test/upstream/e2e/suites/${file}.ts`, title));
}

function without(suite: Suite, ...others: readonly Suite[]): Suite {
  return Object.fromEntries(Object.entries(suite).filter(([title]) => !others.some((other) => title in other)));
}

const network = (file: string, ...cases: readonly UpstreamCase[]): UpstreamFile => ({
  path: `test/e2e/network/${file}.go`,
  cases,
});

const all = (titles: readonly string[], reason: string) => titles.map((title) => notHere(title, reason));

export const services = network(
  'service',
  ...restated('basics', basics),
  ...restated('policies', policies),
  ...restated('protocols', protocols),
  ...restated('affinity', affinityOfServices),
  ...restated('disruptive', disruptive),
  ...all(
    [
      'should prevent NodePort collisions',
      'should check NodePort out-of-range',
      'should find a service from listing all namespaces',
      'should complete a service status lifecycle',
      'should delete a collection of services',
    ],
    API_ALONE,
  ),
);

export const connections = network('conntrack', ...restated('conntrack', conntrack));

export const proxies = network('kube_proxy', ...restated('conntrack', kubeProxy), {
  title: 'should update metric for tracking accepted packets destined for localhost nodeports',
  tests: {
    'test/netns/packet-counts.test.ts': [
      'report the connections to node ports on 127.0.0.0/8 and no others, over a restart and a counter that is set to 0',
    ],
  },
});

const ONLY_NODES_WITH_ENDPOINTS = 'should only target nodes with endpoints';

export const balancers = network(
  'loadbalancer',
  ...restated('load-balancers', without(loadBalancers, affinityOfLoadBalancers, conntrackOfLoadBalancers)).map((one) =>
    one.title === ONLY_NODES_WITH_ENDPOINTS ? { ...one, differs: ONE_ADDRESS_A_NODE } : one,
  ),
  ...restated('affinity', affinityOfLoadBalancers),
  ...restated('conntrack', conntrackOfLoadBalancers),
  notHere(
    'should handle load balancer cleanup finalizer for service',
    'The finalizer belongs to the controller of a cloud.',
  ),
);

export const networking = network(
  'networking',
  ...restated('granular', granular, granularOnHosts),
  ...restated('disruptive', disruptiveOfNetworking),
  ...all(
    [
      'should function for pod-Service: sctp',
      'should function for node-Service: sctp',
      'should function for endpoint-Service: sctp',
    ],
    NO_SCTP_SOCKETS,
  ),
  ...all(
    [
      'should provide Internet connection for containers',
      'should provider Internet connection for containers using DNS',
    ],
    'It tests the network of Pods, without a Service.',
  ),
  notHere('should provide unchanging, static URL paths for kubernetes api services', API_ALONE),
  notHere('should allow creating a Pod with an SCTP HostPort', NO_HOST_PORTS),
);

export const bothFamilies = network(
  'dual_stack',
  ...restated('dual-stack', dualStack),
  ...restated('granular', granularOfSecond, granularOnHostsOfSecond),
  notHere('should function for pod-Service: sctp', NO_SCTP_SOCKETS),
  ...all(
    ['should have at least one dual-stack node', 'should create pod, add ipv6 and ipv4 ip to host ips'],
    'It tests the kubelet alone.',
  ),
);

export const snat = network('no_snat', ...restated('dual-stack', noSnat));

export const cidrs = network(
  'service_cidrs',
  ...restated('dual-stack', serviceCidrs),
  ...all(['should support ServiceCIDR API operations', 'should support IPAddress API operations'], API_ALONE),
);

export const latency = network(
  'service_latency',
  notHere(
    'should not be very high',
    'It has a limit in seconds, which a test here has not: docs/benchmarks.md has the latencies that are measured.',
  ),
);

export const hostPorts = network(
  'hostport',
  notHere(
    'validates that there is no conflict between pods with same hostPort but different hostIP and protocol',
    NO_HOST_PORTS,
  ),
);

export const proxyOfApi = network(
  'proxy',
  ...all(
    [
      'should proxy logs on node with explicit kubelet port using proxy subresource',
      'should proxy logs on node using proxy subresource',
      'should proxy through a service and a pod',
      'A set of valid responses are returned for both pod and service ProxyWithPath',
      'A set of valid responses are returned for both pod and service Proxy',
    ],
    'The API server is the proxy.',
  ),
);
