/** Measures one size of cluster with one variant of iptables: each figure beside its floor, in the same run. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AgentProcess } from '../../src/cli/demo/agent-process.ts';
import { Lab } from '../../src/cli/demo/lab.ts';
import { realCommands } from '../../src/host/commands.ts';
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { type ClusterShape, clusterIP, ENDPOINTS, endpointsOf, FIRST, writeCluster, writeService } from './cluster.ts';

export interface Measured {
  readonly services: number;
  readonly backend: 'nft' | 'legacy';
  /** Milliseconds of each run. */
  readonly cold: readonly number[];
  readonly floor: readonly number[];
  readonly rival: readonly number[];
  readonly change: readonly number[];
  readonly changeFloor: readonly number[];
  readonly restart: readonly number[];
  /** Megabytes. */
  readonly resident: number;
  readonly peak: number;
  readonly rules: number;
  readonly chains: number;
}

export interface MeasureOptions {
  readonly services: number;
  readonly backend: 'nft' | 'legacy';
  readonly runs: number;
  readonly changes: number;
  /** Largest cluster for which kube-proxy's layout is restored as well: it is worse than quadratic. */
  readonly rivalUpTo: number;
}

const shapeOf = ({ services }: MeasureOptions): ClusterShape => ({ services, endpoints: ENDPOINTS });
const NEVER = new AbortController().signal;
const START_LIMIT = 120_000;
const FLAGS = [
  ...['--hostname-override', 'node-0', '--cluster-cidr', '10.128.0.0/9', '--iptables-min-sync-period', '0s'],
  // The size of the table of connections is the machine's.
  ...['--conntrack-max-per-core', '0'],
];

export async function measure(options: MeasureOptions): Promise<Measured> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-bench-'));
  const lab = await Lab.create({ commands: realCommands, pods: 0, remotePods: 0, signal: NEVER });
  try {
    await writeCluster(folder, shapeOf(options));
    return await new Bench(lab, folder, options).run();
  } finally {
    await lab.remove();
    await rm(folder, { recursive: true });
  }
}

class Bench {
  readonly #lab: Lab;
  readonly #folder: string;
  readonly #options: MeasureOptions;

  constructor(lab: Lab, folder: string, options: MeasureOptions) {
    this.#lab = lab;
    this.#folder = folder;
    this.#options = options;
  }

  async run(): Promise<Measured> {
    const { services, backend, runs, changes, rivalUpTo } = this.#options;
    const cold: number[] = [];
    const floor: number[] = [];
    const rival: number[] = [];
    let saved = '';
    for (let i = 0; i < runs; i++) {
      await this.#empty('node');
      const { agent, milliseconds } = await this.#start();
      cold.push(milliseconds);
      await agent.stop();
      saved = await this.#lab.exec('node', `iptables-${backend}-save`);
      floor.push(await this.#restore(saved));
      if (services <= rivalUpTo) rival.push(await this.#restore(this.#rivalRules()));
    }
    const restarted = await this.#start();
    const { agent } = restarted;
    const { change, changeFloor } = await this.#changes(agent, changes);
    await pause(2000);
    const memory = await readMemory(agent);
    await agent.stop();
    const lines = saved.split('\n');
    const chains = lines.filter((line) => line.startsWith(':KUBE')).length;
    const rules = lines.filter((line) => line.startsWith('-A')).length;
    return {
      services,
      backend,
      cold,
      floor,
      rival,
      change,
      changeFloor,
      restart: [restarted.milliseconds],
      ...memory,
      rules,
      chains,
    };
  }

  /** From exec to the end of the first sync: milliseconds. */
  async #start(): Promise<{ agent: AgentProcess; milliseconds: number }> {
    const start = performance.now();
    const args = ['run', '--manifests', this.#folder, '--iptables-backend', this.#options.backend, ...FLAGS];
    const agent = new AgentProcess(this.#lab, args);
    await agent.logged((line) => line.msg.startsWith('synced'), { within: START_LIMIT });
    return { agent, milliseconds: performance.now() - start };
  }

  /** One endpoint of one Service replaced, from before the file is written to the end of the sync; and the bare restore of one such chain. */
  async #changes(agent: AgentProcess, count: number): Promise<{ change: number[]; changeFloor: number[] }> {
    const change: number[] = [];
    const changeFloor: number[] = [];
    for (let i = 1; i <= count; i++) {
      const n = (i * 37) % this.#options.services;
      const since = agent.log.length;
      const start = performance.now();
      await writeService(this.#folder, shapeOf(this.#options), n, i);
      await agent.synced(since);
      change.push(performance.now() - start);
      changeFloor.push(await this.#restoreOneChain());
      await pause(30);
    }
    return { change, changeFloor };
  }

  async #restoreOneChain(): Promise<number> {
    const rules = endpointsOf(shapeOf(this.#options), FIRST).map(
      ({ addresses }) => `-A KUBE-BENCH -p tcp -j DNAT --to-destination ${addresses[0]}:8080`,
    );
    const text = ['*nat', ':KUBE-BENCH - [0:0]', ...rules, 'COMMIT', ''].join('\n');
    return await this.#timeRestore('node', text);
  }

  /** Restore into the empty tables of another namespace. */
  async #restore(text: string): Promise<number> {
    await this.#empty('other');
    return await this.#timeRestore('other', text);
  }

  async #timeRestore(namespace: string, text: string): Promise<number> {
    const file = join(this.#folder, 'restore.rules');
    await writeFile(file, text);
    const tool = `iptables-${this.#options.backend}-restore`;
    const start = performance.now();
    await this.#lab.exec(namespace, 'sh', '-c', `${tool} --noflush < "$0"`, file);
    return performance.now() - start;
  }

  #rivalRules(): string {
    const services = Array.from({ length: this.#options.services }, (_, n) => ({
      id: `default/svc-${n}:http`,
      clusterIP: clusterIP(n),
      port: 80,
      endpoints: endpointsOf(shapeOf(this.#options), n).map(({ addresses }) => `${addresses[0]}:8080`),
    }));
    return kubeProxyRules(services);
  }

  async #empty(namespace: string): Promise<void> {
    const tool = `iptables-${this.#options.backend}`;
    const flush = ['nat', 'filter', 'mangle']
      .map((table) => `${tool} -t ${table} -F && ${tool} -t ${table} -X`)
      .join(' && ');
    await this.#lab.exec(namespace, 'sh', '-c', flush);
  }
}

async function readMemory(agent: AgentProcess): Promise<{ resident: number; peak: number }> {
  const status = await readFile(`/proc/${agent.pid}/status`, 'utf8');
  const megabytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? Number.NaN) / 1024;
  return { resident: megabytes('VmRSS'), peak: megabytes('VmHWM') };
}
