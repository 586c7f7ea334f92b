/** Cold start, memory, rest and restart of one cluster, beside the bare restore of the same rules. */
import { setTimeout as pause } from 'node:timers/promises';
import type { IptablesVariant } from '../../src/host/iptables-tools.ts';
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { type ClusterShape, clusterIP, endpointsOf, serviceKey, TARGET_PORT } from './cluster.ts';
import { HealthWatch } from './health-watch.ts';
import { MemorySampler, processorTime, residentMemory } from './process-cost.ts';
import { StartCounter } from './process-starts.ts';
import { type Started, Trial, timeOf } from './trial.ts';

export interface ColdOptions {
  readonly shape: ClusterShape;
  readonly backend: IptablesVariant;
  readonly runs: number;
  /** Whether kube-proxy's layout is restored as well: it is worse than quadratic. */
  readonly hasRival: boolean;
  /** Seconds at rest that are watched; 0: none. */
  readonly rest: number;
}

export interface ColdResult extends Omit<ColdOptions, 'runs' | 'hasRival'> {
  readonly rules: number;
  readonly chains: number;
  /** Milliseconds of each run. */
  readonly cold: readonly number[];
  readonly floor: readonly number[];
  readonly rival: readonly number[];
  /** From the end of the lists to DNS and the API server's Service; undefined where all is one write. */
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

export async function measureCold(options: ColdOptions): Promise<ColdResult> {
  return await Trial.of(options, (trial) => new ColdTrial(trial, options).run());
}

class ColdTrial {
  readonly #trial: Trial;
  readonly #options: ColdOptions;
  readonly #cold: number[] = [];
  readonly #floor: number[] = [];
  readonly #rival: number[] = [];
  readonly #first: number[] = [];
  readonly #health: number[] = [];
  readonly #peak: number[] = [];
  readonly #restart: number[] = [];
  #unanswered = 0;

  constructor(trial: Trial, options: ColdOptions) {
    this.#trial = trial;
    this.#options = options;
  }

  async run(): Promise<ColdResult> {
    const { runs, hasRival, shape, backend, rest } = this.#options;
    let saved = '';
    let memory = { resident: 0, anonymous: 0 };
    let atRest: { idle: number | undefined; started: number | undefined } = { idle: undefined, started: undefined };
    let restartSaid = '';
    for (let i = 1; i <= runs; i++) {
      const { agent, pid } = await this.#coldStart();
      await pause(SETTLE);
      memory = memoryOf(pid);
      if (i === runs && rest > 0) atRest = await this.#atRest(pid, rest);
      await agent.stop();
      const again = await this.#trial.start();
      this.#restart.push(again.milliseconds);
      restartSaid = again.agent.log.find(({ msg }) => msg.startsWith('synced'))?.msg ?? '';
      await again.agent.stop();
      saved = await this.#trial.saved();
      this.#floor.push(await this.#trial.restore(saved));
      if (hasRival) this.#rival.push(await this.#trial.restore(rivalRules(shape)));
    }
    const lines = saved.split('\n');
    return {
      ...{ shape, backend, rest, restartSaid },
      rules: lines.filter((line) => line.startsWith('-A')).length,
      chains: lines.filter((line) => line.startsWith(':KUBE')).length,
      ...{ cold: this.#cold, floor: this.#floor, rival: this.#rival, first: this.#first, restart: this.#restart },
      ...{ health: this.#health, unanswered: this.#unanswered, peak: this.#peak },
      ...memory,
      ...atRest,
    };
  }

  async #coldStart(): Promise<Started> {
    await this.#trial.empty('node');
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
    this.#first.push(timeOf(agent, 'what others need first') - timeOf(agent, 'initial lists are complete'));
    return started;
  }

  async #atRest(pid: number, seconds: number): Promise<{ idle: number; started: number | undefined }> {
    const counter = await StartCounter.of(pid);
    const before = processorTime(pid);
    await pause(seconds * 1000);
    const after = processorTime(pid);
    const idle = (after.user + after.system - before.user - before.system) / (seconds * 1000);
    return { idle, started: counter?.stop().processes };
  }
}

function memoryOf(pid: number): { resident: number; anonymous: number } {
  const { now, anonymous } = residentMemory(pid);
  return { resident: now / MEGABYTE, anonymous: anonymous / MEGABYTE };
}

/** The same Services in kube-proxy's layout. */
function rivalRules(shape: ClusterShape): string {
  const services = Array.from({ length: shape.services }, (_, n) => ({
    id: `${serviceKey(shape, n)}:http`,
    clusterIP: clusterIP(n),
    port: 80,
    endpoints: endpointsOf(shape, n).map(({ addresses }) => `${addresses[0]}:${TARGET_PORT}`),
  }));
  return kubeProxyRules(services);
}
