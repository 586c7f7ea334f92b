/** Runs one history: the real agent in a simulated world, with actions and faults, judged after every commit and at the end. */
import { createHash } from 'node:crypto';
import { Random } from '../helpers/base/random.ts';
import { Killed } from './engine/process.ts';
import { NeverRests } from './engine/time.ts';
import { actionText, type Step, stepText } from './history/actions.ts';
import { faultsOf } from './history/faults.ts';
import type { HistoryPlan, PlannedFault } from './history/plan.ts';
import type { SimKernel } from './kernel/kernel.ts';
import { Violation } from './violation.ts';
import './world/preloaded.ts';
import { SimWorld } from './world/world.ts';

/** What was found wrong. */
export interface Failure {
  /** The same for the same kind of fault: a shorter history must fail in the same way. */
  readonly kind: string;
  readonly text: string;
  /** Milliseconds since the history began. */
  readonly at: number;
  /** The last step before it. */
  readonly step: Step | undefined;
  /** The last lines of the agents' logs. */
  readonly log: readonly string[];
}

export interface Outcome {
  readonly failure: Failure | undefined;
  /** The faults that happened. */
  readonly faults: readonly PlannedFault[];
  readonly calls: number;
  readonly commits: number;
  /** How often an agent was started. */
  readonly starts: number;
  /** Simulated milliseconds. */
  readonly duration: number;
  /** Of all calls and commits in their order: equal for equal histories. */
  readonly digest: string;
}

/** Lines of the log that a failure shows. */
const LINES = 25;
/** Milliseconds in which everything must be as desired when faults have ended. */
const RECOVERY = 180_000;
/** Milliseconds that an agent may take to stop. */
const STOPPING = 15_000;

export interface RunOptions {
  /** Prints what happens. */
  readonly trace?: ((line: string) => void) | undefined;
  /** Called with the world's kernel before the history begins. */
  readonly onKernel?: ((kernel: SimKernel) => void) | undefined;
}

/** Only one history runs in a process at a time: it replaces the clocks of the process. */
export async function runHistory(plan: HistoryPlan, { trace, onKernel }: RunOptions = {}): Promise<Outcome> {
  const run = new HistoryRun(plan, trace);
  onKernel?.(run.kernel);
  return await run.outcome();
}

class HistoryRun {
  readonly #plan: HistoryPlan;
  readonly #world: SimWorld;
  readonly #faults: PlannedFault[] = [];
  readonly #digest = createHash('sha256');
  readonly #log: string[] = [];
  #step: Step | undefined;
  #commits = 0;
  #thrown: unknown;

  constructor(plan: HistoryPlan, trace: RunOptions['trace']) {
    this.#plan = plan;
    const random = new Random(plan.seed ^ 0x5eed);
    this.#world = new SimWorld({
      plan,
      random,
      onLine: (line) => {
        this.#log.push(line);
        if (this.#log.length > 4 * LINES) this.#log.splice(0, LINES);
        trace?.(`          ${line}`);
      },
      onCommit: (what) => {
        this.#commits += 1;
        trace?.(`          commit ${what}`);
        this.#digest.update(`commit ${what}\n`);
      },
    });
    const { calls } = this.#world;
    calls.onCall = ({ number, at, process, what, fault }) => {
      const line = `${number} ${at} ${process} ${what} ${fault === undefined ? '' : JSON.stringify(fault)}`;
      this.#digest.update(`${line}\n`);
      trace?.(line);
    };
    calls.faultAt = faultsOf(plan, (fault) => this.#faults.push(fault));
  }

  get kernel(): SimKernel {
    return this.#world.kernel;
  }

  async outcome(): Promise<Outcome> {
    const world = this.#world;
    const restore = world.time.install();
    const onRejection = (error: unknown) => {
      if (!(error instanceof Killed)) this.#thrown ??= error;
    };
    process.on('unhandledRejection', onRejection);
    let failure: Failure | undefined;
    try {
      await this.#run();
    } catch (error) {
      failure = this.#failureOf(error);
    } finally {
      process.off('unhandledRejection', onRejection);
      world.end();
      restore();
    }
    const { calls, time, agents } = world;
    return {
      failure,
      faults: this.#faults,
      calls: calls.count,
      commits: this.#commits,
      starts: agents.starts,
      duration: time.now,
      digest: this.#digest.digest('hex'),
    };
  }

  async #run(): Promise<void> {
    const world = this.#world;
    const [first, later] = [this.#plan.steps.filter(({ at }) => at === 0), this.#plan.steps.filter(({ at }) => at > 0)];
    for (const step of first) world.perform(step.action);
    world.begin();
    for (const step of later) {
      await this.#until(step.at);
      this.#step = step;
      this.#digest.update(`${stepText(step)}\n`);
      world.perform(step.action);
    }
    await this.#until(world.time.now + this.#plan.settings.syncPeriod);
    world.calls.faultAt = () => undefined;
    world.heal();
    await this.#until(world.time.now + RECOVERY);
    await world.mustBeRight();
    world.stop();
    await this.#until(world.time.now + STOPPING);
    world.mustBeStopped();
  }

  async #until(at: number): Promise<void> {
    await this.#world.time.runUntil(at, () => {
      if (this.#thrown !== undefined) throw this.#thrown;
      this.#world.mustHold();
    });
  }

  #failureOf(error: unknown): Failure {
    const kind =
      error instanceof Violation
        ? error.kind
        : error instanceof NeverRests
          ? 'never rests'
          : `thrown: ${nameOf(error)}`;
    const text =
      error instanceof Error
        ? error instanceof Violation
          ? error.message
          : (error.stack ?? error.message)
        : String(error);
    return { kind, text, at: this.#world.time.now, step: this.#step, log: this.#log.slice(-LINES) };
  }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? `${error.name} ${error.message}`.slice(0, 80) : String(error);
}

/** For people: what failed, where, and after what. */
export function failureText(plan: HistoryPlan, { kind, text, at, step, log }: Failure): string {
  return [
    `${kind}: ${text}`,
    `at ${(at / 1000).toFixed(3)} s${step === undefined ? '' : `, after: ${actionText(step.action)}`}`,
    `seed ${plan.seed}: ${plan.settings.mode} mode, objects from ${plan.source}, iptables ${plan.variant}`,
    'steps:',
    ...plan.steps.map((one) => `  ${stepText(one)}`),
    `faults at calls: ${(plan.faults ?? []).map(({ call }) => call).join(', ') || 'none'}`,
    'the end of the log:',
    ...log.map((line) => `  ${lineText(line)}`),
  ].join('\n');
}

/** Of a line of the log, what people read. */
function lineText(line: string): string {
  const [, head = '', json = ''] = /^([^{]*)(\{.*\})$/s.exec(line) ?? [];
  if (json === '') return line;
  const { level, msg } = JSON.parse(json) as { readonly level: string; readonly msg: string };
  return `${head}${level} ${msg}`;
}
