/** All stories. */
import type { Story } from '../story.ts';
import { affinityStories } from './affinity.ts';
import { clusterIPStories } from './cluster-ip.ts';
import { endpointStories } from './endpoints.ts';
import { hostStories } from './host.ts';
import { kubernetesStories } from './kubernetes.ts';
import { loadBalancerStories } from './load-balancer.ts';
import { nodePortStories } from './node-port.ts';
import { policyStories } from './policies.ts';
import { serviceStories } from './services.ts';
import { topologyStories } from './topology.ts';
import { trafficStories } from './traffic.ts';

/** In the order in which they are read. */
export const AREAS: Readonly<Record<string, readonly Story[]>> = {
  Services: serviceStories,
  'Cluster IPs': clusterIPStories,
  'Node ports': nodePortStories,
  'External IPs and load balancers': loadBalancerStories,
  Policies: policyStories,
  Endpoints: endpointStories,
  Topology: topologyStories,
  'Weights and backups': trafficStories,
  Affinity: affinityStories,
  'The node itself': hostStories,
  'Several things at once, as in Kubernetes’ packet tests': kubernetesStories,
};

export const STORIES: readonly Story[] = Object.values(AREAS).flat();
