/** A cluster for the plugin of kubectl: an API server, and agents whose metrics servers answer in this process. */

import type { Address } from '../../../../src/base/address.ts';
import { runPlugin } from '../../../../src/cli/kubectl/plugin.ts';
import { NoAnswer, WrongQuestion } from '../../../../src/inspect/wire/envelope.ts';
import { HttpServer } from '../../../../src/serve/http.ts';
import { metricsHandler } from '../../../../src/serve/metrics-server.ts';
import type { QueryRoute } from '../../../../src/serve/query-handler.ts';
import { ApiServer, type ApiServerOptions } from '../../cluster/api/api-server.ts';
import { OWN_FACTS } from '../../serve/own-facts.ts';
import { type Behind, type FakeKubelets, serveForwards } from './fake-kubelet.ts';

/** The answers of an agent by path; undefined: an older agent, without the question. */
export type AgentAnswers = Readonly<Record<string, (query: URLSearchParams) => object | Promise<object>>>;

export interface Ran {
  readonly status: number;
  readonly out: string;
}

export class AgentCluster {
  readonly server: ApiServer;
  readonly kubelets: FakeKubelets;
  readonly #behind = new Map<string, Behind>();
  readonly #agents: HttpServer[] = [];

  static async start(options: ApiServerOptions = {}): Promise<AgentCluster> {
    return new AgentCluster(await ApiServer.start(options));
  }

  private constructor(server: ApiServer) {
    this.server = server;
    const unknown: Behind = { kind: 'refused', status: 404, message: 'there is no such pod' };
    this.kubelets = serveForwards(server, (pod) => this.#behind.get(pod) ?? unknown);
  }

  /** A node with an agent that answers; returns the port of its metrics server. */
  async addAgent(node: string, answers: AgentAnswers): Promise<number> {
    const byPath = new Map<string, QueryRoute>(
      Object.entries(answers).map(([path, answer]) => [
        path,
        { parameters: ['from', 'to', 'rules', 'at', 'service', 'since'], answer: async (query) => await answer(query) },
      ]),
    );
    const handler = metricsHandler({
      mode: () => 'nftables',
      config: () => ({}),
      metrics: () => ({ contentType: 'text/plain', text: () => Promise.resolve('') }),
      hasProfiling: () => false,
      component: OWN_FACTS,
      readPage: () => Promise.resolve(new Uint8Array()),
      setVerbosity: () => undefined,
      questions: { byPath, isLocal: () => true },
    });
    const agent = await HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, handler);
    this.#agents.push(agent);
    this.addNode(node, { kind: 'agent', port: agent.port });
    return agent.port;
  }

  /** A node whose Pod runs, with anything behind port-forward. */
  addNode(node: string, behind: Behind, pod: object = agentPod(node)): void {
    this.#behind.set(`kube-system/slicewire-${node}`, behind);
    this.server.put(pod);
  }

  /** Runs `kubectl slicewire` with these words. Throws what the command line would print. */
  async run(...words: string[]): Promise<Ran> {
    let out = '';
    const kubeconfig = await this.server.kubeconfig();
    const print = (text: string) => {
      out += `${text}\n`;
    };
    const signal = new AbortController().signal;
    const status = await runPlugin([...words, '--kubeconfig', kubeconfig], { signal, print });
    return { status, out };
  }

  /** The message of the error that the command ends with. */
  async refusal(...words: string[]): Promise<string> {
    try {
      const { out } = await this.run(...words);
      throw new Error(`it was answered: ${out}`);
    } catch (error) {
      if (error instanceof NoAnswer || error instanceof WrongQuestion) return error.message;
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.server.stop();
    for (const agent of this.#agents) await agent.close();
  }
}

/** The Pod of an agent as the DaemonSet of deploy/ makes it. */
export function agentPod(node: string, status: object = RUNNING, more: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `slicewire-${node}`, namespace: 'kube-system', labels: { 'k8s-app': 'slicewire' }, ...more },
    spec: { nodeName: node, hostNetwork: true },
    status,
  };
}

const RUNNING = { phase: 'Running', containerStatuses: [{ name: 'slicewire', state: { running: {} } }] };
