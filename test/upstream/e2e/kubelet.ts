/** A simple kubelet: a Pod that is created gets a place in the network, a server and a status; its readiness is what the test says. */
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import type { Protocol } from './allocation.ts';
import type { ClusterApi } from './api.ts';
import type { Addresses, Network, NetworkNode, Place } from './network.ts';
import { type Answer, type Ask, ask, type Serving, serveHttp, serveUdp } from './traffic.ts';

export interface ContainerPort {
  readonly name?: string;
  readonly containerPort: number;
  readonly protocol?: Protocol;
  readonly hostPort?: number;
}

export interface PodInput {
  readonly name: string;
  readonly namespace: string;
  readonly labels?: Record<string, string>;
  /** The name of its node; default: the next one. */
  readonly node?: string;
  readonly hostNetwork?: boolean;
  readonly ports?: readonly ContainerPort[];
  /** The ports belong to a restartable init container (KEP-753). */
  readonly isSidecar?: boolean;
  /** What answers there: by default each of `ports`. */
  readonly serves?: readonly { readonly port: number; readonly protocol?: Protocol }[];
  /** Default: true. */
  readonly isReady?: boolean;
  /** By default the name of the Pod, and of the node where it shares the node's network. */
  readonly hostname?: string;
}

export class Pod {
  readonly name: string;
  readonly key: string;
  readonly hostname: string;
  readonly node: NetworkNode;
  readonly addresses: Addresses;
  readonly #namespace: string;

  constructor(input: PodInput, node: NetworkNode, place: { addresses: Addresses; namespace: string }) {
    this.name = input.name;
    this.key = `${input.namespace}/${input.name}`;
    this.hostname = input.hostname ?? (input.hostNetwork ? node.name : input.name);
    this.node = node;
    this.addresses = place.addresses;
    this.#namespace = place.namespace;
  }

  /** The full name of its network namespace. */
  get networkNamespace(): string {
    return this.#namespace;
  }

  ask(request: Ask): Promise<Answer> {
    return ask(this.#namespace, request);
  }
}

interface Running {
  readonly pod: Pod;
  readonly servers: readonly Serving[];
  readonly place: Place | undefined;
}

const condition = (type: string, status: boolean) => ({ type, status: status ? 'True' : 'False' });

export class Kubelet {
  readonly #api: ClusterApi;
  readonly #network: Network;
  readonly #running = new Map<string, Running>();
  #turn = 0;

  constructor(api: ClusterApi, network: Network) {
    this.#api = api;
    this.#network = network;
  }

  /** Create a Pod, start it, and say that it is ready. */
  async run(input: PodInput): Promise<Pod> {
    const nodes = this.#network.nodes;
    const node = nodes.find(({ name }) => name === input.node) ?? (nodes[this.#turn++ % nodes.length] as NetworkNode);
    await this.#api.create(podObject(input, node));
    const place = input.hostNetwork ? undefined : await this.#network.connect(node);
    const namespace = this.#network.namespace(place?.namespace ?? node.name);
    const pod = new Pod(input, node, { addresses: place?.addresses ?? node.addresses, namespace });
    this.#running.set(pod.key, { pod, servers: await serversOf(pod, input), place });
    await this.#api.update('Pod', pod.key, (object) => {
      object.status = statusOf(pod, input.isReady ?? true);
    });
    return pod;
  }

  /** `namespace/name`, which runs. */
  pod(key: string): Pod {
    const running = this.#running.get(key);
    if (running === undefined) throw new Error(`no Pod ${key} runs`);
    return running.pod;
  }

  /** What its readiness probe says. */
  async setReady(pod: Pod, isReady: boolean): Promise<void> {
    await this.#api.update('Pod', pod.key, (object) => {
      object.status = statusOf(pod, isReady);
    });
  }

  /** A deletion with a grace period: it goes on serving until `end`, ready or not. */
  async terminate(pod: Pod, { isReady = true } = {}): Promise<void> {
    await this.#api.terminate(pod.key);
    await this.setReady(pod, isReady);
  }

  /** It serves no more, and is gone. */
  async end(pod: Pod): Promise<void> {
    const running = this.#running.get(pod.key);
    if (running === undefined) return;
    this.#running.delete(pod.key);
    for (const server of running.servers) await server.close();
    if (running.place !== undefined) await this.#network.disconnect(running.place);
    await this.#api.remove('Pod', pod.key);
  }

  /** It failed, as when the node had no room for it: it has no address any more, and its object stays. */
  async evict(pod: Pod): Promise<void> {
    const running = this.#running.get(pod.key);
    this.#running.set(pod.key, { pod, servers: [], place: running?.place });
    for (const server of running?.servers ?? []) await server.close();
    await this.#api.update('Pod', pod.key, (object) => {
      object.status = { ...statusOf(pod, false), phase: 'Failed', reason: 'Evicted' };
    });
  }

  /** Of this namespace of Kubernetes. */
  async endAll(namespace: string): Promise<void> {
    for (const { pod } of [...this.#running.values()]) if (pod.key.startsWith(`${namespace}/`)) await this.end(pod);
  }

  async stop(): Promise<void> {
    for (const { servers } of this.#running.values()) for (const server of servers) await server.close();
  }
}

function podObject(
  { name, namespace, labels, ports = [], isSidecar, hostNetwork }: PodInput,
  node: NetworkNode,
): ApiObject {
  const serving = { name: 'agnhost', image: 'agnhost', ports };
  const containers = isSidecar ? [{ name: 'main', image: 'agnhost' }] : [serving];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, ...(labels === undefined ? {} : { labels }) },
    spec: {
      nodeName: node.name,
      containers,
      ...(isSidecar ? { initContainers: [{ ...serving, restartPolicy: 'Always' }] } : {}),
      ...(hostNetwork ? { hostNetwork } : {}),
    },
    status: { phase: 'Pending', conditions: [condition('Ready', false)] },
  };
}

function statusOf({ addresses: { v4, v6 }, node }: Pod, isReady: boolean): object {
  return {
    phase: 'Running',
    podIP: v4,
    podIPs: [{ ip: v4 }, { ip: v6 }],
    hostIP: node.addresses.v4,
    hostIPs: [{ ip: node.addresses.v4 }, { ip: node.addresses.v6 }],
    conditions: [condition('Ready', isReady), condition('ContainersReady', isReady)],
  };
}

async function serversOf(pod: Pod, { ports = [], serves }: PodInput): Promise<Serving[]> {
  const served = serves ?? ports.map(({ containerPort, protocol }) => ({ port: containerPort, protocol }));
  const { v4, v6 } = pod.addresses;
  const starting = served.map(({ port, protocol = 'TCP' }) => {
    const serve = { namespace: pod.networkNamespace, port, hostname: pod.hostname };
    return protocol === 'UDP' ? serveUdp(serve, [v4, v6]) : serveHttp(serve);
  });
  return await Promise.all(starting);
}
