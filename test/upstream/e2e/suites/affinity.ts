/** Session affinity, from test/e2e/network/service.go and loadbalancer.go of Kubernetes. */
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../../../helpers/base/until.ts';
import type { ServiceSpec } from '../allocation.ts';
import { affinity, type Client, clusterAt, type Jig, nodePortAt, type Suite, type Target, textOf } from '../jig.ts';

type Type = 'ClusterIP' | 'NodePort' | 'LoadBalancer';

/** Seconds; upstream waits for 125 of them. */
const TIMEOUT = 2;

/** Three Pods behind a Service, its clients, and where they ask. */
async function begin(jig: Jig, type: Type, spec: ServiceSpec = {}) {
  const name = `affinity-${type.toLowerCase()}`;
  const service = await jig.service(name, { type, sessionAffinity: 'ClientIP', ...spec });
  // A load balancer sends packets to nodes that have endpoints: here to the first node.
  const pods = await jig.servers(name, 3, type === 'LoadBalancer' ? { node: 'node-1' } : {});
  await jig.endpoints(name, ...pods);
  const outside: Client = { ask: (request) => jig.cluster.askFromOutside(request) };
  const client = type === 'LoadBalancer' ? outside : await jig.client();
  const address = jig.externalAddress;
  if (type === 'LoadBalancer') await jig.balance(service);
  const node = jig.cluster.nodes[0]?.addresses.v4 ?? '';
  const target: Target = type === 'ClusterIP' ? clusterAt(service) : nodePortAt(service, node);
  return { service, client, target: type === 'LoadBalancer' ? { ...clusterAt(service), address } : target };
}

async function holds(jig: Jig, type: Type, spec: ServiceSpec = {}): Promise<void> {
  const { client, target } = await begin(jig, type, spec);
  await affinity(client, target, true);
}

async function switches(jig: Jig, type: Type, spec: ServiceSpec = {}): Promise<void> {
  const { service, client, target } = await begin(jig, type, spec);
  await affinity(client, target, true);
  for (const sessionAffinity of ['None', 'ClientIP'] as const) {
    await jig.update(service, (changed) => {
      changed.spec.sessionAffinity = sessionAffinity;
    });
    await affinity(client, target, sessionAffinity === 'ClientIP');
  }
}

/** A client that was away for longer than the timeout goes to any Pod. */
async function timesOut(jig: Jig, type: Type): Promise<void> {
  const sessionAffinityConfig = { clientIP: { timeoutSeconds: TIMEOUT } };
  const { client, target } = await begin(jig, type, { sessionAffinityConfig });
  await affinity(client, target, true);
  const hosts = new Set<string>();
  await until('another Pod after the timeout', async () => {
    hosts.add(await textOf(client, target));
    if (hosts.size === 1) await pause(TIMEOUT * 1000 + 500);
    return hosts.size > 1;
  });
}

export const affinityOfServices: Suite = {
  'should have session affinity work for service with type clusterIP': (jig) => holds(jig, 'ClusterIP'),
  'should have session affinity timeout work for service with type clusterIP': (jig) => timesOut(jig, 'ClusterIP'),
  'should be able to switch session affinity for service with type clusterIP': (jig) => switches(jig, 'ClusterIP'),
  'should have session affinity work for NodePort service': (jig) => holds(jig, 'NodePort'),
  'should have session affinity timeout work for NodePort service': (jig) => timesOut(jig, 'NodePort'),
  'should be able to switch session affinity for NodePort service': (jig) => switches(jig, 'NodePort'),
};

const POLICIES = { Local: { externalTrafficPolicy: 'Local' }, Cluster: { externalTrafficPolicy: 'Cluster' } } as const;

export const affinityOfLoadBalancers: Suite = {
  'should have session affinity work for LoadBalancer service with Local traffic policy': (jig) =>
    holds(jig, 'LoadBalancer', POLICIES.Local),
  'should be able to switch session affinity for LoadBalancer service with Local traffic policy': (jig) =>
    switches(jig, 'LoadBalancer', POLICIES.Local),
  'should have session affinity work for LoadBalancer service with Cluster traffic policy': (jig) =>
    holds(jig, 'LoadBalancer', POLICIES.Cluster),
  'should be able to switch session affinity for LoadBalancer service with Cluster traffic policy': (jig) =>
    switches(jig, 'LoadBalancer', POLICIES.Cluster),
};
