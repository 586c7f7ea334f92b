/** Granular checks of Services, from test/e2e/network/networking.go and dual_stack.go of Kubernetes: the same for the first and the second family. */
import assert from 'node:assert/strict';
import { always, at, type Client, fails, type Jig, replies, type Suite, type Target, textOf } from '../jig.ts';
import type { Pod } from '../kubelet.ts';

type Protocol = 'TCP' | 'UDP';

const PORTS = [
  { containerPort: 8083, protocol: 'TCP' as const },
  { containerPort: 8081, protocol: 'UDP' as const },
];
const SERVICE_PORTS = [
  { name: 'http', port: 80, targetPort: 8083 },
  { name: 'udp', port: 90, targetPort: 8081, protocol: 'UDP' as const },
];

interface Tested {
  readonly pods: Pod[];
  readonly names: string[];
  readonly client: Pod;
  readonly node: Client;
  readonly clusterAt: (protocol: Protocol) => Target;
  readonly nodeAt: (protocol: Protocol) => Target;
  readonly remove: () => Promise<void>;
}

interface Options {
  /** The second of the cluster's families. */
  readonly isSecond: boolean;
  readonly hostNetwork?: boolean;
  readonly sessionAffinity?: 'ClientIP';
  readonly name?: string;
}

/** A server on each node behind a Service of node ports, a client Pod, and a node as a client. */
async function begin(
  jig: Jig,
  { isSecond, hostNetwork = false, sessionAffinity, name = 'node-port-service' }: Options,
): Promise<Tested> {
  const service = await jig.service(name, {
    ...{ type: 'NodePort', ports: SERVICE_PORTS, ipFamilyPolicy: 'RequireDualStack', selector: { app: 'netserver' } },
    ...(sessionAffinity === undefined ? {} : { sessionAffinity }),
  });
  const pods =
    name === 'node-port-service'
      ? await Promise.all(
          jig.cluster.nodes.map(({ name: node }) =>
            jig.server('netserver', `netserver-${node}`, {
              node,
              ports: PORTS,
              hostNetwork,
              hostname: `netserver-${node}`,
            }),
          ),
        )
      : [];
  const index = isSecond ? 1 : 0;
  const port = (protocol: Protocol) => service.spec.ports?.find((one) => one.protocol === protocol) ?? assert.fail();
  const address = jig.cluster.nodes[0]?.addresses[isSecond ? 'v6' : 'v4'] ?? '';
  return {
    pods,
    names: pods.map(({ name: pod }) => pod),
    client: await jig.client(undefined, { name: `test-container-${name}` }),
    node: { ask: (request) => jig.cluster.askFromNode('node-1', request) },
    clusterAt: (protocol) => at(service.spec.clusterIPs?.[index] ?? '', port(protocol).port, protocol),
    nodeAt: (protocol) => at(address, port(protocol).nodePort ?? 0, protocol),
    remove: () => jig.remove(service),
  };
}

/** Both ways to the Service lead to each Pod. */
async function functions(
  jig: Jig,
  options: Options,
  from: 'client' | 'node' | 'endpoint',
  protocol: Protocol,
): Promise<void> {
  const tested = await begin(jig, options);
  const client = from === 'endpoint' ? (tested.pods[0] ?? assert.fail()) : tested[from];
  for (const target of [tested.clusterAt(protocol), tested.nodeAt(protocol)])
    await replies(client, target, ...tested.names);
}

async function updatesEndpoints(jig: Jig, options: Options, protocol: Protocol): Promise<void> {
  const { pods, names, client, clusterAt } = await begin(jig, options);
  await replies(client, clusterAt(protocol), ...names);
  const [gone = assert.fail(), ...left] = pods;
  await jig.cluster.kubelet.end(gone);
  await jig.endpoints('node-port-service', ...left);
  const next = await jig.server('netserver', 'netserver-recovered', { ports: PORTS });
  await replies(client, clusterAt(protocol), ...left.map(({ name }) => name), next.name);
  for (let n = 0; n < 10; n++) assert.notEqual(await textOf(client, clusterAt(protocol)), gone.name);
}

async function losesNodePort(jig: Jig, options: Options, protocol: Protocol): Promise<void> {
  const { node, nodeAt, names, remove } = await begin(jig, options);
  await replies(node, nodeAt(protocol), ...names);
  await remove();
  await fails(node, nodeAt(protocol), 'refused');
  for (let n = 0; n < 3; n++) assert.equal((await node.ask(nodeAt(protocol))).outcome, 'refused');
}

async function sticks(jig: Jig, options: Options, protocol: Protocol): Promise<void> {
  const { client, clusterAt, pods } = await begin(jig, { ...options, sessionAffinity: 'ClientIP' });
  await jig.endpoints('node-port-service', ...pods);
  await replies(client, clusterAt(protocol));
  // The first answer may have come before all rules were there.
  await replies({ ask: (request) => jig.cluster.askFromNode(client.node.name, request) }, clusterAt(protocol));
  await always(client, clusterAt(protocol), await textOf(client, clusterAt(protocol)), 10);
}

const TEXT = { TCP: '42'.repeat(1000), UDP: `n${'o'.repeat(1999)}` };

async function handlesLarge(client: Client, target: Target): Promise<void> {
  await replies(client, target);
  const { protocol = 'TCP' } = target;
  const text = TEXT[protocol];
  assert.equal(
    await textOf(client, { ...target, path: protocol === 'TCP' ? `echo?msg=${text}` : `echo ${text}` }),
    text,
  );
}

async function hostNetwork(jig: Jig, options: Options): Promise<void> {
  const tested = await begin(jig, { ...options, hostNetwork: true });
  for (const protocol of ['TCP', 'UDP'] as const) {
    for (const client of [tested.client, tested.node])
      for (const target of [tested.clusterAt(protocol), tested.nodeAt(protocol)])
        await replies(client, target, ...tested.names);
    await handlesLarge(tested.client, tested.clusterAt(protocol));
  }
}

/** Those that both files have. */
function common(isSecond: boolean): Suite {
  const options = { isSecond };
  return {
    'should function for pod-Service: http': (jig) => functions(jig, options, 'client', 'TCP'),
    'should function for pod-Service: udp': (jig) => functions(jig, options, 'client', 'UDP'),
    'should function for node-Service: http': (jig) => functions(jig, options, 'node', 'TCP'),
    'should function for node-Service: udp': (jig) => functions(jig, options, 'node', 'UDP'),
    'should function for endpoint-Service: http': (jig) => functions(jig, options, 'endpoint', 'TCP'),
    'should function for endpoint-Service: udp': (jig) => functions(jig, options, 'endpoint', 'UDP'),
    'should update endpoints: http': (jig) => updatesEndpoints(jig, options, 'TCP'),
    'should update endpoints: udp': (jig) => updatesEndpoints(jig, options, 'UDP'),
    'should function for client IP based session affinity: http': (jig) => sticks(jig, options, 'TCP'),
    'should function for client IP based session affinity: udp': (jig) => sticks(jig, options, 'UDP'),
    'should be able to handle large requests: http': async (jig) => {
      const { client, clusterAt } = await begin(jig, options);
      await handlesLarge(client, clusterAt('TCP'));
    },
    'should be able to handle large requests: udp': async (jig) => {
      const { client, clusterAt } = await begin(jig, options);
      await handlesLarge(client, clusterAt('UDP'));
    },
  };
}

export const granular: Suite = {
  ...common(false),
  'should function for multiple endpoint-Services with same selector': async (jig) => {
    const first = await begin(jig, { isSecond: false });
    const second = await begin(jig, { isSecond: false, name: 'second-node-port-service' });
    const [client = assert.fail()] = first.pods;
    const ofSecond = [second.clusterAt('TCP'), second.nodeAt('TCP')];
    for (const target of [first.clusterAt('TCP'), first.nodeAt('TCP'), ...ofSecond])
      await replies(client, target, ...first.names);
    await first.remove();
    await fails(client, first.nodeAt('TCP'), 'refused');
    for (const target of ofSecond) await replies(client, target, ...first.names);
  },
  'should update nodePort: http': (jig) => losesNodePort(jig, { isSecond: false }, 'TCP'),
  'should support basic nodePort: udp functionality': async (jig) => {
    const { node, nodeAt, names } = await begin(jig, { isSecond: false });
    await replies(node, nodeAt('UDP'), ...names);
  },
  'should update nodePort: udp': (jig) => losesNodePort(jig, { isSecond: false }, 'UDP'),
};

/** Of the second family. */
export const granularOfSecond: Suite = common(true);

/** They use ports of the nodes themselves: one after another. */
export const granularOnHosts: Suite = {
  'should function for service endpoints using hostNetwork': (jig) => hostNetwork(jig, { isSecond: false }),
};
export const granularOnHostsOfSecond: Suite = {
  'should function for service endpoints using hostNetwork': (jig) => hostNetwork(jig, { isSecond: true }),
};
