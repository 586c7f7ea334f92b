/** A fleet that runs in this process, at a port of its own, with an API server and agents on real sockets. */
import http from 'node:http';
import type { Flags } from '../../src/config/flags.ts';
import { fleetConfig } from '../../src/config/fleet-config.ts';
import { runFleet } from '../../src/fleet/fleet-process.ts';
import type { Drained } from '../../src/inspect/wire/drained.ts';
import { HttpServer } from '../../src/serve/http.ts';
import { logInto } from '../../src/telemetry/log.ts';
import { until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { OWN_FACTS } from '../helpers/serve/own-facts.ts';
import { FakeAgent, type FakeAgentOptions } from './fake-agent.ts';

export interface Answered {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

export interface FleetOptions {
  readonly flags?: Flags;
  /** Milliseconds that questions may wait on after the signal to stop. */
  readonly ending?: number;
}

/** One replica. */
export class Fleet {
  /** Lines of its log. */
  readonly lines: string[] = [];
  readonly #stop = new AbortController();
  #server: HttpServer | undefined;
  #running: Promise<void> = Promise.resolve();

  static async start(server: ApiServer, { flags = {}, ending }: FleetOptions = {}): Promise<Fleet> {
    const fleet = new Fleet();
    const config = fleetConfig({ kubeconfig: await server.kubeconfig(), tokenFile: '/no/token', ...flags });
    const log = logInto({ write: (line) => void fleet.lines.push(line) });
    fleet.#running = runFleet(config, log, fleet.#stop.signal, {
      component: OWN_FACTS,
      readPage: (name) => Promise.reject(new Error(`there is no ${name}`)),
      open: async (options, handler) => {
        fleet.#server = await HttpServer.open({ ...options, port: 0 }, handler);
        return fleet.#server;
      },
      ...(ending === undefined ? {} : { ending }),
    });
    await until('an open port', () => fleet.#server !== undefined);
    return fleet;
  }

  get port(): number {
    return this.#server?.port ?? 0;
  }

  ask(path: string, options: http.RequestOptions = {}): Promise<Answered> {
    return new Promise((resolve, reject) => {
      const request = http.request(
        { host: '127.0.0.1', port: this.port, path, agent: false, ...options },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (piece: string) => {
            text += piece;
          });
          response.on('error', reject);
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
        },
      );
      request.on('error', reject);
      request.end();
    });
  }

  /** The answer of `/drained` with its status. */
  async drained(query: string): Promise<Drained & { readonly status: number }> {
    const { status, text } = await this.ask(`/drained?${query}`);
    return { ...JSON.parse(text), status };
  }

  async ready(): Promise<void> {
    await until('readiness', async () => (await this.ask('/readyz')).status === 200);
  }

  /** Told to stop. */
  terminate(): void {
    this.#stop.abort(new Error('received SIGTERM'));
  }

  async stopped(): Promise<void> {
    this.terminate();
    await this.#running;
  }
}

/** An API server, nodes with agents, and one Service whose pods are on them. */
export class Cluster {
  readonly api: ApiServer;
  readonly agents = new Map<string, FakeAgent>();
  readonly #fleets: Fleet[] = [];

  static async start(nodes: readonly string[]): Promise<Cluster> {
    const cluster = new Cluster(await ApiServer.start());
    cluster.api.put(
      service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }),
    );
    cluster.setPods({ 'web-1': 'ready', 'web-2': 'ready' });
    for (const [i, name] of nodes.entries()) {
      cluster.putNode(name, `192.0.2.${i + 1}`);
      await cluster.putAgent({ node: name });
    }
    return cluster;
  }

  private constructor(api: ApiServer) {
    this.api = api;
  }

  async fleet(options: FleetOptions = {}): Promise<Fleet> {
    const fleet = await Fleet.start(this.api, options);
    this.#fleets.push(fleet);
    return fleet;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#fleets.map((fleet) => fleet.stopped()));
    await Promise.all([...this.agents.values()].map((agent) => agent.stop()));
    await this.api.stop();
  }

  putNode(name: string, address: string, isReady = true, since = '2026-11-01T00:00:00Z'): string {
    return this.api.put({
      ...{ apiVersion: 'v1', kind: 'Node', metadata: { name } },
      spec: { podCIDRs: ['10.1.0.0/24'] },
      status: {
        addresses: [{ type: 'InternalIP', address }],
        conditions: [{ type: 'Ready', status: isReady ? 'True' : 'Unknown', lastTransitionTime: since }],
      },
    });
  }

  /** An agent that has everything of now in its kernel, and its endpoint. */
  async putAgent(options: FakeAgentOptions): Promise<FakeAgent> {
    const { version } = this.api;
    const agent = await FakeAgent.start({ marks: [version, version], ...options });
    this.agents.set(options.node, agent);
    this.api.put(agentsSlice(options.node, agent.at.port));
    return agent;
  }

  agent(node: string): FakeAgent {
    const agent = this.agents.get(node);
    if (agent === undefined) throw new Error(`no agent on ${node}`);
    return agent;
  }

  /** Write the slice of the Service shop/web: its pods, on the Node n1, at addresses from 10.1.0.1 on. Returns its version. */
  setPods(pods: Readonly<Record<string, 'ready' | 'ending'>>): string {
    const endpoints = Object.entries(pods).map(([name, state]) => ({
      addresses: [`10.1.0.${name.replace(/\D/g, '')}`],
      nodeName: 'n1',
      conditions: { ready: state === 'ready', serving: true, terminating: state === 'ending' },
      targetRef: { kind: 'Pod', namespace: 'shop', name },
    }));
    return this.api.put(slice({ name: 'web-a', namespace: 'shop', service: 'web', endpoints, addressType: 'IPv4' }));
  }

  /** All that is in the API server is in the kernels of these nodes. */
  programmed(...nodes: readonly string[]): void {
    for (const node of nodes) this.agent(node).programmed(this.api.version, this.api.version);
  }
}

export function agentsSlice(node: string, port: number, conditions: object = {}): object {
  const made = slice({
    ...{ name: `slicewire-agents-${node}`, namespace: 'kube-system', service: 'slicewire-agents' },
    ports: [{ name: 'healthz', protocol: 'TCP', port }],
    endpoints: [{ addresses: ['127.0.0.1'], nodeName: node, conditions: { ready: true, ...conditions } }],
  }) as { metadata: { labels: Record<string, string> } };
  made.metadata.labels['service.kubernetes.io/headless'] = '';
  return made;
}
