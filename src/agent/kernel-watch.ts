/**
 * Checks the kernel between syncs: whether the rules are still in place, and the settings still those of the Node and this machine. At
 * once after the kernel's notice of a write of another program; where it gives none, and to be sure, every syncPeriod.
 */
import { causeOf } from '../base/cause.ts';
import type { Clock } from '../base/clock.ts';
import type { Mutex } from '../base/mutex.ts';
import type { Config } from '../config/config.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Heard, Mode } from '../proxy/modes/mode.ts';
import { Wait } from '../proxy/sync/wait.ts';
import type { Health } from '../serve/health.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import type { Agent } from './agent.ts';
import { changedFactText } from './mode-settings.ts';

/** Milliseconds that reading the rules may take. */
const READING_TIMEOUT_MS = 30_000;
/** The largest share of the time for looking at what notices say: other programs may write all the time. */
const LOOKING_SHARE = 0.1;

const NOTHING: Heard = { kind: 'nothing' };

/** What a check after a notice found that other programs had touched. */
type Noticed = 'ours' | 'nothing of ours' | 'unknown';

interface KernelWatchOptions {
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
  if (!(await mode.probe.stands(signal))) return 'gone';
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

// Another program that changes our objects again and again: repairs wait longer and longer, and people are told once. Pure.

/** Milliseconds without a repair after which a fight is over, at least. */
const QUIET = 10_000;
/** Repairs that are made at once. */
const AT_ONCE = 10;
/** Milliseconds before the first repair that waits; each further one waits twice as long. */
const FIRST_WAIT = 100;

interface RepairBackoffState {
  /** The other program, in words; undefined: not known. */
  readonly by: string | undefined;
  /** Repairs so far. */
  readonly repairs: number;
  /** When the first of them was made. */
  readonly since: number;
}

export class RepairBackoff {
  /** Milliseconds: no repair waits longer. */
  readonly #longest: number;
  #state: RepairBackoffState | undefined;
  #last = 0;

  constructor(longest: number) {
    this.#longest = longest;
  }

  /** Milliseconds that the next repair waits after the last one. */
  get #wait(): number {
    const more = (this.#state?.repairs ?? 0) - AT_ONCE;
    return more <= 0 ? 0 : Math.min(this.#longest, FIRST_WAIT * 2 ** Math.min(more - 1, 30));
  }

  /** The time from which the next repair may be made. */
  get due(): number {
    return this.#last + this.#wait;
  }

  /** A sync repaired what another program changed. Returns whether that was the begin of a fight. */
  repaired(now: number, by: string | undefined): boolean {
    const before = this.#state !== undefined && !this.#isOver(now) ? this.#state : undefined;
    this.#last = now;
    this.#state = { by: by ?? before?.by, repairs: (before?.repairs ?? 0) + 1, since: before?.since ?? now };
    return this.#state.repairs === AT_ONCE + 1;
  }

  /** The fight that goes on now; undefined: none. */
  at(now: number): RepairBackoffState | undefined {
    const state = this.#state;
    return state === undefined || state.repairs <= AT_ONCE || this.#isOver(now) ? undefined : state;
  }

  #isOver(now: number): boolean {
    return now - this.#last > Math.max(QUIET, 2 * this.#wait);
  }
}

// Decides when all rules are read from the kernel: for a periodic resync, and after another program wrote. Limited to a share of the time.

/** Milliseconds between two resyncs, which compare all rules with the kernel's. */
const RESYNC_MS = 60 * 60 * 1000;
/** Largest share of the time that goes into reading: a program that writes all the time would make the agent read all the time. */
const SHARE = 0.01;

/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does. */
export function firstPeriod({ mode, syncPeriod }: Pick<Config, 'mode' | 'syncPeriod'>): number {
  return MODES[mode].hasCanary ? RESYNC_MS : syncPeriod;
}

export class ReadBudget {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #period: number;
  #begunAt: number;
  /** Milliseconds that a reading of a sync takes: the shorter of the last two, because one may wait for a lock or a busy machine. */
  #took = 0;
  /** Milliseconds of the last reading of any kind. */
  #last = Number.POSITIVE_INFINITY;
  /** When the last check that read the rules ended, and how long one takes, as above. */
  #check = { endedAt: 0, took: 0 };

  constructor(clock: Pick<Clock, 'now'>, config: Pick<Config, 'mode' | 'syncPeriod'>) {
    this.#clock = clock;
    this.#period = firstPeriod(config);
    this.#begunAt = clock.now();
  }

  /** A resync is due. */
  get isDue(): boolean {
    return this.#clock.now() - this.#begunAt >= Math.max(this.#period, this.#took / SHARE);
  }

  /** A check may read the rules now, because another program wrote. */
  get mayRead(): boolean {
    return this.#clock.now() >= this.mayReadAt;
  }

  /** The time from which a check may read the rules. */
  get mayReadAt(): number {
    return this.#check.endedAt + this.#check.took / SHARE;
  }

  /** The next sync reads the kernel. */
  begun(): void {
    this.#begunAt = this.#clock.now();
  }

  /** A sync spent these milliseconds reading. */
  took(milliseconds: number): void {
    this.#took = this.#usual(milliseconds);
  }

  /** A check spent these milliseconds reading. */
  checkTook(milliseconds: number): void {
    this.#check = { endedAt: this.#clock.now(), took: this.#usual(milliseconds) };
  }

  #usual(milliseconds: number): number {
    const usual = Math.min(this.#last, milliseconds);
    this.#last = milliseconds;
    return usual;
  }
}
