/**
 * A cluster in network namespaces with a fleet of two replicas, a Service, clients on every node, and Pods that can be replaced: agents,
 * fleet, controller and packets are real.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drainedSchema } from '../../../src/inspect/wire/drained.ts';
import { until } from '../../helpers/base/until.ts';
import { madeToken, OWN_AUDIENCE } from '../../helpers/cluster/api/api-reviews.ts';
import type { Service } from '../../upstream/e2e/allocation.ts';
import { Cluster, type ClusterOptions, type Mode } from '../../upstream/e2e/cluster.ts';
import type { Pod } from '../../upstream/e2e/kubelet.ts';
import { connectFrom } from '../../upstream/e2e/traffic.ts';
import { FLEET_PORT, FleetReplica } from './fleet-replica.ts';
import { Load } from './load.ts';
import { PORT, ShopPod } from './shop-pod.ts';

export interface SceneOptions extends ClusterOptions {
  readonly mode: Mode;
  /** Default: yes. */
  readonly hasFleet?: boolean;
}

/** What the fleet answered, or why it did not. `at`: when the answer was here, by performance.now(). */
export interface FleetAnswer {
  readonly status: number;
  readonly text: string;
  readonly at: number;
}

export const SERVICE_PORT = 80;
const NAMESPACE = 'shop';
/** Of the ServiceAccounts of the fleet and of the Pods that end, as the kubelet projects them. */
const TOKENS = {
  fleet: madeToken('fleet', 'slicewire-agent'),
  pods: madeToken('pods', OWN_AUDIENCE),
} as const;

export class Scene {
  readonly cluster: Cluster;
  /** By name. */
  readonly pods = new Map<string, ShopPod>();
  readonly replicas: FleetReplica[] = [];
  /** Cluster IPs. */
  readonly #addresses = { web: '', fleet: '', hooks: '' };
  /** Namespaces of clients. */
  readonly #clients = new Map<string, string>();
  /** Has the tokens. */
  readonly #folder: string;

  static async start({ mode, hasFleet = true, ...options }: SceneOptions): Promise<Scene> {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-roll-out-'));
    const cluster = await Cluster.start(mode, { minSyncPeriod: '1s', ...options });
    const scene = new Scene(cluster, folder);
    try {
      await scene.#admit();
      await scene.#build(hasFleet);
      return scene;
    } catch (error) {
      await scene.stop();
      throw error;
    }
  }

  private constructor(cluster: Cluster, folder: string) {
    this.cluster = cluster;
    this.#folder = folder;
  }

  /** The file with the token of the Pods. */
  get tokenFile(): string {
    return join(this.#folder, 'pods');
  }

  /** Where the fleet answers commands. */
  get fleet(): { readonly address: string; readonly port: number } {
    return { address: this.#addresses.fleet, port: FLEET_PORT };
  }

  /** A Pod of the Service that is ready, on the next node or on the named one. */
  async startPod(name: string, node?: string): Promise<ShopPod> {
    const pod = await this.cluster.kubelet.run({
      name,
      namespace: NAMESPACE,
      ...(node === undefined ? {} : { node }),
      labels: { app: 'web' },
      ports: [{ containerPort: PORT }],
      serves: [],
      isReady: false,
    });
    const served = await ShopPod.serve(pod);
    this.pods.set(name, served);
    await this.cluster.kubelet.setReady(pod, true);
    return served;
  }

  /** What deleting a Pod does: it is terminating at once, its hook runs, then the server stops, and the Pod is gone. */
  async endPod(name: string, hook: (pod: Pod) => Promise<void>): Promise<void> {
    const served = this.pods.get(name) ?? assert.fail(`no Pod ${name}`);
    await this.cluster.kubelet.terminate(served.pod);
    await hook(served.pod);
    await this.removePod(name);
  }

  async removePod(name: string): Promise<void> {
    const served = this.pods.get(name);
    this.pods.delete(name);
    await served?.stop();
    if (served !== undefined) await this.cluster.kubelet.end(served.pod);
  }

  /** Requests from every node and from a Pod on every node. */
  load(rate: number): Load {
    return new Load({ clients: this.#clients, address: this.#addresses.web, port: SERVICE_PORT, rate });
  }

  /** Ask the fleet from a namespace, as the kubelet does: once, whatever happens. Without a token through the Service for its hooks. */
  askFleet(namespace: string, path: string, token?: string): Promise<FleetAnswer> {
    const address = token === undefined ? this.#addresses.hooks : this.#addresses.fleet;
    const port = FLEET_PORT;
    return new Promise((resolve) => {
      const end = (status: number, text: string) => resolve({ status, text, at: performance.now() });
      const createConnection = () => connectFrom(namespace, { address, port });
      const headers = { connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
      const request = get({ host: address, port, path, createConnection, headers });
      request.on('error', (error) => end(0, error.message));
      request.on('response', (response) => {
        let text = '';
        response.on('data', (piece) => {
          text += String(piece);
        });
        response.on('end', () => end(response.statusCode ?? 0, text));
        response.on('error', (error) => end(0, error.message));
      });
    });
  }

  /** The answer to `/drained` about a Pod of the Service, asked from a node; fails when it is none. */
  async drained(name: string, timeout: string) {
    const namespace = this.cluster.network.namespace('node-1');
    const path = `/drained?pod=${NAMESPACE}/${name}&timeout=${timeout}`;
    const { status, text, at } = await this.askFleet(namespace, path, TOKENS.pods);
    assert.ok(status === 200 || status === 504, `${status} ${text}`);
    return { status, at, answer: drainedSchema.parse(JSON.parse(text)) };
  }

  /** Every node sends to every Pod of the Service: nothing is under way any more. */
  async settled(): Promise<void> {
    const names = [...this.pods.keys()].sort();
    for (const [from, namespace] of this.#clients) {
      const seen = new Set<string>();
      await until(`${from} reaches all of ${names.length} Pods`, async () => {
        const load = new Load({
          clients: new Map([[from, namespace]]),
          address: this.#addresses.web,
          port: SERVICE_PORT,
          rate: 500,
        });
        await new Promise((resolve) => setTimeout(resolve, 300));
        await load.stop();
        for (const { answer } of load.requests) if (answer.outcome === 'reply') seen.add(answer.text);
        return names.every((name) => seen.has(name));
      });
    }
  }

  async startReplica(n: number): Promise<FleetReplica> {
    const { nodes } = this.cluster;
    const node = nodes[(n - 1) % nodes.length]?.name ?? assert.fail('no node');
    const replica = await FleetReplica.start(this.cluster, `fleet-${n}`, node, [
      `--token-file=${join(this.#folder, 'fleet')}`,
    ]);
    this.replicas.push(replica);
    return replica;
  }

  async stop(): Promise<void> {
    for (const replica of this.replicas.splice(0)) await replica.stop().catch(() => undefined);
    for (const { pod } of this.pods.values()) await this.removePod(pod.name).catch(() => undefined);
    await this.cluster.stop();
    await rm(this.#folder, { recursive: true });
  }

  /** As deploy/fleet says: the fleet may read the marks of agents, and any Pod may ask whether an endpoint is drained. */
  async #admit(): Promise<void> {
    for (const [name, token] of Object.entries(TOKENS)) await writeFile(join(this.#folder, name), token);
    const { reviews } = this.cluster.api;
    assert.ok(reviews, 'a roll-out needs the API server of the tests, which has tokens');
    reviews.account(TOKENS.fleet, ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.account(TOKENS.pods, [NAMESPACE, 'default']);
    reviews.allowed.add('system:serviceaccount:kube-system:slicewire-fleet /programmed/live');
    reviews.allowed.add('system:serviceaccounts /drained');
  }

  async #build(hasFleet: boolean): Promise<void> {
    this.#addresses.web = await this.#service(NAMESPACE, 'web', {
      selector: { app: 'web' },
      ports: [{ port: SERVICE_PORT, targetPort: PORT }],
    });
    for (const { name } of this.cluster.nodes) {
      const client = await this.cluster.kubelet.run({ name: `client-${name}`, namespace: NAMESPACE, node: name });
      this.#clients.set(name, this.cluster.network.namespace(name));
      this.#clients.set(`a Pod on ${name}`, client.networkNamespace);
    }
    if (!hasFleet) return;
    for (const { name } of this.cluster.nodes)
      await this.cluster.kubelet.run({
        name: `slicewire-${name}`,
        namespace: 'kube-system',
        node: name,
        hostNetwork: true,
        labels: { 'k8s-app': 'slicewire' },
        ports: [{ name: 'healthz', containerPort: 10_256 }],
        serves: [],
      });
    await this.#service('kube-system', 'slicewire-agents', {
      clusterIP: 'None',
      publishNotReadyAddresses: true,
      selector: { 'k8s-app': 'slicewire' },
      ports: [{ name: 'healthz', port: 10_256 }],
    });
    const replicas = { selector: { app: 'slicewire-fleet' }, ports: [{ port: FLEET_PORT }] };
    this.#addresses.fleet = await this.#service('kube-system', 'slicewire-fleet', replicas);
    // Each replica counts the requests of a Node for itself (docs/fleet.md).
    const sticky = { ...replicas, sessionAffinity: 'ClientIP' };
    this.#addresses.hooks = await this.#service('kube-system', 'slicewire-fleet-hooks', sticky);
    await Promise.all([this.startReplica(1), this.startReplica(2)]);
  }

  /** Its cluster IP. */
  async #service(namespace: string, name: string, spec: object): Promise<string> {
    const object = { kind: 'Service', metadata: { namespace, name }, spec };
    return ((await this.cluster.api.create(object)) as Service).spec.clusterIP ?? '';
  }
}
