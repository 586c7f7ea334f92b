/** The course of a soak: the agent's lives, what another program does, and what is seen meanwhile. */
import { setTimeout as pause } from 'node:timers/promises';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { SoakAgent } from './agent.ts';
import { CLUSTER_CIDR, NODE } from './cluster.ts';
import { flush } from './flush.ts';
import type { Judge } from './judge.ts';
import { Measured } from './measured.ts';
import { milliseconds } from './monotonic.ts';
import type { Parts } from './parts.ts';
import type { ProbeAnswer } from './probe-protocol.ts';
import type { FlushFound, LifeFound, SoakResult } from './result.ts';
import type { ServerAnswer } from './server-protocol.ts';
import { FIRST_MODE, otherMode, type SoakEvent, type SoakMode, type SoakPlan, timeline } from './timeline.ts';
import { verifiedOf } from './verified.ts';
import type { WatchAnswer } from './watch-protocol.ts';

const NEVER = new AbortController().signal;
/** Milliseconds. */
const BETWEEN_LOOKS = 5000;
const BETWEEN_SCRAPES = 15_000;
/** systemd waits as long before it starts the agent again (RestartSec). */
const BEFORE_START = 1000;
/** For the repair of what another program did. */
const REPAIR_PATIENCE = 60_000;
const RELOAD_PATIENCE = 120_000;
const BETWEEN_QUESTIONS = 50;
/** After the last change, until what is in the kernel must be right. */
const SETTLE = 5000;
const DRIFT = /another program|changed rules of ours/;

export interface SoakOptions extends SoakPlan {
  readonly probesPerSecond: number;
  readonly seed: number;
  readonly isSource: boolean;
  /** See `AgentOptions`. */
  readonly other?: string | undefined;
  readonly logFile: string | undefined;
  /** Makes it end early, with what was found until then. */
  readonly signal: AbortSignal;
  /** Told what happens. */
  readonly say: (line: string) => void;
  /** A folder of its own, which it removes. */
  readonly folder: string;
}

export interface Ended {
  readonly seconds: number;
  readonly isEarly: boolean;
  readonly changes: ServerAnswer;
  readonly probes: readonly ProbeAnswer[];
  readonly watched: WatchAnswer;
  readonly left: readonly string[];
}

export interface Stage {
  readonly lab: Lab;
  readonly judge: Judge;
  readonly parts: Parts;
}

export class SoakRun {
  readonly options: SoakOptions;
  readonly agent: SoakAgent;
  readonly parts: Parts;
  readonly judge: Judge;
  readonly measured: Measured;
  readonly lives: LifeFound[] = [];
  readonly reloads: number[] = [];
  readonly flushes: FlushFound[] = [];
  readonly verify: SoakResult['verify'][number][] = [];
  readonly #lab: Lab;
  readonly #kubeconfig: string;
  #mode: SoakMode = FIRST_MODE;
  /** Or when it took its mode. */
  #bornAt = 0;
  #isTail = false;
  #isEarly = false;
  /** Of a write of another program that is not repaired. */
  #isRepaired: ((at: number) => void) | undefined;

  static async of(options: SoakOptions, stage: Stage): Promise<SoakRun> {
    const { kubeconfig } = await stage.parts.server.ask({ kind: 'ready' });
    return new SoakRun(options, stage, kubeconfig);
  }

  private constructor(options: SoakOptions, { lab, judge, parts }: Stage, kubeconfig: string) {
    const { folder, isSource, other, logFile } = options;
    this.options = options;
    this.#lab = lab;
    this.judge = judge;
    this.parts = parts;
    this.#kubeconfig = kubeconfig;
    this.agent = new SoakAgent({ lab, folder, kubeconfig, isSource, other, logFile });
    this.measured = new Measured(this.agent, parts.watch);
  }

  /** Resolves when the time is over, or the signal ended it. */
  async go(): Promise<Ended> {
    this.agent.configure(this.#mode);
    this.options.say(`first start: ${(await this.#start()).toFixed(0)} ms`);
    for (const one of this.parts.probes) await one.ask({ kind: 'begin' });
    await this.parts.server.ask({ kind: 'begin' });
    const start = milliseconds();
    const looking = new AbortController();
    const looks = this.#looks(looking.signal);
    try {
      await Promise.race([this.#events(start), looks]);
    } finally {
      looking.abort();
      await looks;
    }
    const seconds = (milliseconds() - start) / 1000;
    const changes = await this.parts.server.ask({ kind: 'end' });
    await pause(SETTLE);
    const probes = await Promise.all(this.parts.probes.map((one) => one.ask({ kind: 'end' })));
    await this.#verify('the agent', []);
    await this.#verify('a command of its own', this.#ownFlags());
    await this.measured.endOf(this.#mode, { isLife: true });
    const watched = await this.parts.watch.ask({ kind: 'count' });
    const { milliseconds: end, status } = await this.agent.end('SIGTERM');
    this.lives.push({ signal: 'SIGTERM', mode: this.#mode, end, status, isOther: this.agent.isOther });
    return { seconds, isEarly: this.#isEarly, changes, probes, watched, left: await this.#cleanUp() };
  }

  /** Lines of the ruleset of a proxy that `slicewire cleanup` leaves; and what it could not do. */
  async #cleanUp(): Promise<string[]> {
    const [file = '', ...words] = this.agent.command;
    const cleanup = this.#lab.inside('node', file, [...words, 'cleanup', '--iptables-backend', 'nft']);
    const { exitCode, stderr } = await shellCommands.run(cleanup, NEVER);
    const listing = await shellCommands.run(this.#lab.inside('node', 'nft', ['list', 'ruleset']), NEVER);
    if (listing.exitCode !== 0) throw new Error(`nft list ruleset: ${listing.stderr.trim()}`);
    const lines = listing.stdout.split('\n').filter((line) => /KUBE-|slicewire/.test(line));
    // It stays: the kubelet uses it too.
    const left = lines.filter((line) => !line.includes('KUBE-FIREWALL'));
    return exitCode === 0 ? left : [`cleanup ended with ${exitCode}: ${stderr.trim()}`, ...left];
  }

  async #events(start: number): Promise<void> {
    const { signal } = this.options;
    for (const event of timeline(this.options)) {
      const wait = start + event.at * 1000 - milliseconds();
      if (wait > 0) await pause(wait, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) {
        this.#isEarly = true;
        return;
      }
      await this.#happen(event);
    }
  }

  async #happen(event: SoakEvent): Promise<void> {
    switch (event.kind) {
      case 'restart':
        return await this.#restart(event.signal);
      case 'flush':
        return await this.#flush(event.turn);
      case 'switch':
        return await this.#switch(event.by);
      case 'no more restarts':
        this.#isTail = true;
        this.#bornAt = performance.now();
        return;
      case 'end':
        return;
    }
  }

  async #start(): Promise<number> {
    const took = await this.agent.start();
    this.#bornAt = performance.now();
    this.#written();
    return took;
  }

  /** All rules were written: nothing that another program did is left. */
  #written(): void {
    this.#isRepaired?.(milliseconds());
    this.#isRepaired = undefined;
  }

  async #restart(signal: 'SIGTERM' | 'SIGKILL', next = this.#mode): Promise<void> {
    const mode = this.#mode;
    await this.measured.endOf(mode, { isLife: true });
    const works = this.judge.paused(milliseconds());
    const { isOther } = this.agent;
    const { milliseconds: end, status } = await this.agent.end(signal);
    if (next !== mode) this.agent.configure(next);
    await pause(BEFORE_START);
    this.#mode = next;
    const start = await this.#start();
    works(milliseconds());
    this.lives.push({ signal, mode, end, start, status, isOther });
    this.options.say(`${signal}: ended after ${end.toFixed(0)} ms, started in ${start.toFixed(0)} ms; ${this.#so()}`);
  }

  async #switch(by: 'reload' | 'restart'): Promise<void> {
    const next = otherMode(this.#mode);
    await this.#verify('the agent, under load', []);
    if (by === 'restart') await this.#restart('SIGTERM', next);
    else {
      await this.measured.endOf(this.#mode, { isLife: false });
      const start = performance.now();
      this.agent.configure(next);
      await this.#reloaded(next);
      this.#mode = next;
      this.#bornAt = performance.now();
      this.reloads.push(performance.now() - start);
      this.#written();
    }
    this.options.say(`${next} mode from now on, by ${by}; ${this.#so()}`);
  }

  /** The agent has parts of this mode, and they have written all. */
  async #reloaded(mode: SoakMode): Promise<void> {
    const late = performance.now() + RELOAD_PATIENCE;
    while ((await this.parts.watch.ask({ kind: 'mode' })).mode !== mode) {
      if (performance.now() > late)
        throw new Error(`the agent did not take ${mode} mode; its log ends with: ${this.#said()}`);
      await pause(BETWEEN_QUESTIONS);
    }
    await this.agent.logged(({ msg }) => msg.startsWith('synced'), this.agent.log.length);
  }

  #said(): string {
    return this.agent.log
      .slice(-10)
      .map(({ msg }) => msg)
      .join('\n');
  }

  async #flush(turn: number): Promise<void> {
    const since = this.agent.log.length;
    const mode = this.#mode;
    const repaired = this.judge.damaged(milliseconds());
    this.#isRepaired = repaired;
    const { command, pid } = await flush(this.#lab, mode, turn);
    const end = Date.now();
    const found = await this.#repair(since);
    if (found !== undefined) {
      repaired(milliseconds() - (Date.now() - found.at));
      this.#isRepaired = undefined;
    }
    const isNamed = found !== undefined && new RegExp(`\\b${pid}\\b`).test(JSON.stringify(found.lines));
    const after = found === undefined ? undefined : Math.max(0, found.at - end);
    this.flushes.push({ mode, command, repaired: after, isNamed });
    const said = after === undefined ? 'not repaired' : `repaired after ${after} ms`;
    this.options.say(`${command}: ${said}${isNamed ? ', named' : ''}; ${this.#so()}`);
  }

  /** When the agent wrote again what another program removed, and what it said of it; undefined: it did not. */
  async #repair(since: number): Promise<{ at: number; lines: LogLine[] } | undefined> {
    try {
      const told = await this.agent.logged(({ msg }) => DRIFT.test(msg), since, REPAIR_PATIENCE);
      const at = this.agent.log.indexOf(told);
      const synced = await this.agent.logged(({ msg }) => msg.startsWith('synced'), at, REPAIR_PATIENCE);
      const lines = this.agent.log.slice(since).filter(({ msg }) => DRIFT.test(msg));
      return { at: Date.parse(String(synced.time)), lines };
    } catch {
      return undefined;
    }
  }

  async #looks(signal: AbortSignal): Promise<void> {
    let scraped = 0;
    while (!signal.aborted) {
      await pause(BETWEEN_LOOKS, undefined, { signal }).catch(() => undefined);
      const isTail = this.#isTail;
      const { restartEvery, tail } = this.options;
      const warm = isTail ? Math.min(60, tail / 4) : (restartEvery * 2) / 3;
      this.measured.look(this.#mode, { isWarm: performance.now() - this.#bornAt > warm * 1000, isTail });
      if (performance.now() - scraped < BETWEEN_SCRAPES) continue;
      scraped = performance.now();
      this.agent.keepLog();
      await this.measured.scrape({ isTail });
    }
  }

  #ownFlags(): string[] {
    const cluster = ['--kubeconfig', this.#kubeconfig, '--hostname-override', NODE, '--cluster-cidr', CLUSTER_CIDR];
    return ['--mode', this.#mode, ...cluster, '--conntrack-max-per-core', '0'];
  }

  async #verify(by: string, flags: readonly string[]): Promise<void> {
    const [file = '', ...words] = this.agent.command;
    const command = this.#lab.inside('node', file, [...words, 'verify', '-o', 'json', ...flags]);
    const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
    const found = verifiedOf(stdout);
    const why = found === undefined ? `exit status ${exitCode}: ${stderr.trim()}` : undefined;
    const isAtRest = !by.includes('under load');
    this.verify.push({ mode: this.#mode, by, isAtRest, why, ...(found ?? { compared: 0, differences: [] }) });
    const said =
      found && `${found.compared} compared, ${found.differences.length} differ ${found.differences[0] ?? ''}`;
    this.options.say(`verify by ${by}: ${said ?? why}`);
  }

  #so(): string {
    const { lost, wrong, cut, whileDamaged } = this.judge.verdict;
    const { resident = 0, descriptors = 0 } = this.agent.look() ?? {};
    const probes = `${lost.length} lost, ${wrong.length} wrong, ${cut.length} cut, ${whileDamaged.length} while damaged`;
    return `so far ${probes}; ${Math.round(resident / 2 ** 20)} MB, ${descriptors} descriptors`;
  }
}
