/** Flows of connection tracking, from test/e2e/network/conntrack.go, kube_proxy.go and loadbalancer.go of Kubernetes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { until } from '../../../helpers/base/until.ts';
import type { Service, ServiceSpec } from '../allocation.ts';
import { injectOutOfWindow } from '../invalid-packet.ts';
import { at, clusterAt, type Jig, nodePortAt, type Suite, type Target } from '../jig.ts';
import type { Pod, PodInput } from '../kubelet.ts';
import { OUTSIDE } from '../network.ts';
import { connectFrom, probeUdp, serveTcp } from '../traffic.ts';

const UDP: ServiceSpec = { ports: [{ name: 'udp', port: 80, protocol: 'UDP' }] };
const nodeAddress = (jig: Jig, n: number) => jig.cluster.nodes[n]?.addresses.v4 ?? assert.fail();

interface Cycle {
  readonly spec: ServiceSpec;
  readonly target: (service: Service, jig: Jig) => Target;
  /** Of the client. */
  readonly from?: Partial<PodInput> | typeof OUTSIDE;
  /** The nodes of the first and the second server. */
  readonly servers?: readonly [string, string];
}

/**
 * A client that keeps its port asks before there is a server. It is answered by the first server, and by the second once the first is gone:
 * flows that were begun before are no more.
 */
async function preserves(jig: Jig, { spec, target, from = {}, servers = ['node-2', 'node-2'] }: Cycle): Promise<void> {
  const service = await jig.service('svc-udp', { ...UDP, ...spec });
  if (spec.type === 'LoadBalancer') await jig.balance(service);
  const namespace =
    from === OUTSIDE
      ? jig.cluster.network.namespace(OUTSIDE)
      : (await jig.client('node-1', { name: 'pod-client', ...from })).networkNamespace;
  const probe = await probeUdp(namespace, { ...target(service, jig), path: 'hostname' });
  try {
    await until('the client asks before there is a server', () => probe.sent > 2);
    const first = await jig.server('svc-udp', 'pod-server-1', { node: servers[0] });
    await jig.endpoints('svc-udp', first);
    await until('an answer of the first server', () => probe.answers.at(-1) === 'pod-server-1');
    const second = await jig.server('svc-udp', 'pod-server-2', { node: servers[1] });
    await jig.cluster.kubelet.end(first);
    await jig.endpoints('svc-udp', second);
    await until('an answer of the second server', () => probe.answers.at(-1) === 'pod-server-2');
  } finally {
    probe.close();
  }
}

/** The boom-server of k8s#74839: a packet outside the window, which the client must not answer with a reset. */
async function survivesInvalid(jig: Jig): Promise<void> {
  const service = await jig.service('boom-server', { ports: [{ port: 9000 }] });
  const pod = await jig.server('boom-server', 'boom-server', {
    node: 'node-2',
    ports: [{ containerPort: 9000 }],
    serves: [],
  });
  await jig.endpoints('boom-server', pod);
  const client = await jig.client('node-1');
  const server = await serveTcp(pod.networkNamespace, 9000);
  const { address } = clusterAt(service);
  try {
    const connection = await connected(() => connectFrom(client.networkNamespace, { address, port: 9000 }));
    const errors: Error[] = [];
    connection.on('error', (error) => errors.push(error));
    const answered = async (word: string) => {
      const [answer] = (await Promise.all([once(connection, 'data'), connection.write(word)]))[0] as [Buffer];
      assert.equal(answer.toString(), word);
    };
    await answered('before');
    await injectOutOfWindow(
      pod.networkNamespace,
      { own: pod.addresses.v4, peer: client.addresses.v4, port: 9000 },
      () => answered('now'),
    );
    for (const word of ['after', 'and again']) await answered(word);
    assert.deepEqual([errors, server.errors], [[], []]);
    connection.destroy();
  } finally {
    await server.close();
  }
}

/** A connection as soon as one is accepted. */
async function connected(connect: () => ReturnType<typeof connectFrom>): Promise<ReturnType<typeof connectFrom>> {
  let found: ReturnType<typeof connectFrom> | undefined;
  await until('a connection', async () => {
    const socket = connect();
    const isThere = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'close').then(() => false),
    ]).catch(() => false);
    if (isThere) found = socket;
    return isThere;
  });
  return found as ReturnType<typeof connectFrom>;
}

/** What connection tracking of a node says of the flows to a port, in lines. */
async function flowsTo(jig: Jig, node: string, port: number): Promise<string[]> {
  const lines = await jig.cluster.network.exec(node, 'conntrack', '-L', '-p', 'tcp', '--dport', String(port));
  return lines.split('\n');
}

export const conntrack: Suite = {
  'should be able to preserve UDP traffic when server pod cycles for a NodePort service': (jig) =>
    preserves(jig, { spec: { type: 'NodePort' }, target: (service) => nodePortAt(service, nodeAddress(jig, 1)) }),

  'should be able to preserve UDP traffic when server pod cycles for a ClusterIP service': (jig) =>
    preserves(jig, { spec: {}, target: (service) => clusterAt(service) }),

  'should be able to preserve UDP traffic when server pod cycles for a ClusterIP service with InternalTrafficPolicy set to Local':
    (jig) =>
      preserves(jig, {
        spec: { internalTrafficPolicy: 'Local' },
        target: (service) => clusterAt(service),
        servers: ['node-1', 'node-1'],
      }),

  'should be able to preserve UDP traffic when server pod cycles for a ClusterIP service and client is hostNetwork': (
    jig,
  ) => preserves(jig, { spec: {}, target: (service) => clusterAt(service), from: { hostNetwork: true } }),

  'should be able to preserve UDP traffic when initial unready endpoints get ready': async (jig) => {
    const service = await jig.service('svc-udp', UDP);
    const client = await jig.client('node-1');
    const probe = await probeUdp(client.networkNamespace, { ...clusterAt(service), path: 'hostname' });
    try {
      const pod: Pod = await jig.server('svc-udp', 'pod-server-1', { node: 'node-2', isReady: false });
      await until('the client asks before the server is ready', () => probe.sent > 3);
      assert.deepEqual(probe.answers, []);
      await jig.cluster.kubelet.setReady(pod, true);
      await jig.endpoints('svc-udp', pod);
      await until('an answer', () => probe.answers.at(-1) === 'pod-server-1');
    } finally {
      probe.close();
    }
  },

  'proxy implementation should not be vulnerable to the invalid conntrack state bug': survivesInvalid,

  'should be able to cleanup conntrack entries when UDP service target port changes for a NodePort service': async (
    jig,
  ) => {
    const ports = [{ name: 'udp', port: 80, protocol: 'UDP' as const, targetPort: 8080 }];
    const service = await jig.service('svc-udp', { type: 'NodePort', ports });
    const serving = [8080, 9090].map((containerPort) => ({ containerPort, protocol: 'UDP' as const }));
    await jig.server('svc-udp', 'conntrack-handle-target-ports', { node: 'node-2', ports: serving });
    const client = await jig.client('node-1');
    const target = nodePortAt(service, nodeAddress(jig, 1));
    const probe = await probeUdp(client.networkNamespace, { ...target, path: 'serverport' });
    try {
      await jig.endpointPorts('svc-udp', { udp: 'conntrack-handle-target-ports:8080/UDP' });
      await until('an answer of port 8080', () => probe.answers.at(-1) === '8080');
      await jig.update(service, ({ spec }) => {
        spec.ports = ports.map((port) => ({ ...port, targetPort: 9090, nodePort: target.port }));
      });
      await jig.endpointPorts('svc-udp', { udp: 'conntrack-handle-target-ports:9090/UDP' });
      await until('an answer of port 9090', () => probe.answers.at(-1) === '9090');
    } finally {
      probe.close();
    }
  },
};

/** Of LoadBalancers: the packets of a load balancer come to the first node. */
export const conntrackOfLoadBalancers: Suite = {
  'should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on different nodes': (
    jig,
  ) => preserves(jig, { ...BALANCED, servers: ['node-1', 'node-2'] }),
  'should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on the same nodes': (jig) =>
    preserves(jig, { ...BALANCED, servers: ['node-1', 'node-1'] }),
};

const BALANCED: Cycle = {
  spec: { type: 'LoadBalancer' },
  target: (_, jig) => at(jig.externalAddress, 80, 'UDP'),
  from: OUTSIDE,
};

export const kubeProxy: Suite = {
  'should set TCP CLOSE_WAIT timeout': async (jig) => {
    const service = await jig.service('e2e-net', { type: 'NodePort', ports: [{ port: 11_302 }] });
    const pod = await jig.server('e2e-net', 'e2e-net-server', {
      node: 'node-2',
      ports: [{ containerPort: 11_302 }],
      serves: [],
    });
    await jig.endpoints('e2e-net', pod);
    const client = await jig.client('node-1');
    const server = await serveTcp(pod.networkNamespace, 11_302, { isOpenAfterEnd: true });
    const { address, port } = nodePortAt(service, nodeAddress(jig, 1));
    const connection = await connected(() => connectFrom(client.networkNamespace, { address, port }));
    try {
      connection.end();
      let seconds = 0;
      await until('a flow in CLOSE_WAIT', async () => {
        const line = (await flowsTo(jig, 'node-1', port)).find((flow) => flow.includes('CLOSE_WAIT'));
        seconds = Number(line?.trim().split(/\s+/)[2] ?? 0);
        return line !== undefined;
      });
      assert.ok(seconds > 3540 && seconds <= 3600, `${seconds} s; an hour is expected`);
    } finally {
      connection.destroy();
      await server.close();
    }
  },
};
