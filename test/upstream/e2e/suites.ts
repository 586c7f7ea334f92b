/** All suites, by the subject that Kubernetes gives them. */
import type { Suite } from './jig.ts';
import { affinityOfLoadBalancers, affinityOfServices } from './suites/affinity.ts';
import { basics } from './suites/basics.ts';
import { policies } from './suites/policies.ts';
import { protocols } from './suites/protocols.ts';

export const SUITES: Readonly<Record<string, Suite>> = {
  Services: { ...basics, ...policies, ...protocols, ...affinityOfServices },
  LoadBalancers: affinityOfLoadBalancers,
};

/** They stop agents or the API server. */
export const DISRUPTIVE: Readonly<Record<string, Suite>> = {};
