/**
 * A small cluster for the tests of Kubernetes: nodes with a real agent each (`slicewire run`), the real controller that makes the
 * EndpointSlices (`slicewire controller`), an API server, and a simple kubelet. Everything is inside network namespaces of its own, but
 * for the API server, which listens on the loopback; relays lead to it.
 */

import type { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import { type Child, startChild } from '../../../src/kernel/commands.ts';
import { TcpRelay } from '../../helpers/cli/lab/tcp-relay.ts';
import { slicewire, startAgent } from '../../helpers/cli/slicewire.ts';
import { type ClusterApi, TestApi } from './api.ts';
import { Kubelet } from './kubelet.ts';
import { Network, type NetworkNode, OUTSIDE, POD_RANGES } from './network.ts';
import { RealApi } from './real-api.ts';
import { type Answer, type Ask, ask } from './traffic.ts';

export type Mode = 'iptables' | 'nftables' | 'ipvs';
/** Milliseconds: three agents and a controller start at once. */
const PATIENCE = 120_000;

export interface ClusterOptions {
  /** Default: 3. */
  readonly nodes?: number;
  /** Of the agents, after `--nftables-min-sync-period` and so on; default: `0s`. */
  readonly minSyncPeriod?: string;
  /** More flags of each agent. */
  readonly flags?: readonly string[];
}

export class Cluster {
  readonly mode: Mode;
  readonly kubeconfig: string;
  readonly api: ClusterApi;
  readonly network: Network;
  readonly kubelet: Kubelet;
  readonly controllerLog: string[] = [];
  readonly #options: ClusterOptions;
  /** By the full name of a namespace. */
  readonly #relays = new Map<string, TcpRelay>();
  readonly #agents = new Map<string, AgentProcess>();
  #controller: Child | undefined;

  /** KUBE_APISERVER and ETCD: paths of programs that are the API server instead of the one for tests. */
  static async start(mode: Mode, options: ClusterOptions = {}): Promise<Cluster> {
    const { KUBE_APISERVER: kubeApiserver, ETCD: etcd } = process.env;
    const isReal = kubeApiserver !== undefined && etcd !== undefined;
    const api = isReal ? await RealApi.start({ kubeApiserver, etcd }) : await TestApi.start();
    const network = await Network.build(options.nodes ?? 3).catch(async (error: unknown) => {
      await api.stop();
      throw error;
    });
    const cluster = new Cluster(mode, { api, network, kubeconfig: await api.kubeconfig(), options });
    try {
      await cluster.#start();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  private constructor(
    mode: Mode,
    parts: { api: ClusterApi; network: Network; kubeconfig: string; options: ClusterOptions },
  ) {
    this.mode = mode;
    this.api = parts.api;
    this.network = parts.network;
    this.kubeconfig = parts.kubeconfig;
    this.#options = parts.options;
    this.kubelet = new Kubelet(parts.api, parts.network);
  }

  get nodes(): readonly NetworkNode[] {
    return this.network.nodes;
  }

  agent(node: string): AgentProcess {
    const agent = this.#agents.get(node);
    if (agent === undefined) throw new Error(`no agent runs on ${node}`);
    return agent;
  }

  /** Ask from a node, as a Pod with `hostNetwork` does. */
  askFromNode(node: string, request: Ask): Promise<Answer> {
    return ask(this.network.namespace(node), request);
  }

  /** Ask from a machine that is no part of the cluster. */
  askFromOutside(request: Ask): Promise<Answer> {
    return ask(this.network.namespace(OUTSIDE), request);
  }

  /** Stop the agent of a node and start another, with more flags; resolves after its first sync. */
  async restartAgent(node: string, ...flags: readonly string[]): Promise<void> {
    await this.agent(node).stop();
    await this.#startAgent(node, flags);
  }

  /** What runs in the namespace of this full name can reach the API server from now on. */
  async openApi(namespace: string): Promise<void> {
    this.#relays.set(namespace, await TcpRelay.from(namespace, this.api.port));
  }

  /** And no more: connections end, and no new one is taken. */
  async cutApi(namespace: string): Promise<void> {
    const relay = this.#relays.get(namespace);
    this.#relays.delete(namespace);
    await relay?.stop();
  }

  /** Agents and controller cannot reach the API server meanwhile. */
  async withoutApi(meanwhile: () => Promise<void>): Promise<void> {
    const namespaces = [...this.#relays.keys()];
    for (const namespace of namespaces) await this.cutApi(namespace);
    await meanwhile();
    for (const namespace of namespaces) await this.openApi(namespace);
  }

  /** Stop everything, and remove the namespaces. Says what agents or controller logged as errors. */
  async stop(): Promise<void> {
    await Promise.all([this.#controller?.stop(), ...[...this.#agents.values()].map((agent) => agent.stop())]);
    for (const relay of this.#relays.values()) await relay.stop();
    await this.kubelet.stop();
    await this.api.stop();
    await this.network.remove();
  }

  async #start(): Promise<void> {
    for (const node of this.nodes) await this.api.create(nodeObject(node));
    for (const { name } of this.nodes) await this.openApi(this.network.namespace(name));
    const { file, args } = slicewire('controller', '--kubeconfig', this.kubeconfig, '--leader-elect=false');
    const inside = this.network.inside('node-1', file, args);
    const onErrorLine = (line: string) => void this.controllerLog.push(line);
    this.#controller = startChild({ ...inside, onErrorLine });
    await Promise.all(this.nodes.map(({ name }) => this.#startAgent(name)));
  }

  async #startAgent(node: string, moreFlags: readonly string[] = []): Promise<void> {
    const flags = ['--kubeconfig', this.kubeconfig, '--hostname-override', node, '--mode', this.mode];
    const more = [
      '--cluster-cidr',
      POD_RANGES,
      '--conntrack-max-per-core',
      '0',
      `--${this.mode}-min-sync-period`,
      this.#options.minSyncPeriod ?? '0s',
      ...(this.#options.flags ?? []),
      ...moreFlags,
    ];
    const lab = {
      inside: (_: string, file: string, args: readonly string[]) => this.network.inside(node, file, args),
    };
    const agent = startAgent(lab, ['run', ...flags, ...more]);
    this.#agents.set(node, agent);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
  }
}

function nodeObject({ name, addresses, podRanges }: NetworkNode) {
  return {
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name } },
    spec: { podCIDR: podRanges.v4, podCIDRs: [podRanges.v4, podRanges.v6] },
    status: {
      addresses: [addresses.v4, addresses.v6].map((address) => ({ type: 'InternalIP', address })),
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  };
}
