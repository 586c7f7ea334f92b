/** All stories. */
import type { Story } from '../story.ts';
import { affinityStories } from './affinity.ts';
import { clusterIPStories } from './cluster-ip.ts';
import { endpointStories } from './endpoints.ts';
import { hostStories } from './host.ts';
import { loadBalancerStories } from './load-balancer.ts';
import { nodePortStories } from './node-port.ts';
import { policyStories } from './policies.ts';
import { serviceStories } from './services.ts';
import { topologyStories } from './topology.ts';

export const STORIES: readonly Story[] = [
  ...serviceStories,
  ...clusterIPStories,
  ...nodePortStories,
  ...loadBalancerStories,
  ...policyStories,
  ...endpointStories,
  ...topologyStories,
  ...affinityStories,
  ...hostStories,
];
