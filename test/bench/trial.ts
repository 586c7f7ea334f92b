/** One trial of the benchmark: a node in namespaces, an API server that holds a cluster, and the executable as the agent. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { TABLES } from '../../src/proxy/modes/netfilter/observe.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { type ClusterShape, FIRST } from './cluster.ts';
import { Restorer } from './restorer.ts';
import { ServerProcess } from './server-process.ts';

export const NEVER = new AbortController().signal;
export const EXECUTABLE = fileURLToPath(new URL('../../dist/slicewire', import.meta.url));
/** The variant of iptables that writes to nf_tables. */
const BACKEND = 'nft';
/** Milliseconds: the largest cluster with all its rules in one restore. */
const PATIENCE = 600_000;

/** Of IPVS mode, once no rule uses the sets. */
const EMPTY_IPVS =
  'ipvsadm -C && for set in $(ipset list -n); do ipset destroy "$set"; done; ! ip link show kube-ipvs0 >/dev/null 2>&1 || ip link delete kube-ipvs0';

export type BenchMode = 'iptables' | 'ipvs' | 'nftables';

export interface TrialOptions {
  readonly shape: ClusterShape;
  readonly mode?: BenchMode;
  /** The agent from its source instead of the executable. */
  readonly isSource?: boolean;
  /** What the agent is told beside. */
  readonly flags?: readonly string[];
}

export interface Started {
  readonly agent: AgentProcess;
  readonly pid: number;
  /** From exec to the end of the first sync. */
  readonly milliseconds: number;
}

/** The parts that a trial has in all its modes. */
interface Shared {
  readonly lab: Lab;
  readonly server: ServerProcess;
  /** Stopped in the end, whatever became of them. */
  readonly running: { stop(): Promise<void> }[];
  readonly restorers: Map<string, Restorer>;
  /** The turn of the next change. */
  turn: number;
}

export class Trial {
  readonly #options: TrialOptions;
  readonly #shared: Shared;

  /** All that was made is removed, also after a failure. */
  static async of<T>(options: TrialOptions, work: (trial: Trial) => Promise<T>): Promise<T> {
    if (options.isSource !== true && !existsSync(EXECUTABLE))
      throw new Error('there is no executable: npm run build makes it');
    const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    try {
      const server = await ServerProcess.start(lab, options.shape);
      const shared: Shared = { lab, server, running: [], restorers: new Map(), turn: 1 };
      try {
        return await work(new Trial(shared, options));
      } finally {
        for (const one of [...shared.running, ...shared.restorers.values()]) await one.stop();
        await server.stop();
      }
    } finally {
      await lab.remove();
    }
  }

  private constructor(shared: Shared, options: TrialOptions) {
    this.#shared = shared;
    this.#options = options;
  }

  /** The same node and server for another mode. All that still runs in this one is stopped, and its rules are removed. */
  async in(mode: BenchMode): Promise<Trial> {
    for (const one of this.#shared.running.splice(0)) await one.stop();
    await this.empty('node');
    return new Trial(this.#shared, { ...this.#options, mode });
  }

  get lab(): Lab {
    return this.#shared.lab;
  }

  get server(): ServerProcess {
    return this.#shared.server;
  }

  /** The first turn of so many changes, each of another endpoint: no turn is used twice. */
  turnsOf(changes: number): number {
    const first = this.#shared.turn;
    this.#shared.turn += Math.ceil(changes / (this.shape.services - FIRST));
    return first;
  }

  get shape(): ClusterShape {
    return this.#options.shape;
  }

  /** Something else that runs in the lab: it is stopped before the lab is removed. Stopping it twice must do no harm. */
  stopAtEnd(running: { stop(): Promise<void> }): void {
    this.#shared.running.push(running);
  }

  /** Start the agent; `meanwhile` is told its process id at once. */
  async start({
    flags = [],
    meanwhile = () => undefined,
  }: {
    flags?: readonly string[];
    meanwhile?: (pid: number) => void;
  } = {}): Promise<Started> {
    const { mode = 'iptables', flags: always = [] } = this.#options;
    const own = ['--hostname-override', 'node-0', '--cluster-cidr', '10.128.0.0/9'];
    const kernel = mode === 'iptables' ? ['--iptables-backend', BACKEND] : [];
    const source = ['--kubeconfig', this.server.kubeconfig];
    // The size of the table of connections is the machine's.
    const args = [
      'run',
      '--mode',
      mode,
      ...source,
      ...own,
      ...kernel,
      '--conntrack-max-per-core',
      '0',
      ...always,
      ...flags,
    ];
    const start = performance.now();
    const agent = new AgentProcess(this.lab, args, this.#options.isSource === true ? undefined : EXECUTABLE);
    this.stopAtEnd(agent);
    const { pid } = agent;
    if (pid === undefined) throw new Error('the agent was not started');
    meanwhile(pid);
    const ended = agent.ended.then((status) => {
      throw new Error(`the agent ended with status ${status}; its log:\n${agent.text()}`);
    });
    await Promise.race([agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE }), ended]);
    ended.catch(() => undefined);
    return { agent, pid, milliseconds: performance.now() - start };
  }

  /** What the node's kernel has, as `iptables-save` prints it. */
  async saved(): Promise<string> {
    return await this.lab.exec('node', `iptables-${BACKEND}-save`);
  }

  /** Milliseconds that the tool takes for a restore, in a namespace whose tables are emptied first unless it says otherwise. */
  async restore(text: string, { namespace = 'other', isEmptied = true } = {}): Promise<number> {
    if (isEmptied) await this.empty(namespace);
    const args = ['--noflush', '--wait', '60'];
    return await this.#restorer(namespace).restore({ file: `iptables-${BACKEND}-restore`, args, text });
  }

  /** Milliseconds that `nft -f` takes for a text. */
  async nft(text: string, namespace = 'other'): Promise<number> {
    return await this.#restorer(namespace).restore({ file: 'nft', args: ['-f', '-'], text });
  }

  #restorer(namespace: string): Restorer {
    const known = this.#shared.restorers.get(namespace) ?? new Restorer(this.lab, namespace);
    this.#shared.restorers.set(namespace, known);
    return known;
  }

  /** Tables that a proxy in nftables mode may have made. */
  async #emptyNftables(namespace: string): Promise<void> {
    const tables = ['ip', 'ip6'].flatMap((family) => ['slicewire', 'kube-proxy'].map((name) => `${family} ${name}`));
    await this.nft(tables.map((table) => `table ${table}\ndelete table ${table}\n`).join(''), namespace);
  }

  /** What the mode writes to, both families. */
  async empty(namespace: string): Promise<void> {
    if (this.#options.mode === 'nftables') return await this.#emptyNftables(namespace);
    const tools = ['iptables', 'ip6tables'].map((tool) => `${tool}-${BACKEND} -w 60`);
    const flush = tools.flatMap((tool) => TABLES.map((name) => `${tool} -t ${name} -F && ${tool} -t ${name} -X`));
    await this.lab.exec(namespace, 'sh', '-c', flush.join(' && '));
    if (this.#options.mode === 'ipvs') await this.lab.exec(namespace, 'sh', '-c', EMPTY_IPVS);
  }
}

/** When a line of the agent's log was written: milliseconds since 1970. */
export function timeOf({ log }: AgentProcess, text: string): number {
  const line = log.find(({ msg }) => msg.includes(text));
  if (line === undefined) throw new Error(`the agent did not say: ${text}`);
  return Date.parse(String(line.time));
}
