/** The agent's side of cold starts of one cluster: time, health, memory, rest, restart. */
import { setTimeout as pause } from 'node:timers/promises';
import { HealthWatch } from './health-watch.ts';
import { MemorySampler, processorTime, residentMemory } from './process-cost.ts';
import { StartCounter } from './process-starts.ts';
import { type Started, type Trial, timeOf } from './trial.ts';

export interface StartsResult {
  /** Milliseconds of each run, from exec to the end of the first sync. */
  readonly cold: readonly number[];
  /** From the end of the lists to DNS and the API server's Service; empty where all is one write. */
  readonly first: readonly number[];
  /** Longest wait for an answer about health, and questions without one. */
  readonly health: readonly number[];
  readonly unanswered: number;
  /** Megabytes: the agent alone at rest, of this what is not of the executable's file; with its children at the peak. */
  readonly resident: number;
  readonly anonymous: number;
  readonly peak: readonly number[];
  /** Share of a core at rest, and processes that were started then. */
  readonly idle: number | undefined;
  readonly started: number | undefined;
  readonly restart: readonly number[];
  /** What a restart said of itself. */
  readonly restartSaid: string;
}

const MEGABYTE = 2 ** 20;
/** Milliseconds after a sync until memory is looked at. */
const SETTLE = 5000;

export class AgentStarts {
  readonly #trial: Trial;
  readonly #cold: number[] = [];
  readonly #first: number[] = [];
  readonly #health: number[] = [];
  readonly #peak: number[] = [];
  readonly #restart: number[] = [];
  #unanswered = 0;
  #memory = { resident: 0, anonymous: 0 };
  #atRest: Pick<StartsResult, 'idle' | 'started'> = { idle: undefined, started: undefined };
  #restartSaid = '';

  constructor(trial: Trial) {
    this.#trial = trial;
  }

  get result(): StartsResult {
    return {
      ...{ cold: this.#cold, first: this.#first, restart: this.#restart, restartSaid: this.#restartSaid },
      ...{ health: this.#health, unanswered: this.#unanswered, peak: this.#peak },
      ...this.#memory,
      ...this.#atRest,
    };
  }

  /** Into tables that were emptied; then a restart over what is there. `rest`: seconds at rest that are watched; 0: none. */
  async once(rest = 0): Promise<void> {
    const { agent, pid } = await this.#coldStart();
    await pause(SETTLE);
    const { now, anonymous } = residentMemory(pid);
    this.#memory = { resident: now / MEGABYTE, anonymous: anonymous / MEGABYTE };
    if (rest > 0) await this.#watchRest(pid, rest);
    await agent.stop();
    const again = await this.#trial.start();
    this.#restart.push(again.milliseconds);
    this.#restartSaid = again.agent.log.find(({ msg }) => msg.startsWith('synced'))?.msg ?? '';
    await again.agent.stop();
  }

  async #coldStart(): Promise<Started> {
    const health = await HealthWatch.start(this.#trial.lab);
    let sampler: MemorySampler | undefined;
    const started = await this.#trial.start({
      meanwhile: (pid) => {
        sampler = new MemorySampler(pid, 10);
      },
    });
    this.#cold.push(started.milliseconds);
    const { longest, unanswered } = await health.end();
    this.#health.push(longest);
    this.#unanswered += unanswered;
    if (sampler !== undefined) this.#peak.push((await sampler.stop()).peak / MEGABYTE);
    const { agent } = started;
    const first = agent.log.find(({ msg }) => msg.includes("DNS and the API server's Service"));
    if (first !== undefined) {
      this.#first.push(Date.parse(String(first.time)) - timeOf(agent, 'initial lists are complete'));
    }
    return started;
  }

  async #watchRest(pid: number, seconds: number): Promise<void> {
    const counter = await StartCounter.of(pid);
    const before = processorTime(pid);
    await pause(seconds * 1000);
    const after = processorTime(pid);
    const idle = (after.user + after.system - before.user - before.system) / (seconds * 1000);
    this.#atRest = { idle, started: counter?.stop().processes };
  }
}
