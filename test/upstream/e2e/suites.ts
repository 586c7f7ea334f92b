/** All suites, by the subject that Kubernetes gives them. */
import type { Suite } from './jig.ts';
import { affinityOfServices } from './suites/affinity.ts';
import { basics } from './suites/basics.ts';
import { conntrack, kubeProxy } from './suites/conntrack.ts';
import { disruptive, disruptiveOfNetworking } from './suites/disruptive.ts';
import { dualStack, noSnat, serviceCidrs } from './suites/dual-stack.ts';
import { granular, granularOfSecond, granularOnHosts, granularOnHostsOfSecond } from './suites/granular.ts';
import { loadBalancers } from './suites/load-balancers.ts';
import { policies } from './suites/policies.ts';
import { protocols } from './suites/protocols.ts';

export const SUITES: Readonly<Record<string, Suite>> = {
  Services: { ...basics, ...policies, ...protocols, ...affinityOfServices },
  LoadBalancers: loadBalancers,
  'Networking, Granular Checks: Services': granular,
  DualStack: dualStack,
  'DualStack, Granular Checks: Services Secondary IP Family': granularOfSecond,
  Conntrack: conntrack,
  KubeProxy: kubeProxy,
  NoSNAT: noSnat,
  'Service CIDRs': serviceCidrs,
};

/** They stop agents or the API server, or need ports of the nodes: one after another, when the others have ended. */
export const DISRUPTIVE: Readonly<Record<string, Suite>> = {
  'Networking, hostNetwork': granularOnHosts,
  'DualStack, hostNetwork': granularOnHostsOfSecond,
  'Services, disruptive': disruptive,
  'Networking, disruptive': disruptiveOfNetworking,
};
