/** Traffic policies, endpoints that are not ready, and endpoints that terminate, from test/e2e/network/service.go of Kubernetes. */
import assert from 'node:assert/strict';
import type { ServiceSpec } from '../allocation.ts';
import {
  always,
  at,
  type Client,
  clusterAt,
  fails,
  type Jig,
  never,
  nodePortAt,
  replies,
  type Suite,
  textOf,
} from '../jig.ts';
import type { Pod, PodInput } from '../kubelet.ts';

const LOCAL: ServiceSpec = { internalTrafficPolicy: 'Local' };

const addressOf = (jig: Jig, node: string) =>
  jig.cluster.nodes.find(({ name }) => name === node)?.addresses.v4 ?? assert.fail(node);

/** Its Pod is on node-1: who is on node-1 is answered by it, who is on node-2 is not. */
async function respectsLocal(
  jig: Jig,
  clientsShareHost: readonly boolean[],
  server: Partial<PodInput> = {},
): Promise<void> {
  const port = server.ports?.[0]?.containerPort ?? 80;
  const service = await jig.service('svc-itp', { ...LOCAL, ports: [{ port: 80, targetPort: port }] });
  const pod = await jig.server('svc-itp', 'echo-hostname-0', { node: 'node-1', ...server });
  await jig.endpoints('svc-itp', pod);
  for (const hostNetwork of clientsShareHost) {
    const near = await jig.client('node-1', { hostNetwork });
    const far = await jig.client('node-2', { hostNetwork });
    await replies(near, clusterAt(service), pod.hostname);
    await always(near, clusterAt(service), pod.hostname);
    await fails(far, clusterAt(service));
    await never(far, clusterAt(service));
  }
}

interface Terminating {
  readonly service: Awaited<ReturnType<Jig['service']>>;
  readonly pod: Pod;
  readonly near: Pod;
  readonly far: Pod;
}

/** A Service with one Pod on node-1, clients on node-1 and node-2, and then the Pod terminates. */
async function terminates(jig: Jig, spec: ServiceSpec): Promise<Terminating> {
  const service = await jig.service('svc-proxy-terminating', spec);
  const pod = await jig.server('svc-proxy-terminating', 'echo-hostname-0', { node: 'node-1' });
  await jig.endpoints('svc-proxy-terminating', pod);
  const [near, far] = [await jig.client('node-1'), await jig.client('node-2')];
  await replies(near, clusterAt(service), pod.name);
  await jig.cluster.kubelet.terminate(pod);
  await jig.isTerminating('svc-proxy-terminating');
  return { service, pod, near, far };
}

/** A server that terminates and is not ready any more, a client on another node, and a Service of node ports. */
async function unreadyAndTerminating(jig: Jig, publishNotReadyAddresses: boolean): Promise<Terminating> {
  const service = await jig.service('svc-unready', { type: 'NodePort', publishNotReadyAddresses });
  const pod = await jig.server('svc-unready', 'webserver-pod', { node: 'node-1' });
  await jig.endpoints('svc-unready', pod);
  const [near, far] = [await jig.client('node-1'), await jig.client('node-2')];
  await replies(far, clusterAt(service), pod.name);
  await jig.cluster.kubelet.terminate(pod, { isReady: false });
  await jig.isTerminating('svc-unready');
  return { service, pod, near, far };
}

const everywhere = (jig: Jig, { service }: Terminating) => [
  clusterAt(service),
  nodePortAt(service, addressOf(jig, 'node-1')),
  nodePortAt(service, addressOf(jig, 'node-2')),
];

export const policies: Suite = {
  'should create endpoints for unready pods': async (jig) => {
    const service = await jig.service('tolerate-unready', { publishNotReadyAddresses: true });
    const pod = await jig.server('tolerate-unready', 'slow-terminating-unready-pod', { isReady: false });
    const client = await jig.client();
    await replies(client, clusterAt(service), pod.name);
    await jig.cluster.kubelet.terminate(pod, { isReady: false });
    await jig.update(service, ({ spec }) => {
      spec.publishNotReadyAddresses = false;
    });
    await fails(client, clusterAt(service));
    await jig.update(service, ({ spec }) => {
      spec.publishNotReadyAddresses = true;
    });
    await replies(client, clusterAt(service), pod.name);
  },

  'should be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is true': async (jig) => {
    const made = await unreadyAndTerminating(jig, true);
    for (const target of everywhere(jig, made)) await always(made.far, target, made.pod.name);
  },

  'should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false': async (
    jig,
  ) => {
    const made = await unreadyAndTerminating(jig, false);
    for (const target of everywhere(jig, made)) await fails(made.far, target);
    for (const target of everywhere(jig, made)) await never(made.far, target);
  },

  'should be rejected when no endpoints exist': async (jig) => {
    const service = await jig.service('no-pods', { ipFamilyPolicy: 'RequireDualStack' });
    const client = await jig.client('node-1');
    for (const target of jig.targets(service)) await fails(client, target, 'refused');
  },

  'should be rejected for evicted pods (no endpoints exist)': async (jig) => {
    const service = await jig.service('evicted-pods', { publishNotReadyAddresses: true });
    const pod = await jig.server('evicted-pods', 'evicted-pod');
    const client = await jig.client('node-1');
    await replies(client, clusterAt(service), pod.name);
    await jig.cluster.kubelet.evict(pod);
    await jig.endpoints('evicted-pods');
    await fails(client, clusterAt(service), 'refused');
  },

  'should respect internalTrafficPolicy=Local Pod to Pod': (jig) => respectsLocal(jig, [false]),
  'should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod': (jig) => respectsLocal(jig, [true]),
  'should respect internalTrafficPolicy=Local Pod and Node, to Pod (hostNetwork: true)': (jig) =>
    respectsLocal(jig, [false, true], { hostNetwork: true, ports: [{ containerPort: 10_180 }] }),

  'should support externalTrafficPolicy=Local for type=NodePort': async (jig) => {
    const spec = { type: 'NodePort', externalTrafficPolicy: 'Local' } as const;
    const service = await jig.service('external-local-nodeport', spec);
    const pod = await jig.server('external-local-nodeport', 'server', { node: 'node-1' });
    const client = await jig.client('node-2', { hostNetwork: true });
    const target = nodePortAt(service, addressOf(jig, 'node-1'));
    await replies(client, target, pod.name);
    assert.equal(await textOf(client, { ...target, path: 'clientip' }), client.addresses.v4);
  },

  'should fail health check node port if there are only terminating endpoints': async (jig) => {
    const spec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' } as const;
    const service = await jig.service('svc-proxy-terminating', spec);
    const pod = await jig.server('svc-proxy-terminating', 'echo-hostname-0', { node: 'node-1' });
    const client = await jig.client('node-1');
    await jig.isHealthy(service, client, 'node-1', 200);
    await jig.cluster.kubelet.terminate(pod);
    await jig.isHealthy(service, client, 'node-1', 503);
    await always(client, nodePortAt(service, addressOf(jig, 'node-1')), pod.name);
  },

  'should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster':
    async (jig) => {
      const { service, pod, near, far } = await terminates(jig, {});
      await always(near, clusterAt(service), pod.name);
      await always(far, clusterAt(service), pod.name);
    },

  'should fallback to local terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Local':
    async (jig) => {
      const { service, pod, near, far } = await terminates(jig, LOCAL);
      await always(near, clusterAt(service), pod.name);
      await fails(far, clusterAt(service));
      await never(far, clusterAt(service));
    },

  'should fallback to terminating endpoints when there are no ready endpoints with externallTrafficPolicy=Cluster':
    async (jig) => {
      const { service, pod, near, far } = await terminates(jig, { type: 'NodePort' });
      for (const client of [near, far])
        for (const { addresses } of jig.cluster.nodes)
          await always(client, nodePortAt(service, addresses.v4), pod.name);
    },

  'should fallback to local terminating endpoints when there are no ready endpoints with externalTrafficPolicy=Local':
    async (jig) => {
      const spec = { type: 'NodePort', externalTrafficPolicy: 'Local' } as const;
      const { service, pod, near, far } = await terminates(jig, spec);
      await never(near, nodePortAt(service, addressOf(jig, 'node-2')));
      for (const client of [near, far]) await always(client, nodePortAt(service, addressOf(jig, 'node-1')), pod.name);
    },

  'should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes': async (jig) => {
    const spec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 32_100 } as const;
    const service = await jig.service('external-local-update', spec);
    const pod = await jig.server('external-local-update', 'server', { node: 'node-1' });
    const client = await jig.client('node-2', { hostNetwork: true });
    const isLocal = async () => {
      await jig.isHealthy(service, client, 'node-1', 200);
      for (const node of ['node-2', 'node-3']) await jig.isHealthy(service, client, node, 503);
      // The client on node-2 has a way of its own to its node's port, as a Pod inside the cluster.
      for (const node of ['node-1', 'node-2']) await isServed(jig, client, nodePortAt(service, addressOf(jig, node)));
      await fails(client, nodePortAt(service, addressOf(jig, 'node-3')));
    };
    await isLocal();
    const changed = await jig.update(service, (now) => {
      now.spec.externalTrafficPolicy = 'Cluster';
    });
    assert.equal(changed.spec.healthCheckNodePort, undefined);
    for (const { addresses } of jig.cluster.nodes) {
      await fails(client, at(addresses.v4, spec.healthCheckNodePort));
      await replies(client, nodePortAt(service, addresses.v4), pod.name);
    }
    await jig.update(service, (now) => Object.assign(now.spec, spec));
    await isLocal();
  },
};

/** It is answered, and the server sees the client's own address. */
async function isServed(jig: Jig, client: Client, target: ReturnType<typeof at>): Promise<void> {
  await replies(client, target);
  assert.equal(await textOf(client, { ...target, path: 'clientip' }), addressOf(jig, 'node-2'));
}
