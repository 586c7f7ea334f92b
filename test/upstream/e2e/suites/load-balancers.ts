/** Load balancers, from test/e2e/network/loadbalancer.go of Kubernetes. The test gives the address, and its packets come to the first node. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Protocol, Service, ServiceSpec } from '../allocation.ts';
import { at, type Client, fails, type Jig, replies, type Suite, textOf } from '../jig.ts';
import { OUTSIDE_ADDRESSES } from '../network.ts';
import { affinityOfLoadBalancers } from './affinity.ts';
import { conntrackOfLoadBalancers } from './conntrack.ts';

const outside = (jig: Jig): Client => ({ ask: (request) => jig.cluster.askFromOutside(request) });
const nodePortOf = ({ spec }: Service) => spec.ports?.[0]?.nodePort;

/** From a cluster IP to a load balancer and back, with other ports on the way, and without Pods for a while. */
async function changesTypeAndPorts(jig: Jig, protocol: Protocol): Promise<void> {
  const ip = jig.externalAddress;
  const name = 'mutability-test';
  let service = await jig.service(name, { ports: [{ port: 80, protocol }] });
  const pod = await jig.server(name, 'server-1');
  const client = await jig.client();
  const isServed = async () => {
    await replies(outside(jig), at(ip, service.spec.ports?.[0]?.port ?? 0, protocol));
    await jig.isReachable(service, client);
  };
  await jig.isReachable(service, client);
  service = await jig.update(service, ({ spec }) => {
    spec.type = 'NodePort';
  });
  const nodePort = nodePortOf(service);
  await jig.isReachable(service, client);
  service = await jig.update(service, ({ spec }) => {
    spec.type = 'LoadBalancer';
  });
  service = await jig.balance(service);
  assert.equal(nodePortOf(service), nodePort);
  await isServed();
  service = await jig.update(service, ({ spec }) => {
    spec.ports = (spec.ports ?? []).map((port) => ({ ...port, nodePort: 32_000 + Number(ip.split('.')[3]) }));
  });
  await isServed();
  await fails(client, at(jig.cluster.nodes[0]?.addresses.v4 ?? '', nodePort ?? 0, protocol));
  service = await jig.update(service, ({ spec }) => {
    spec.ports = (spec.ports ?? []).map((port) => ({ ...port, port: 81 }));
  });
  await isServed();
  await fails(outside(jig), at(ip, 80, protocol));
  await jig.cluster.kubelet.end(pod);
  await fails(outside(jig), at(ip, 81, protocol));
  await jig.server(name, 'server-2');
  await isServed();
  service = await jig.update(service, (changed) => {
    changed.spec.type = 'ClusterIP';
    changed.status = { loadBalancer: {} };
  });
  assert.equal(nodePortOf(service), undefined);
  await fails(outside(jig), at(ip, 81, protocol));
}

/**
 * Time for which a Pod serves on after its termination began. Upstream it is a minute (`netexec --delay-shutdown=60`); without any, the
 * proxies of a busy machine have not written the change when the Pod is gone.
 */
const GRACE_MS = 5000;

/**
 * A request before its address is in the kernel leaves an untranslated flow for two minutes. All packets of the client's port follow it, and
 * clients use ports again: Linux chooses another base each ten seconds.
 */
async function forgetsUntranslated(jig: Jig, address: string): Promise<void> {
  const onFirst = (what: '-D' | '-L') =>
    jig.cluster.network.exec('node-1', 'conntrack', what, '-p', 'tcp', '-d', address, '--state', 'SYN_SENT');
  // The command fails where there is none to delete.
  if ((await onFirst('-L')) !== '') await onFirst('-D');
  assert.equal(await onFirst('-L'), '');
}

/** A Pod on each node is replaced by another that is ready before it ends, while a client asks. */
async function rollsWithoutDisruption(jig: Jig, externalTrafficPolicy: 'Cluster' | 'Local'): Promise<void> {
  const ip = jig.externalAddress;
  const name = 'test-lb-rolling-update';
  const service = await jig.service(name, { type: 'LoadBalancer', externalTrafficPolicy });
  let pods = await Promise.all(jig.cluster.nodes.map(({ name: node }) => jig.server(name, `old-${node}`, { node })));
  await jig.balance(service);
  await replies(outside(jig), at(ip, 80));
  await forgetsUntranslated(jig, ip);
  let [isOn, requests] = [true, 0];
  const failures: string[] = [];
  const asking = (async () => {
    while (isOn) {
      const answer = await jig.cluster.askFromOutside({ ...at(ip, 80), path: 'echo?msg=hello', timeout: 5000 });
      requests += 1;
      if (answer.outcome !== 'reply' || answer.text !== 'hello') failures.push(JSON.stringify(answer));
      await pause(10);
    }
  })();
  for (let turn = 1; turn <= 2; turn++) {
    pods = await Promise.all(
      pods.map(async (pod) => {
        const next = await jig.server(name, `new-${turn}-${pod.node.name}`, { node: pod.node.name, isReady: false });
        await jig.cluster.kubelet.terminate(pod);
        await jig.cluster.kubelet.setReady(next, true);
        return next;
      }),
    );
    await jig.endpoints(name, ...pods);
    const [before, since] = [requests, performance.now()];
    while (requests < before + 20 || performance.now() - since < GRACE_MS) await pause(10);
    await jig.endTerminating(name, pods);
  }
  isOn = false;
  await asking;
  assert.deepEqual(failures, [], `${failures.length} of ${requests} requests failed`);
}

const LOCAL: ServiceSpec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };

export const loadBalancers: Suite = {
  'should be able to change the type and ports of a TCP service': (jig) => changesTypeAndPorts(jig, 'TCP'),
  'should be able to change the type and ports of a UDP service': (jig) => changesTypeAndPorts(jig, 'UDP'),

  'should only allow access from service loadbalancer source ranges': async (jig) => {
    const service = await jig.service('lb-sourcerange', { type: 'LoadBalancer' });
    await jig.server('lb-sourcerange', 'server');
    await jig.balance(service);
    const target = at(jig.externalAddress, 80);
    const accepted = await jig.client('node-1', { name: 'execpod-accept' });
    const dropped = await jig.client('node-2', { name: 'execpod-drop' });
    const own = [accepted.addresses.v4, accepted.node.addresses.v4].map((address) => `${address}/32`);
    const steps: readonly [ranges: string[] | undefined, ...reaches: boolean[]][] = [
      [undefined, true, true, true],
      [own, false, true, false],
      [['0.0.0.0/1', '128.0.0.0/1'], true, true, true],
      [['255.0.0.0/32'], false, false, false],
      [undefined, true, true, true],
    ];
    for (const [ranges, ...reaches] of steps) {
      await jig.update(service, ({ spec }) => {
        delete spec.loadBalancerSourceRanges;
        if (ranges !== undefined) spec.loadBalancerSourceRanges = ranges;
      });
      for (const [index, client] of [outside(jig), accepted, dropped].entries())
        await (reaches[index] ? replies(client, target) : fails(client, target));
    }
  },

  'should be able to create LoadBalancer Service without NodePort and change it': async (jig) => {
    const service = await jig.service('reallocate-nodeport-test');
    const pod = await jig.server('reallocate-nodeport-test', 'server');
    await jig.update(service, ({ spec }) =>
      Object.assign(spec, { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false }),
    );
    const without = await jig.balance(service);
    assert.equal(nodePortOf(without), undefined);
    await replies(outside(jig), at(jig.externalAddress, 80), pod.name);
    const having = await jig.update(service, ({ spec }) => {
      spec.allocateLoadBalancerNodePorts = true;
    });
    assert.ok(nodePortOf(having));
    await replies(outside(jig), at(jig.externalAddress, 80), pod.name);
    await jig.isReachable(having, await jig.client());
  },

  'should not have connectivity disruption during rolling update with externalTrafficPolicy=Cluster': (jig) =>
    rollsWithoutDisruption(jig, 'Cluster'),
  'should not have connectivity disruption during rolling update with externalTrafficPolicy=Local': (jig) =>
    rollsWithoutDisruption(jig, 'Local'),

  'should work for type=LoadBalancer': async (jig) => {
    const service = await jig.service('external-local-lb', LOCAL);
    const pod = await jig.server('external-local-lb', 'server', { node: 'node-1' });
    await jig.balance(service);
    await replies(outside(jig), at(jig.externalAddress, 80), pod.name);
    const seen = await textOf(outside(jig), { ...at(jig.externalAddress, 80), path: 'clientip' });
    assert.equal(seen, OUTSIDE_ADDRESSES.v4);
  },

  'should only target nodes with endpoints': async (jig) => {
    const service = await jig.service('external-local-nodes', LOCAL);
    const client = await jig.client('node-1');
    for (const { name: node } of jig.cluster.nodes) {
      const pod = await jig.server('external-local-nodes', `server-${node}`, { node });
      await jig.endpoints('external-local-nodes', pod);
      for (const { name } of jig.cluster.nodes) await jig.isHealthy(service, client, name, name === node ? 200 : 503);
      await jig.cluster.kubelet.end(pod);
    }
  },

  'should target all nodes with endpoints': async (jig) => {
    const service = await jig.service('external-local-all', LOCAL);
    const pods = await jig.servers('external-local-all', 3);
    await jig.endpoints('external-local-all', ...pods);
    const client = await jig.client('node-1');
    for (const node of new Set(pods.map((pod) => pod.node.name))) await jig.isHealthy(service, client, node, 200);
  },

  'should work from pods': async (jig) => {
    const service = await jig.service('external-local-pods', LOCAL);
    const pod = await jig.server('external-local-pods', 'server', { node: 'node-1' });
    await jig.balance(service);
    const client = await jig.client('node-2');
    await replies(client, at(jig.externalAddress, 80), pod.name);
    assert.equal(await textOf(client, { ...at(jig.externalAddress, 80), path: 'clientip' }), client.addresses.v4);
  },

  ...affinityOfLoadBalancers,
  ...conntrackOfLoadBalancers,
};
