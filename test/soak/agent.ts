/** The agent of a soak, one life after another: started, ended by a signal, looked at from outside. */

import { appendFileSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AgentProcess, type LogLine } from '../../src/cli/lab/agent-process.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { SOURCE_OPTIONS } from '../../src/kernel/process.ts';
import { residentMemory } from '../bench/process-cost.ts';
import { CLUSTER_CIDR, NODE } from './cluster.ts';
import { milliseconds } from './monotonic.ts';
import type { SoakMode } from './timeline.ts';

const EXECUTABLE = fileURLToPath(new URL('../../dist/slicewire', import.meta.url));
const SOURCE = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** Milliseconds. */
const PATIENCE = 300_000;
const SIGTERM_PATIENCE = 20_000;
/** Messages that are no matter of routine. */
const TOLD = ['warn', 'error', 'fatal', 'text'];

export interface AgentOptions {
  readonly lab: Lab;
  /** Of what the soak made, for the configuration. */
  readonly folder: string;
  readonly kubeconfig: string;
  /** From its source, not the executable of `npm run build`. */
  readonly isSource: boolean;
  /** The executable of another version. It has the first life of the agent, and every second one. */
  readonly other?: string | undefined;
  /** Where each line of its log is kept; undefined: nowhere. */
  readonly logFile: string | undefined;
}

/** One look at the process. Bytes, and numbers of open descriptors. */
export interface Look {
  readonly resident: number;
  readonly anonymous: number;
  readonly descriptors: number;
}

export class SoakAgent {
  readonly #options: AgentOptions;
  readonly #config: string;
  #process: AgentProcess | undefined;
  #read = 0;
  #isOther = false;
  /** How often each message came that is a warning or worse, numbers aside. */
  readonly complaints = new Map<string, number>();
  /** When it logged that the data path is broken. Milliseconds of the monotonic clock. */
  readonly alarms: number[] = [];

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#config = join(options.folder, 'config.json');
    if (!options.isSource && !existsSync(EXECUTABLE)) throw new Error('there is no executable: npm run build makes it');
  }

  get command(): readonly string[] {
    return this.#options.isSource ? [process.execPath, ...SOURCE_OPTIONS, SOURCE] : [EXECUTABLE];
  }

  /** This life is one of the other version. */
  get isOther(): boolean {
    return this.#isOther;
  }

  /** Lines of the log of this life. */
  get log(): readonly LogLine[] {
    return this.#process?.log ?? [];
  }

  /** Write the configuration file. A running agent follows it. */
  configure(mode: SoakMode): void {
    const periods = { minSyncPeriod: '1s', syncPeriod: '30s' };
    const config = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode,
      clientConnection: { kubeconfig: this.#options.kubeconfig },
      hostnameOverride: NODE,
      clusterCIDR: CLUSTER_CIDR,
      // The size of the table of connections is the machine's, and so is the choice of the OOM killer.
      conntrack: { maxPerCore: 0 },
      oomScoreAdj: 0,
      iptables: periods,
      nftables: periods,
    };
    writeFileSync(this.#config, JSON.stringify(config));
  }

  /** Milliseconds from exec to the end of the first sync. */
  async start(): Promise<number> {
    const start = performance.now();
    const own = ['run', '--config', this.#config, '--iptables-backend', 'nft', '--logging-format', 'json'];
    const { other, lab } = this.#options;
    this.#isOther = other !== undefined && !this.#isOther;
    const command = this.#isOther && other !== undefined ? [other] : this.command;
    // An older version may not know the flag.
    const check = this.#isOther ? [] : ['--datapath-check=report'];
    // The soak gives way to others; the agent does not. Ctrl-C is not for it.
    const agent = new AgentProcess(lab, ['nice', '-n', '-10', ...command, ...own, ...check], 'setsid');
    this.#process = agent;
    this.#read = 0;
    await Promise.race([this.#synced(agent), this.#endedEarly(agent)]);
    return performance.now() - start;
  }

  /** End it. Milliseconds until it ended, and its exit status; undefined: by the signal. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<{ milliseconds: number; status: number | undefined }> {
    const agent = this.#process;
    const pid = agent?.pid;
    if (agent === undefined || pid === undefined) throw new Error('no agent runs');
    const start = performance.now();
    process.kill(pid, signal);
    const late = setTimeout(() => process.kill(pid, 'SIGKILL'), SIGTERM_PATIENCE);
    const status = await agent.ended;
    clearTimeout(late);
    this.keepLog();
    this.#process = undefined;
    return { milliseconds: performance.now() - start, status };
  }

  /** Resolves with the first line from `since` on that fits. */
  async logged(fits: (line: LogLine) => boolean, since: number, within = PATIENCE): Promise<LogLine> {
    if (this.#process === undefined) throw new Error('no agent runs');
    return await this.#process.logged(fits, { since, within });
  }

  look(): Look | undefined {
    const pid = this.#process?.pid;
    if (pid === undefined) return undefined;
    try {
      const { now: resident, anonymous } = residentMemory(pid);
      return { resident, anonymous, descriptors: readdirSync(`/proc/${pid}/fd`).length };
    } catch {
      // It ends at this moment.
      return undefined;
    }
  }

  /** Take what it logged since the last time. */
  keepLog(): void {
    const lines = this.log.slice(this.#read);
    this.#read += lines.length;
    for (const { level, msg, time } of lines) {
      if (msg.startsWith('the data path is broken'))
        this.alarms.push(milliseconds() - (Date.now() - Date.parse(String(time))));
      if (!TOLD.includes(level)) continue;
      const alike = `${level}: ${msg.replace(/\d[\d.:]*/g, 'N').slice(0, 200)}`;
      this.complaints.set(alike, (this.complaints.get(alike) ?? 0) + 1);
    }
    const { logFile } = this.#options;
    if (logFile !== undefined && lines.length > 0)
      appendFileSync(logFile, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  /** Whatever became of it. */
  async remove(): Promise<void> {
    if (this.#process !== undefined) await this.end('SIGTERM');
  }

  async #synced(agent: AgentProcess): Promise<void> {
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
  }

  async #endedEarly(agent: AgentProcess): Promise<void> {
    const status = await agent.ended;
    throw new Error(`the agent ended by itself with ${status}; its log:\n${agent.text()}`);
  }
}
