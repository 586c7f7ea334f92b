/**
 * Checks the kernel between syncs: the rules must still be in place, and the settings must still fit the Node and this machine. A check runs
 * at once after the kernel's notice that another program wrote, and every syncPeriod, because not every kernel sends notices. Two limits belong
 * to it: the share of the time that goes into reading, and the pace of repairs where another program changes the rules again and again.
 */
import { Allowance } from '../base/allowance.ts';
import { causeOf } from '../base/cause.ts';
import { type Clock, doubledWait, Wait } from '../base/clock.ts';
import type { Mutex } from '../base/mutex.ts';
import type { Config } from '../config/config.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Heard, Mode } from '../proxy/modes/mode.ts';
import type { Health } from '../serve/health.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import type { Agent } from './agent.ts';
import { type ChangedFact, changedFactText } from './mode-settings.ts';

const READING_TIMEOUT_MS = 30_000;
/** Limit of the time spent on checks after notices, as a share: other programs may write all the time. `burst`: milliseconds. */
const NOTICE_CHECKS = { share: 0.1, burst: 1000 };

const NOTHING: Heard = { kind: 'nothing' };

/** The objects that other programs had touched. */
type Noticed = 'ours' | 'nothing of ours' | 'unknown';

interface KernelWatchOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: Health;
  /** Held by a sync while it runs, and by a check. */
  readonly mutex: Mutex;
  readonly readBudget: ReadBudget;
  /** How often other processes asked for the agent of this node: one of them may have written rules (`mustHaveModeOfAgent`). */
  readonly timesAsked: () => number;
  /** Requests a sync, because objects of ours may be gone or changed. `by` is the program that did it, where it is known. */
  readonly onLoss: (by: Committer | undefined) => void;
  /** Requests a sync, because removals are waiting. */
  readonly onWaiting: () => void;
  /** Called when the Node or this machine needs other settings. */
  readonly onOutdated: () => void;
  /** Called when it is found out what notices were about: by a check after them, or by a sync that began before. */
  readonly onNoticed?: (touched: Noticed) => void;
}

export class KernelWatch {
  readonly #agent: Agent;
  readonly #options: KernelWatchOptions;
  readonly #wait: Wait;
  readonly #backoff: RepairBackoff;
  readonly #outdated: TroubleLog;
  readonly #unchecked: TroubleLog;
  readonly #unknownFacts: TroubleLog;
  readonly #unread: TroubleLog;
  readonly #noticeChecks: Allowance;
  #hasBegun = false;
  #isNoticed = false;
  /** Time until which a check after a notice would learn nothing more. */
  #lookAgainAt = 0;
  /** Milliseconds that checks have waited for syncs. */
  #waited = 0;
  /** `timesAsked` as it was before the last reading of all rules. */
  #timesAsked: number;
  /** The look at the facts that goes on beside the checks. */
  #looking: Promise<void> | undefined;
  /** The reading of all rules that goes on beside the checks. */
  #reading: Promise<void> | undefined;

  constructor(agent: Agent, options: KernelWatchOptions) {
    this.#agent = agent;
    this.#options = options;
    const { log } = options;
    const { clock } = agent;
    this.#timesAsked = options.timesAsked();
    this.#outdated = new TroubleLog({ log, clock, level: 'info' });
    this.#unchecked = new TroubleLog({ log, clock, level: 'warn' });
    this.#unknownFacts = new TroubleLog({ log, clock, level: 'warn' });
    this.#unread = new TroubleLog({ log, clock, level: 'warn' });
    this.#wait = new Wait(clock);
    this.#noticeChecks = new Allowance(clock, NOTICE_CHECKS);
    this.#backoff = new RepairBackoff(options.config.syncPeriod);
  }

  /** Listen for the kernel's notices, once the first rules are written. Earlier it would only report our own many writes. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#agent.onNode.notices?.listen();
    this.#notice();
  }

  /**
   * A sync repaired changes of another program. Returns whether this repair is worth a log line: not each one is while that program goes on.
   */
  repaired(by: Committer | undefined): boolean {
    const { log, health, config } = this.#options;
    const now = this.#agent.clock.now();
    const program = by && committerText(by);
    if (!this.#backoff.repaired(now, program)) return this.#backoff.at(now) === undefined;
    const name = program === undefined ? 'another program' : `another program (${program})`;
    const text = `${name} changes rules of ours again and again`;
    health.fights(text);
    const longest = `${config.syncPeriod / 1000} s`;
    log.warn({ by: program }, `${text}; slicewire repairs them after longer and longer waits, of ${longest} at most`);
    return true;
  }

  /**
   * A sync begins, and holds the mutex. It also repairs what a notice tells of that no check has looked at yet: otherwise it would lead packets
   * to a chain that another program has flushed. Resolves with what it repairs, and with undefined where nothing of ours was touched, where that
   * is unknown, or where repairs and checks have to wait. Never rejects: the check that follows tells of a failure.
   */
  async syncBegins(): Promise<Heard | undefined> {
    const { mode, loop, clock } = this.#agent;
    const began = clock.now();
    const waits = Math.max(this.#noticeChecks.next, this.#backoff.due) > began;
    if (!this.#isNoticed || waits || !mode.isObservedInPart) return undefined;
    // A notice that comes meanwhile is another one.
    this.#isNoticed = false;
    try {
      const heard = await mode.probe.heard();
      this.#toldOf(heard);
      if (heard.kind === 'unknown') this.#notice();
      if (heard.kind !== 'something') return undefined;
      loop.distrust();
      return heard;
    } catch {
      this.#notice();
      return undefined;
    } finally {
      this.spent(clock.now() - began);
    }
  }

  #toldOf({ kind, by }: Heard): void {
    if (kind === 'something') this.#options.onNoticed?.('ours');
    // Our own commands write too, and have no name here.
    else if (kind === 'nothing' && by !== undefined) this.#options.onNoticed?.('nothing of ours');
  }

  /** A sync spent these milliseconds reading: a share of the time that checks after notices have, too. */
  spent(milliseconds: number): void {
    this.#noticeChecks.spend(milliseconds);
  }

  /** Check until the signal aborts. When another program flushed the rules, sync at once (k8s#129128). Never rejects. */
  async run(): Promise<void> {
    const { health, signal, config } = this.#options;
    const { clock, onNode } = this.#agent;
    const stop = onNode.notices?.onCommit(() => this.#notice());
    let next = clock.now() + config.syncPeriod;
    while (!signal.aborted) {
      health.checked();
      const noticeCheck = this.#isNoticed
        ? Math.max(this.#noticeChecks.next, this.#lookAgainAt, this.#backoff.due)
        : Number.POSITIVE_INFINITY;
      const time = Math.min(next, noticeCheck) - clock.now();
      if (time > 0) {
        await this.#wait.start({ time, isWakeable: !this.#isNoticed, signal });
        continue;
      }
      if (next <= noticeCheck) {
        await this.#logFailure(() => this.#check());
        next = clock.now() + config.syncPeriod;
      } else await this.#logFailure(() => this.#checkNotice());
    }
    stop?.();
    await this.#reading;
  }

  #notice(): void {
    this.#isNoticed = true;
    this.#wait.wake();
  }

  async #logFailure(check: () => Promise<void>): Promise<void> {
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

  /** Find out which objects a notice was about, for a bounded share of the time. */
  async #checkNotice(): Promise<void> {
    const { clock } = this.#agent;
    const began = clock.now();
    const waited = this.#waited;
    try {
      await this.#findOut();
    } catch (error) {
      // The check of the next syncPeriod would be too late.
      this.#lookAgain(clock.now() + LOOK_AGAIN_MS);
      throw error;
    } finally {
      this.spent(clock.now() - began - (this.#waited - waited));
    }
  }

  async #findOut(): Promise<void> {
    const { readBudget, onNoticed } = this.#options;
    const { mode, clock } = this.#agent;
    const heard = await this.#alone(async () => {
      // The notice counts until then, for a sync that waited before this check.
      this.#isNoticed = false;
      const answer = mode.isObservedInPart ? await mode.probe.heard() : NOTHING;
      if (answer.kind === 'something') this.#requestRepair(answer.by);
      return answer;
    });
    this.#toldOf(heard);
    if (heard.kind === 'unknown') {
      const soon = clock.now() + LOOK_AGAIN_MS;
      // A reading under way may find something older than the notice.
      if (this.#reading !== undefined) this.#lookAgain(soon);
      else if (readBudget.mayRead) onNoticed?.('unknown');
      // The canaries show a flush of everything without a reading, so they are looked for until the rules may be read.
      else this.#lookAgain(Math.min(readBudget.mayReadAt, soon));
      await this.#checkRules(heard);
    }
  }

  /** The rules could not be read, or may not be yet: what the notice was about is still to be found out. */
  #lookAgain(at: number): void {
    this.#isNoticed = true;
    this.#lookAgainAt = Math.max(this.#lookAgainAt, at);
    this.#wait.wake();
  }

  /** Works while no sync runs. A check is not charged for its wait. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const { clock } = this.#agent;
    const asked = clock.now();
    return await this.#options.mutex(() => {
      this.#waited += clock.now() - asked;
      return work();
    });
  }

  /** The check of every syncPeriod. */
  async #check(): Promise<void> {
    const { config, health, onWaiting } = this.#options;
    const { mode, clock } = this.#agent;
    if (this.#backoff.at(clock.now()) === undefined) health.fights(undefined);
    if (mode.isWaiting) onWaiting();
    // Beside the checks: a tool or a file that hangs must not keep a notice from being looked at.
    if (this.#looking !== undefined) this.#tellUnknownFacts(`no answer within ${config.syncPeriod / 1000} s`);
    this.#looking ??= this.#lookAtFacts().finally(() => {
      this.#looking = undefined;
    });
    await this.#checkRules();
  }

  /** Never rejects. */
  async #lookAtFacts(): Promise<void> {
    const { signal } = this.#options;
    try {
      const changes = await this.#agent.onNode.changes(signal);
      if (signal.aborted) return;
      this.#unknownFacts.over({ text: 'the Node and this machine can be looked at again' });
      this.#compareFacts(changes);
    } catch (error) {
      if (!signal.aborted) this.#tellUnknownFacts(causeOf(error));
    }
  }

  #tellUnknownFacts(cause: string): void {
    const text = `cannot look whether the Node or this machine changed: ${cause}`;
    this.#unknownFacts.tell({ cause, facts: { cause }, text });
  }

  #compareFacts(changes: readonly ChangedFact[]): void {
    const { onOutdated } = this.#options;
    if (changes.length === 0) this.#outdated.over();
    else {
      const cause = changes.map(changedFactText).join('; ');
      // Logged as a lasting trouble, because each check finds the same while the agent cannot adapt.
      const text = `the Node, the cluster or this machine changed, and the agent adapts to it: ${cause}`;
      this.#outdated.tell({ cause, facts: { changes }, text });
      onOutdated();
    }
  }

  /** Probe the rules, read them only if the probe is unclear, and request a sync where they differ. `heard`: what the notices told just now. */
  async #checkRules(heard?: Heard): Promise<void> {
    const { log, signal, health, readBudget } = this.#options;
    const { mode, clock } = this.#agent;
    // The mutex is held until the repair is requested: a sync that waits for it takes the repair along.
    await this.#alone(async () => {
      const found = await probe(mode, signal);
      if (found === 'in place' || found === 'unclear') health.verified();
      // The numbers of the legacy variant stay the same where one rule replaced another of its size.
      const isAsked = this.#options.timesAsked() !== this.#timesAsked;
      // Before a family was read there is nothing to check; health reports what is pending then.
      if (found === 'nothing yet' || (found === 'in place' && !isAsked)) return;
      const other = heard?.by ?? (await lastOther(mode));
      if (found === 'gone') {
        const program = other === undefined ? 'another program' : `another program (${committerText(other)})`;
        if (this.#backoff.at(clock.now()) === undefined) {
          log.warn(`${program} removed rules of ours; writing them again`);
        }
        this.#requestRepair(other);
      } else if (readBudget.mayRead) {
        // Beside the checks: it may take long, and a notice that comes meanwhile may name what was touched.
        this.#reading ??= this.#readRules(other).finally(() => {
          this.#reading = undefined;
        });
      }
    });
  }

  /** Read all rules, and request a sync where another program changed them, or may have. Never rejects. */
  async #readRules(by: Committer | undefined): Promise<void> {
    const { signal, health, readBudget } = this.#options;
    const { clock } = this.#agent;
    const timesAsked = this.#options.timesAsked();
    try {
      const may = await mayHaveChanged(this.#agent, this.#options, this.#unread);
      if (may === 'unread') this.#lookAgain(Math.min(readBudget.mayReadAt, clock.now() + LOOK_AGAIN_MS));
      else {
        this.#timesAsked = timesAsked;
        if (may) this.#requestRepair(by);
      }
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      health.notVerified(cause);
      this.#unread.tell({ cause, facts: { cause }, text: `cannot check all rules: ${cause}` });
      this.#lookAgain(clock.now() + LOOK_AGAIN_MS);
    }
  }

  #requestRepair(by: Committer | undefined): void {
    this.#agent.loop.distrust();
    this.#options.onLoss(by);
  }
}

/** The program that wrote last; undefined if it was this one, or is not known. Never rejects: a repair needs no name. */
async function lastOther({ inspection }: Mode): Promise<Committer | undefined> {
  const last = await inspection.lastWriter().catch(() => undefined);
  return last?.isUs === false ? last : undefined;
}

type RulesFound = 'nothing yet' | 'in place' | 'gone' | 'unclear';

async function probe(mode: Mode, signal: AbortSignal): Promise<RulesFound> {
  if (!mode.isObservedInPart) return 'nothing yet';
  if (!(await mode.probe.isInstalled(signal))) return 'gone';
  return (await mode.probe.mayDiffer()) ? 'unclear' : 'in place';
}

/**
 * Read whether the rules of another program changed ours, or may have; `unread` when the reading did not end. Syncs go on meanwhile:
 * iptables-save starts over whenever the ruleset changes, and beside a program that writes all the time it does not end where there are many
 * rules.
 */
async function mayHaveChanged(
  { mode, clock }: Agent,
  { log, signal, mutex, readBudget }: KernelWatchOptions,
  unread: TroubleLog,
): Promise<boolean | 'unread'> {
  const late = new AbortController();
  let cancel: () => void = () => undefined;
  let began = clock.now();
  try {
    const { reading } = await mutex(() => {
      cancel = clock.after(READING_TIMEOUT_MS, () => late.abort());
      began = clock.now();
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
    // While syncs write all the time a check cannot be sure; a sync that reads the kernel itself can.
    return isOther !== false;
  } catch (error) {
    if (!late.signal.aborted) throw error;
    const text = `other programs write rules all the time, and reading them did not end within ${READING_TIMEOUT_MS / 1000} s`;
    unread.tell({ cause: text, text: `cannot check all rules: ${text}` });
    return 'unread';
  } finally {
    cancel();
    readBudget.checkTook(clock.now() - began);
  }
}

/** Minimum time without a repair after which the other program counts as quiet. */
const QUIET_MS = 10_000;
/** Repairs without a wait. */
const IMMEDIATE_REPAIRS = 10;
/** The wait before the first delayed repair. Each further one waits twice as long. */
const FIRST_WAIT_MS = 100;

interface RepairBackoffState {
  /** Text of the other program; undefined when unknown. */
  readonly by: string | undefined;
  readonly repairs: number;
  /** Time of the first repair. */
  readonly since: number;
}

/**
 * Paces the repairs where another program changes our objects again and again: they wait longer and longer, so that two programs do not keep
 * a node busy by undoing each other's writes. It takes the time as an argument.
 */
export class RepairBackoff {
  readonly #maxWait: number;
  #state: RepairBackoffState | undefined;
  #last = 0;

  /** `maxWait`: milliseconds. */
  constructor(maxWait: number) {
    this.#maxWait = maxWait;
  }

  /** Milliseconds from the last repair to the next one. */
  get #wait(): number {
    const more = (this.#state?.repairs ?? 0) - IMMEDIATE_REPAIRS;
    return more <= 0 ? 0 : doubledWait(more, FIRST_WAIT_MS, this.#maxWait);
  }

  /** The earliest time of the next repair. */
  get due(): number {
    return this.#last + this.#wait;
  }

  /** A sync repaired changes of another program. Returns true for the first repair after which the next ones wait. */
  repaired(now: number, by: string | undefined): boolean {
    const before = this.#state !== undefined && !this.#isOver(now) ? this.#state : undefined;
    this.#last = now;
    this.#state = { by: by ?? before?.by, repairs: (before?.repairs ?? 0) + 1, since: before?.since ?? now };
    return this.#state.repairs === IMMEDIATE_REPAIRS + 1;
  }

  /** The repeated changes that go on now; undefined while repairs need no wait. */
  at(now: number): RepairBackoffState | undefined {
    const state = this.#state;
    return state === undefined || state.repairs <= IMMEDIATE_REPAIRS || this.#isOver(now) ? undefined : state;
  }

  #isOver(now: number): boolean {
    return now - this.#last > Math.max(QUIET_MS, 2 * this.#wait);
  }
}

/** Interval of resyncs, which compare all rules with the kernel's. */
const RESYNC_MS = 60 * 60 * 1000;
/** Limit of the time spent on reading, as a share: a program that writes all the time would make the agent read all the time. `burst`: milliseconds. */
const READINGS = { share: 0.01, burst: 2000 };
/** Milliseconds between two looks at the rules while a notice waits for a reading, or for an answer of the kernel. */
const LOOK_AGAIN_MS = 500;

/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does. */
export function firstPeriod({ mode, syncPeriod }: Pick<Config, 'mode' | 'syncPeriod'>): number {
  return MODES[mode].hasCanary ? RESYNC_MS : syncPeriod;
}

/** Decides when all rules are read from the kernel: for a periodic resync, and after another program wrote. */
export class ReadBudget {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #period: number;
  #begunAt: number;
  /** Milliseconds of a sync's reading. The shorter of the last two counts, because one may wait for a lock or a busy machine. */
  #took = 0;
  /** Milliseconds of the last reading of any kind. */
  #last = Number.POSITIVE_INFINITY;
  readonly #checks: Allowance;

  constructor(clock: Pick<Clock, 'now'>, config: Pick<Config, 'mode' | 'syncPeriod'>) {
    this.#clock = clock;
    this.#period = firstPeriod(config);
    this.#checks = new Allowance(clock, READINGS);
    this.#begunAt = clock.now();
  }

  /** A resync is due. */
  get isDue(): boolean {
    return this.#clock.now() - this.#begunAt >= Math.max(this.#period, this.#took / READINGS.share);
  }

  /** A check may read the rules now, because another program wrote. */
  get mayRead(): boolean {
    return this.#clock.now() >= this.mayReadAt;
  }

  /** The earliest time at which a check may read the rules. */
  get mayReadAt(): number {
    return this.#checks.next;
  }

  /** The next sync reads the kernel. */
  begun(): void {
    this.#begunAt = this.#clock.now();
  }

  /** A sync spent these milliseconds reading. The first says nothing yet: the start of a busy node would put off the next one for hours. */
  took(milliseconds: number): void {
    const isFirst = this.#last === Number.POSITIVE_INFINITY;
    const usual = this.#usual(milliseconds);
    this.#took = isFirst ? 0 : usual;
  }

  /** A check spent these milliseconds reading. */
  checkTook(milliseconds: number): void {
    this.#checks.spend(this.#usual(milliseconds));
  }

  #usual(milliseconds: number): number {
    const usual = Math.min(this.#last, milliseconds);
    this.#last = milliseconds;
    return usual;
  }
}
