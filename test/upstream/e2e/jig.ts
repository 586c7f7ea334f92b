/** What the tests of Kubernetes do with a cluster, in the words of its framework: a namespace of its own for each test, and waiting for what is expected. */
import assert from 'node:assert/strict';
import { until } from '../../helpers/base/until.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import type { Protocol, Service, ServicePort, ServiceSpec } from './allocation.ts';
import type { Cluster } from './cluster.ts';
import type { Pod, PodInput } from './kubelet.ts';
import type { Answer, Ask } from './traffic.ts';

/** Who sends a request: a Pod, a node, or a machine outside. */
export interface Client {
  ask(request: Ask): Promise<Answer>;
}

/** Where a request goes. */
export type Target = Pick<Ask, 'address' | 'port' | 'protocol'>;

export type Test = (jig: Jig) => Promise<void>;
/** Tests by the titles that Kubernetes gives them. */
export type Suite = Readonly<Record<string, Test>>;

/** Milliseconds for one request of many: until the rules are there, a packet may be lost. The next ones wait longer: the machine may have more to do. */
const SHORT = 300;
const LONGER = 1.3;
/** Milliseconds that the cluster has to follow: the machine may have more to do. */
const PATIENCE = 60_000;
/** Requests that go to the same Pod show affinity (AffinityConfirmCount upstream). */
const CONFIRMATIONS = 15;

let namespaces = 0;

/** Run a test in a namespace of its own, and remove what it made. */
export async function run(cluster: Cluster, test: Test): Promise<void> {
  const jig = new Jig(cluster, ++namespaces);
  try {
    await test(jig);
  } finally {
    await jig.clear();
  }
}

export class Jig {
  readonly cluster: Cluster;
  readonly namespace: string;

  /** An address outside the cluster that no other test has. */
  readonly externalAddress: string;

  /** `n`: another one for each test. */
  constructor(cluster: Cluster, n: number) {
    this.cluster = cluster;
    this.namespace = `e2e-${n}`;
    this.externalAddress = `203.0.113.${n}`;
  }

  /** Create a Service that selects the Pods with the label `app: NAME`, unless the spec says otherwise. One port, 80, by default. */
  async service(name: string, spec: ServiceSpec = {}, labels: Record<string, string> = {}): Promise<Service> {
    const written = { selector: { app: name }, ports: [{ port: 80 }], ...spec };
    const metadata = { name, namespace: this.namespace, labels };
    return (await this.cluster.api.create({ kind: 'Service', metadata, spec: written })) as Service;
  }

  async update({ kind, metadata: { name } }: ApiObject, change: (service: Service) => void): Promise<Service> {
    const apply = change as (object: ApiObject) => void;
    return (await this.cluster.api.update(kind, `${this.namespace}/${name}`, apply)) as Service;
  }

  async remove({ kind, metadata: { name } }: ApiObject): Promise<void> {
    await this.cluster.api.remove(kind, `${this.namespace}/${name}`);
  }

  /** A Pod that serves as the Service of this name, on port 80 unless it says otherwise. */
  server(service: string, name: string, more: Partial<PodInput> = {}): Promise<Pod> {
    const ports = [{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' as const }];
    return this.cluster.kubelet.run({ name, namespace: this.namespace, labels: { app: service }, ports, ...more });
  }

  /** Pods that serve, on all nodes in turn. */
  servers(service: string, count: number, more: Partial<PodInput> = {}): Promise<Pod[]> {
    const names = Array.from({ length: count }, (_, n) => `${service}-${n + 1}`);
    return Promise.all(names.map((name) => this.server(service, name, more)));
  }

  /** A Pod that sends requests. */
  client(node?: string, more: Partial<PodInput> = {}): Promise<Pod> {
    const name = more.name ?? `exec-${node ?? 'pod'}-${more.hostNetwork === true ? 'host' : 'net'}`;
    return this.cluster.kubelet.run({
      name,
      namespace: this.namespace,
      ...(node === undefined ? {} : { node }),
      ...more,
    });
  }

  /** Wait until the slices of a Service have these Pods as endpoints that are ready, and no others. */
  async endpoints(service: string, ...pods: readonly Pod[]): Promise<void> {
    const expected = pods.map(({ name }) => name).sort();
    await until(
      `endpoints of ${service}: ${expected}`,
      async () => JSON.stringify(await this.#readyPods(service)) === JSON.stringify(expected),
      PATIENCE,
    );
  }

  /** Wait until the slices of a Service name these Pods by port: `{ portname: ['pod1'] }`, each with its port's number. */
  async endpointPorts(service: string, expected: Readonly<Record<string, string>>): Promise<void> {
    await until(
      `ports of ${service}: ${JSON.stringify(expected)}`,
      async () => {
        const found: Record<string, string> = {};
        for (const { ports, endpoints } of await this.slices(service))
          for (const { name = '', port, protocol } of ports)
            for (const { targetRef } of endpoints) found[name] = `${targetRef?.name}:${port}/${protocol}`;
        return JSON.stringify(sorted(found)) === JSON.stringify(sorted(expected));
      },
      PATIENCE,
    );
  }

  async slices(service: string): Promise<EndpointSlice[]> {
    const all = (await this.cluster.api.list('EndpointSlice', this.namespace)) as unknown as EndpointSlice[];
    const own = all.filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === service);
    // A kube-apiserver tells empty lists as null.
    return own.map((slice) => ({ ...slice, endpoints: slice.endpoints ?? [], ports: slice.ports ?? [] }));
  }

  /** Wait until an endpoint of it is said to terminate. */
  async isTerminating(service: string): Promise<void> {
    await until(`a terminating endpoint of ${service}`, async () =>
      (await this.slices(service)).some(({ endpoints }) => endpoints.some(({ conditions }) => conditions?.terminating)),
    );
  }

  /** End the Pods of a Service that terminate: all but these. */
  async endTerminating(service: string, left: readonly Pod[]): Promise<void> {
    for (const { metadata } of await this.cluster.api.list('Pod', this.namespace)) {
      const isOf = metadata.labels?.app === service && !left.some(({ name }) => name === metadata.name);
      if (isOf) await this.cluster.kubelet.end(this.cluster.kubelet.pod(`${this.namespace}/${metadata.name}`));
    }
  }

  /** What a cloud's load balancer does: it gets an address, whose packets come to nodes. */
  async balance(service: Service, ip = this.externalAddress): Promise<Service> {
    return await this.update(service, (changed) => {
      changed.status = { loadBalancer: { ingress: [{ ip }] } };
    });
  }

  /** Wait until the health check of a Service on a node answers with this status. */
  async isHealthy({ spec }: Service, client: Client, node: string, status: number): Promise<void> {
    const address = this.cluster.nodes.find(({ name }) => name === node)?.addresses.v4 ?? assert.fail(node);
    await until(`status ${status} of the health check on ${node}`, async () => {
      const answer = await client.ask({ address, port: spec.healthCheckNodePort ?? 0, path: 'healthz' });
      return answer.outcome === 'reply' && answer.status === status;
    });
  }

  /** Remove what is in the namespace. */
  async clear(): Promise<void> {
    for (const service of await this.cluster.api.list('Service', this.namespace)) await this.remove(service);
    for (const slice of await this.cluster.api.list('EndpointSlice', this.namespace)) await this.remove(slice);
    await this.cluster.kubelet.endAll(this.namespace);
  }

  /** It is served wherever its type says, to a client inside: cluster IPs, external IPs, and node ports of every node. */
  async isReachable(service: Service, client: Client): Promise<void> {
    for (const target of this.targets(service)) await replies(client, target);
  }

  targets({ spec: { clusterIPs = [], externalIPs = [], ports = [] } }: Service): Target[] {
    return ports.flatMap(({ port, nodePort, protocol }) => [
      ...[...clusterIPs, ...externalIPs].map((address) => at(address, port, protocol)),
      ...(nodePort === undefined
        ? []
        : this.nodeAddresses(clusterIPs).map((address) => at(address, nodePort, protocol))),
    ]);
  }

  /** Of the families of these addresses. */
  nodeAddresses(clusterIPs: readonly string[]): string[] {
    return this.cluster.nodes.flatMap(({ addresses: { v4, v6 } }) => [
      ...(clusterIPs.some((address) => !address.includes(':')) ? [v4] : []),
      ...(clusterIPs.some((address) => address.includes(':')) ? [v6] : []),
    ]);
  }

  async #readyPods(service: string): Promise<string[]> {
    const names = new Set<string>();
    for (const { endpoints } of await this.slices(service))
      for (const { conditions, targetRef } of endpoints)
        if (conditions?.ready !== false) names.add(targetRef?.name ?? '');
    return [...names].sort();
  }
}

export interface EndpointSlice extends ApiObject {
  addressType: string;
  ports: { name?: string; port: number; protocol: Protocol }[];
  endpoints: {
    addresses: string[];
    conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean };
    targetRef?: { name: string };
  }[];
}

const sorted = (record: Readonly<Record<string, string>>) => Object.entries(record).sort();

export function at(address: string, port: number, protocol: Protocol = 'TCP'): Target {
  return { address, port, protocol: protocol as 'TCP' | 'UDP' };
}

/** The first port of a Service at its cluster IP. */
export function clusterAt({ spec }: Service, port: number = firstPort(spec).port): Target {
  return at(spec.clusterIP ?? '', port, firstPort(spec).protocol);
}

/** The first node port of a Service at an address. */
export function nodePortAt({ spec }: Service, address: string): Target {
  const { nodePort, protocol } = firstPort(spec);
  assert.ok(nodePort, 'the Service has a node port');
  return at(address, nodePort, protocol);
}

function firstPort({ ports = [] }: ServiceSpec): ServicePort {
  return ports[0] ?? assert.fail('the Service has no port');
}

const shown = ({ address, port, protocol = 'TCP' }: Target) => `${protocol} ${address}:${port}`;

/** Wait until the answers have come from all of these hosts, or from any when none is named. Answers of others fail. */
export async function replies(client: Client, target: Target, ...hosts: readonly string[]): Promise<void> {
  const seen = new Set<string>();
  let last: Answer | undefined;
  let timeout = SHORT;
  const isDone = async () => {
    last = await client.ask({ ...target, timeout });
    if (last.outcome === 'timeout') timeout *= LONGER;
    if (last.outcome === 'reply') seen.add(last.text);
    return hosts.length === 0 ? seen.size > 0 : hosts.every((host) => seen.has(host));
  };
  await until(`answers of ${hosts.join(', ') || 'anybody'} at ${shown(target)}`, isDone, PATIENCE).catch(
    (error: Error) => {
      throw new Error(`${error.message}; answered: ${[...seen].join(', ') || 'nobody'}; last: ${JSON.stringify(last)}`);
    },
  );
}

/**
 * Wait until a request is refused, or two after one another get no answer: a busy machine may be late once. With an outcome: until one
 * ends so.
 */
export async function fails(client: Client, target: Target, outcome?: Answer['outcome']): Promise<void> {
  let last: Answer | undefined;
  let unanswered = 0;
  const isDone = async () => {
    last = await client.ask(target);
    if (outcome !== undefined) return last.outcome === outcome;
    unanswered = last.outcome === 'reply' ? 0 : unanswered + 1;
    return last.outcome === 'refused' || unanswered === 2;
  };
  await until(`no answer at ${shown(target)}`, isDone, PATIENCE).catch((error: Error) => {
    throw new Error(`${error.message}; last: ${JSON.stringify(last)}`);
  });
}

/** As soon as the rules are there, all of these requests are answered by this host, one after another. */
export async function always(client: Client, target: Target, host: string, times = 5): Promise<void> {
  await replies(client, target, host);
  for (let n = 0; n < times; n++) {
    assert.equal(await textOf(client, target), host, shown(target));
  }
}

/** None of these requests is answered. */
export async function never(client: Client, target: Target, times = 3): Promise<void> {
  const answers = await Promise.all(Array.from({ length: times }, () => client.ask(target)));
  assert.ok(
    answers.every(({ outcome }) => outcome !== 'reply'),
    `${shown(target)}: ${JSON.stringify(answers)}`,
  );
}

/** Wait until many requests after one another go to one host, or to several. */
export async function affinity(client: Client, target: Target, holds: boolean): Promise<void> {
  const hosts: string[] = [];
  let timeout = SHORT;
  const isDone = async () => {
    const answer = await client.ask({ ...target, timeout });
    if (answer.outcome === 'timeout') timeout *= LONGER;
    if (answer.outcome === 'reply') hosts.push(answer.text);
    const last = hosts.slice(-CONFIRMATIONS);
    return last.length === CONFIRMATIONS && (new Set(last).size === 1) === holds;
  };
  await until(`affinity ${holds ? '' : 'no more '}at ${shown(target)}`, isDone, PATIENCE).catch((error: Error) => {
    throw new Error(`${error.message}; answered: ${hosts.slice(-CONFIRMATIONS).join(', ')}`);
  });
}

/** The text of an answer that must come, however long it takes. */
export async function textOf(client: Client, request: Ask): Promise<string> {
  const answer = await client.ask({ timeout: PATIENCE, ...request });
  return answer.outcome === 'reply' ? answer.text : assert.fail(`${shown(request)}: ${JSON.stringify(answer)}`);
}
