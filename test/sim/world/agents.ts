/** The processes of a simulated node: the agent, which a supervisor starts again, commands of operators, and the replicas of the controller. */

import { removeAll } from '../../../src/agent/predecessors.ts';
import { causeOf } from '../../../src/base/cause.ts';
import type { Config } from '../../../src/config/config.ts';
import { type Calls, SimProcess } from '../engine/process.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import type { Action } from '../history/actions.ts';
import { NODE } from '../history/objects.ts';
import type { HistoryPlan } from '../history/plan.ts';
import { Violation } from '../violation.ts';
import { type AgentRun, startAgent } from './agent-run.ts';
import { flagsOf } from './config-text.ts';
import { startController } from './controller-run.ts';
import { simPlatform, type World } from './platform.ts';

export interface AgentsOptions {
  readonly plan: HistoryPlan;
  /** The name of the node. */
  readonly node: string;
  readonly time: SimTime;
  readonly calls: Calls;
  readonly world: World;
  readonly config: () => Config;
  readonly onLine: (line: string) => void;
  readonly onViolation: (violation: Violation) => void;
}

/** Milliseconds until the supervisor starts an agent again (RestartSec of systemd/slicewire.service). */
const RESTART = 1000;
/** Milliseconds until an operator notices that there are two agents. */
const NOTICING = 5000;
const REPLICAS = 2;

export class Agents {
  readonly #options: AgentsOptions;
  #agent: AgentRun | undefined;
  #others: AgentRun[] = [];
  /** Commands and agents beside the agent, which write to the kernel as well. */
  readonly #writers = new Set<SimProcess>();
  #isOver = false;
  #isCleaning = false;
  #starts = 0;

  constructor(options: AgentsOptions) {
    this.#options = options;
  }

  /** How often the agent was started. */
  get starts(): number {
    return this.#starts;
  }

  /** Rules go because the operator wants it. */
  get isCleaning(): boolean {
    return this.#isCleaning;
  }

  /** Nobody beside the agent writes. */
  get isAlone(): boolean {
    return this.#writers.size === 0;
  }

  get isRunning(): boolean {
    const agent = this.#agent;
    return agent !== undefined && !agent.process.isDead && agent.end() === undefined;
  }

  begin(): void {
    this.#startAgent();
    if (this.#options.plan.source !== 'controller') return;
    for (let replica = 1; replica <= REPLICAS; replica++) this.#startController(replica);
  }

  hangUp(): void {
    this.#agent?.hangUp();
  }

  disturb(what: Extract<Action, { kind: 'agent' }>['what']): void {
    if (what === 'hang-up') this.hangUp();
    else if (what === 'kill') this.#agent?.process.kill();
    else if (what === 'restart') this.#agent?.stop();
    else if (what === 'once') this.#startOther(true);
    else if (what === 'second') this.#startOther(false);
    else this.#cleanUp();
  }

  /** An agent runs, if none did. */
  revive(): void {
    if (this.#agent === undefined || this.#agent.process.isDead) this.#startAgent();
  }

  stop(): void {
    this.#isOver = true;
    this.#agent?.stop();
    for (const other of this.#others) other.stop();
  }

  /** Every process ended in order, and left nothing open. */
  mustBeStopped(): void {
    for (const run of [this.#agent, ...this.#others]) {
      if (run === undefined || run.process.isDead) continue;
      const { name } = run.process;
      if (run.end() === undefined) this.#violated('does not stop', `${name} did not end after SIGTERM`);
      else this.#mustHaveClosed(run.process);
    }
  }

  /** Nothing of them goes on. */
  end(): void {
    this.#isOver = true;
    this.#agent?.process.kill();
    for (const { process } of this.#others) process.kill();
  }

  #violated(kind: string, text: string): void {
    this.#options.onViolation(new Violation(kind, text));
  }

  /** Nothing happens where one runs: it was revived meanwhile. */
  #startAgent(): void {
    if (this.#isOver || this.isRunning) return;
    this.#starts += 1;
    const process = this.#process(`agent ${this.#starts}`);
    process.onDeath(() => {
      if (this.#agent?.process === process) this.#later(RESTART, () => this.#startAgent());
    });
    this.#agent = startAgent({
      ...this.#input(process),
      onEnd: (error) => {
        if (error !== undefined) this.#say(process, `ended: ${String(error)}`);
        if (!this.#isOver) this.#later(1, () => this.#ended(process, error));
      },
    });
  }

  #ended(process: SimProcess, error: unknown): void {
    if (error === undefined) this.#mustHaveClosed(process);
    process.kill();
  }

  #mustHaveClosed(process: SimProcess): void {
    const { name, open, answering } = process;
    // An answer that is not given yet ends with the process, and so does its reading.
    if (answering > 0) return;
    if (open.length > 0) this.#violated('leaks', `${name} ended and left open: ${open.join(', ')}`);
    const timers = this.#options.time.timersOf(process);
    if (timers > 0) this.#violated('leaks', `${name} ended and left ${timers} timers`);
  }

  #startOther(isOnce: boolean): void {
    const process = this.#process(isOnce ? 'once' : 'second');
    this.#writers.add(process);
    process.onDeath(() => this.#writers.delete(process));
    const onEnd = (error: unknown) => {
      if (error !== undefined) this.#say(process, `ended: ${causeOf(error)}`);
      process.kill();
    };
    const run = startAgent({ ...this.#input(process), isOnce, onEnd });
    this.#others.push(run);
    if (!isOnce) this.#later(NOTICING, () => run.stop());
  }

  #startController(replica: number): void {
    if (this.#isOver) return;
    const process = this.#process(`controller ${replica}`);
    process.onDeath(() => this.#later(RESTART, () => this.#startController(replica)));
    const onEnd = () => {
      if (!this.#isOver) process.kill();
    };
    const run = startController({ ...this.#input(process), onEnd }, replica);
    this.#others = [...this.#others.filter((other) => !other.process.isDead), run];
  }

  /** The operator stops the agent, removes all rules, and starts it again. */
  #cleanUp(): void {
    const former = this.#agent;
    if (former === undefined || former.process.isDead) return;
    former.process.onDeath(() => {
      const process = this.#process('cleanup');
      const { platform } = this.#input(process);
      this.#isCleaning = true;
      process.onDeath(() => {
        this.#isCleaning = false;
        this.#later(RESTART, () => this.#startAgent());
      });
      const done = () => process.kill();
      const never = new AbortController().signal;
      void process.run(() => removeAll(this.#options.config(), never, platform)).then(done, done);
    });
    former.stop();
  }

  #later(milliseconds: number, call: () => void): void {
    this.#options.time.after(milliseconds, call, NOBODY);
  }

  #process(name: string): SimProcess {
    const { world, calls, node } = this.#options;
    return new SimProcess(node === NODE ? name : `${node}: ${name}`, world.kernel.nextPid(), calls);
  }

  #input(process: SimProcess) {
    const { plan, world, node } = this.#options;
    return {
      process,
      platform: simPlatform(process, world),
      flags: flagsOf(plan, node),
      onLine: (line: string) => this.#say(process, line),
    };
  }

  #say({ name }: SimProcess, line: string): void {
    const { time, onLine } = this.#options;
    onLine(`${(time.now / 1000).toFixed(3)} ${name}: ${line}`);
  }
}
