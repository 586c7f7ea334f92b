/**
 * Checks the kernel between syncs: whether the rules are still in place, and the settings still those of the Node and this machine. At
 * once after the kernel's notice of a write of another program; where it gives none, and to be sure, every syncPeriod.
 */

import { causeOf } from '../base/cause.ts';
import { Wait } from '../base/clock.ts';
import type { Mutex } from '../base/mutex.ts';
import type { Config } from '../config/config.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import type { Heard, Mode } from '../proxy/modes/mode.ts';
import type { Health } from '../serve/health.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import type { Agent } from './agent.ts';
import { changedFactText } from './changed-facts.ts';
import type { ReadBudget } from './read-budget.ts';
import { RepairBackoff } from './repair-backoff.ts';

/** Milliseconds that reading the rules may take. */
const READING_TIMEOUT_MS = 30_000;
/** The largest share of the time for looking at what notices say: other programs may write all the time. */
const LOOKING_SHARE = 0.1;

const NOTHING: Heard = { kind: 'nothing' };

/** What a check after a notice found that other programs had touched. */
export type Noticed = 'ours' | 'nothing of ours' | 'unknown';

export interface KernelWatchOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: Health;
  /** Held by a sync while it runs, and by a check. */
  readonly mutex: Mutex;
  readonly readBudget: ReadBudget;
  /** Sync again: objects of ours may be gone or changed; `by`: the program that did it, where it is known. */
  readonly onLoss: (by: Committer | undefined) => void;
  /** Sync again: removals were waiting. */
  readonly onWaiting: () => void;
  /** The settings are no longer those that the Node and this machine ask for. */
  readonly onOutdated: () => void;
  /** A check after a notice is done. */
  readonly onNoticed?: (what: Noticed) => void;
}

export class KernelWatch {
  readonly #agent: Agent;
  readonly #options: KernelWatchOptions;
  readonly #wait: Wait;
  readonly #backoff: RepairBackoff;
  /** Told once, not at each check. */
  readonly #outdated: TroubleLog;
  readonly #unchecked: TroubleLog;
  readonly #unread: TroubleLog;
  #hasBegun = false;
  #isNoticed = false;
  /** The time from which the next notice may be looked at. */
  #mayLook = 0;

  constructor(agent: Agent, options: KernelWatchOptions) {
    this.#agent = agent;
    this.#options = options;
    const { log } = options;
    const { clock } = agent;
    this.#outdated = new TroubleLog({ log, clock, level: 'info' });
    this.#unchecked = new TroubleLog({ log, clock, level: 'warn' });
    this.#unread = new TroubleLog({ log, clock, level: 'warn' });
    this.#wait = new Wait(agent.clock);
    this.#backoff = new RepairBackoff(options.config.syncPeriod);
  }

  /** The first rules are written: from now on the kernel tells who writes. Before, it would tell of our own writes at length. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#agent.onNode.notices?.listen();
    this.#notice();
  }

  /**
   * A sync found and repaired what another program had changed. Returns whether people should be told: not about each repair of a fight.
   */
  repaired(by: Committer | undefined): boolean {
    const { log, health, config } = this.#options;
    const now = this.#agent.clock.now();
    const who = by && committerText(by);
    if (!this.#backoff.repaired(now, who)) return this.#backoff.at(now) === undefined;
    const name = who === undefined ? 'another program' : `another program (${who})`;
    const text = `${name} changes rules of ours again and again`;
    health.fights(text);
    const longest = `${config.syncPeriod / 1000} s`;
    log.warn({ by: who }, `${text}; slicewire repairs them after longer and longer waits, of ${longest} at most`);
    return true;
  }

  /** A sync spent these milliseconds reading: the next notice is looked at when this is a bounded share of the time. */
  spent(milliseconds: number): void {
    this.#mayLook = Math.max(this.#mayLook, this.#agent.clock.now() + milliseconds / LOOKING_SHARE);
  }

  /** Check until the signal aborts. When another program flushed the rules, sync at once (k8s#129128). Never rejects. */
  async run(): Promise<void> {
    const { health, signal, config } = this.#options;
    const { clock, onNode } = this.#agent;
    const stop = onNode.notices?.onCommit(() => this.#notice());
    let next = clock.now() + config.syncPeriod;
    while (!signal.aborted) {
      health.checked();
      const look = this.#isNoticed ? Math.max(this.#mayLook, this.#backoff.due) : Number.POSITIVE_INFINITY;
      const time = Math.min(next, look) - clock.now();
      if (time > 0) {
        await this.#wait.start({ time, isWakeable: !this.#isNoticed, signal });
        continue;
      }
      if (next <= look) {
        await this.#survive(() => this.#check());
        next = clock.now() + config.syncPeriod;
      } else await this.#survive(() => this.#look());
    }
    stop?.();
  }

  #notice(): void {
    this.#isNoticed = true;
    this.#wait.wake();
  }

  async #survive(check: () => Promise<void>): Promise<void> {
    const { signal, health } = this.#options;
    try {
      await check();
      this.#unchecked.over({ text: 'it can be checked again whether the rules are still in place' });
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      health.notVerified(cause);
      const text = `cannot check whether the rules are still in place: ${cause}`;
      this.#unchecked.tell({ cause, facts: { cause }, text });
    }
  }

  /** After a notice: find out what it was about, for a bounded share of the time. */
  async #look(): Promise<void> {
    const { mutex, readBudget, onNoticed } = this.#options;
    const { mode, clock } = this.#agent;
    this.#isNoticed = false;
    const began = clock.now();
    const { kind, by } = await mutex(async () => (mode.isObserved ? await mode.probe.heard() : NOTHING));
    // Our own commands write too.
    if (kind !== 'nothing') onNoticed?.(kind === 'something' ? 'ours' : 'unknown');
    else if (by !== undefined) onNoticed?.('nothing of ours');
    if (kind === 'something') this.#lose(by);
    else if (kind === 'unknown' && readBudget.mayRead) await this.#checkRules(by);
    else if (kind === 'unknown') {
      this.#isNoticed = true;
      this.#mayLook = readBudget.mayReadAt;
      return;
    }
    this.spent(clock.now() - began);
  }

  /** Every syncPeriod. */
  async #check(): Promise<void> {
    const { health, onWaiting, onOutdated } = this.#options;
    const { mode, onNode, clock } = this.#agent;
    if (this.#backoff.at(clock.now()) === undefined) health.fights(undefined);
    if (mode.isWaiting) onWaiting();
    const changes = await onNode.changes(this.#options.signal);
    if (changes.length === 0) this.#outdated.over();
    else {
      const cause = changes.map(changedFactText).join('; ');
      // Where it cannot adapt, each check finds the same.
      const text = `the Node, the cluster or this machine changed, and the agent adapts to it: ${cause}`;
      this.#outdated.tell({ cause, facts: { changes }, text });
      onOutdated();
    }
    await this.#checkRules(undefined);
  }

  /** Probe the rules, read them if only that finds out, and sync where they are not as written. */
  async #checkRules(by: Committer | undefined): Promise<void> {
    const { log, signal, health, mutex, readBudget } = this.#options;
    const { mode } = this.#agent;
    // Before the first complete sync there is nothing to check; health reports what is pending then.
    const found = await mutex(() => probe(mode, signal));
    if (found === 'in place' || found === 'unclear') health.verified();
    const other = by ?? (found === 'gone' || found === 'unclear' ? await lastOther(mode) : undefined);
    if (found === 'gone') {
      const who = other === undefined ? 'another program' : `another program (${committerText(other)})`;
      if (this.#backoff.at(this.#agent.clock.now()) === undefined) {
        log.warn(`${who} removed rules of ours; writing them again`);
      }
      this.#lose(other);
    } else if (
      found === 'unclear' &&
      readBudget.mayRead &&
      (await mayHaveChanged(this.#agent, this.#options, this.#unread))
    ) {
      this.#lose(other);
    }
  }

  #lose(by: Committer | undefined): void {
    this.#agent.loop.distrust();
    this.#options.readBudget.begun();
    this.#options.onLoss(by);
  }
}

/** The program that wrote last, where that was not this one. */
async function lastOther({ inspection }: Mode): Promise<Committer | undefined> {
  const last = await inspection.lastWriter();
  return last?.isUs === false ? last : undefined;
}

type RulesFound = 'nothing yet' | 'in place' | 'gone' | 'unclear';

async function probe(mode: Mode, signal: AbortSignal): Promise<RulesFound> {
  if (!mode.isObserved) return 'nothing yet';
  if (!(await mode.probe.isInstalled(signal))) return 'gone';
  return (await mode.probe.mayDiffer()) ? 'unclear' : 'in place';
}

/**
 * Read whether the rules of another program changed ours, or may have. Syncs go on meanwhile: iptables-save starts over whenever the
 * ruleset changes, and beside a program that writes all the time it does not end where there are many rules.
 */
async function mayHaveChanged(
  { mode, clock }: Agent,
  { log, signal, mutex, readBudget }: KernelWatchOptions,
  unread: TroubleLog,
): Promise<boolean> {
  const late = new AbortController();
  const cancel = clock.after(READING_TIMEOUT_MS, () => late.abort());
  const began = clock.now();
  try {
    const { reading } = await mutex(() => {
      const reading = mode.probe.differs(AbortSignal.any([signal, late.signal]));
      // It starts while no sync writes, and is awaited below, without the mutex.
      reading.catch(() => undefined);
      return Promise.resolve({ reading });
    });
    const isOther = await reading;
    unread.over({ text: 'all rules can be checked again' });
    const milliseconds = Math.round(clock.now() - began);
    const found = isOther === undefined ? 'changed meanwhile' : isOther ? 'differ now' : 'are unchanged';
    log.debug({ milliseconds }, `another program wrote rules; ours ${found}`);
    // Where syncs write all the time, only a sync that reads the kernel itself finds out.
    return isOther !== false;
  } catch (error) {
    if (!late.signal.aborted) throw error;
    const text = `other programs write rules all the time, and reading them did not end within ${READING_TIMEOUT_MS / 1000} s`;
    unread.tell({ cause: text, text: `cannot check all rules: ${text}` });
    return false;
  } finally {
    cancel();
    readBudget.checkTook(clock.now() - began);
  }
}
