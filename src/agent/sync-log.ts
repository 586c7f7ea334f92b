/**
 * Syncs in the log. By itself a sync has a line when it is the first, slow, or incomplete for a new cause; every sync has one at `-v 2`. The
 * others are summed up in a line, with the first sync ten minutes after the last summary, and at the end: a timer of its own would wake an idle
 * machine. The log outlives generations of the agent.
 */

import type { Clock } from '../base/clock.ts';
import { LastingProblem, LastingProblems } from '../base/lasting-problem.ts';
import { countText, firstOf, millisecondsText, timeText } from '../inspect/wire/format.ts';
import { type Drift, driftText } from '../proxy/model/drift.ts';
import type { FailedStep } from '../proxy/reconcile/step.ts';
import type { SweepReport } from '../proxy/sync/flow-sweeper.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import { driftsText, MAX_NAMED } from './log-lines.ts';

/** Milliseconds, at least, from one summary to the next. */
const SUMMARY_PERIOD = 600_000;
/** A sync is slow when it took longer than this many milliseconds, and than so many times the median of those before it. */
const SLOW = 1000;
const SLOW_FACTOR = 10;
/** Syncs whose durations are kept for the median. */
const DURATIONS_KEPT = 1000;
/** An error of the sweep as a whole, beside tables that cannot be read. */
export const SWEEP_FAILED = 'the sweep of stale flows failed';

export interface Circumstances {
  /** No sync was complete before: the first is logged also when there was nothing to do. */
  readonly isFirst: boolean;
  /** It is not tried again: all that failed is told, also what was told before. */
  readonly isLast?: boolean;
  readonly failingSince?: number | undefined;
  /** The program that changed rules of ours, in words, where it is known. */
  readonly by?: string | undefined;
  /** People were told that another program changes rules of ours again and again. */
  readonly isFight?: boolean;
  /** Faults of the objects now, by effect. */
  readonly faults: Readonly<Record<string, number>>;
}

/** Syncs since the last summary. Times in milliseconds. */
interface Period {
  readonly since: number;
  syncs: number;
  steps: number;
  incomplete: number;
  slowest: number;
  /** Stale flows that were deleted. */
  flows: number;
  /** Something has had no line at the default level yet. */
  isUntold: boolean;
}

export class SyncLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #durations = new Durations();
  #period: Period;
  /** Steps that fail, and errors beside syncs. */
  readonly #failing = new LastingProblems();
  readonly #beside: TroubleLog;
  readonly #incomplete = new LastingProblem();
  #incompleteInARow = 0;
  readonly #sweep: TroubleLog;

  constructor(log: Log, clock: Pick<Clock, 'now'>) {
    this.#log = log;
    this.#clock = clock;
    this.#beside = new TroubleLog({ log, clock, level: 'error' });
    this.#sweep = new TroubleLog({ log, clock, level: 'error' });
    this.#period = newPeriod(clock.now());
  }

  /** A sync ended. */
  synced(report: SyncReport, circumstances: Circumstances): void {
    const { outcome, applied, duration, drift, isAsLeft = false } = report;
    if (isAsLeft) this.#log.info('the ruleset is as the last agent left it, and as it should be: it was not read');
    if (drift.length > 0) logDrift(drift, this.#log, circumstances);
    const isTold = outcome === 'complete' ? this.#complete(report, circumstances) : this.#failed(report, circumstances);
    const period = this.#period;
    period.syncs += 1;
    period.steps += applied;
    if (outcome !== 'complete') period.incomplete += 1;
    period.slowest = Math.max(period.slowest, duration);
    period.isUntold ||= !isTold && (applied > 0 || outcome !== 'complete');
    this.#durations.add(duration);
    if (this.#clock.now() - period.since >= SUMMARY_PERIOD) this.summarize();
  }

  /** A sweep of stale flows ended. */
  swept({ kinds, duration, outcome, cause }: SweepReport): void {
    const milliseconds = Math.round(duration);
    if (outcome === 'failed') {
      const follows = 'stale flows stay until they time out or a later sweep succeeds';
      const text = `cannot read the conntrack table: ${cause}; ${follows}`;
      this.#sweep.tell({ cause: `${cause}`, facts: { milliseconds, cause }, text });
      return;
    }
    this.#sweep.over({ text: 'the conntrack table can be read again' });
    this.workedBeside(SWEEP_FAILED, 'stale flows can be swept again');
    for (const [kind, { seen, deleted, owners }] of kinds) {
      const facts = { seen, deleted, services: [...owners].slice(0, 20), milliseconds };
      if (deleted > 0) this.#log.v2(facts, `deleted ${deleted} stale ${STALE[kind]}`);
      else this.#log.debug(facts, `no stale ${STALE[kind]}`);
      this.#period.flows += deleted;
      this.#period.isUntold ||= deleted > 0;
    }
  }

  /** An error beside a sync or a sweep; `what` failed, and `follows` says how it goes on. Told as a lasting problem. */
  failedBeside(what: string, cause: string, follows?: string): void {
    const text = `${what}: ${cause}${follows === undefined ? '' : `; ${follows}`}`;
    this.#beside.tell({ of: what, cause, text });
  }

  /** `what` works, as `text` says: a later failure is told at once. */
  workedBeside(what: string, text: string): void {
    this.#beside.over({ of: what, text });
  }

  /** A line about the syncs since the last summary, where something has had no line yet. */
  summarize(): void {
    const { since, syncs, steps, incomplete, slowest, flows, isUntold } = this.#period;
    if (!isUntold) return;
    const now = this.#clock.now();
    this.#period = newPeriod(now);
    const median = this.#durations.median(syncs);
    const facts = {
      syncs,
      steps,
      incomplete,
      seconds: Math.round((now - since) / 1000),
      median: Math.round(median),
      slowest: Math.round(slowest),
      staleFlows: flows,
    };
    const parts = [
      `${countText(steps, 'change')} written`,
      ...(syncs > 0 ? [`${millisecondsText(median)} in the median, ${millisecondsText(slowest)} the slowest`] : []),
      `${incomplete} incomplete`,
      ...(flows > 0 ? [`${countText(flows, 'stale flow')} deleted`] : []),
    ];
    this.#log.info(facts, `${countText(syncs, 'sync')} in ${timeText(now - since)}: ${parts.join(', ')}`);
  }

  /** Returns whether the sync had a line at the default level. */
  #complete({ applied, duration }: SyncReport, { isFirst, faults }: Circumstances): boolean {
    this.#failing.clear();
    if (this.#incomplete.over()) {
      const syncs = this.#incompleteInARow;
      this.#log.info({ syncs }, `everything is written again, after ${countText(syncs, 'incomplete sync')}`);
    }
    this.#incompleteInARow = 0;
    // It sorts the durations: most syncs are quick, and need none.
    const median = duration > SLOW ? this.#durations.median() : 0;
    const isSlow = duration > Math.max(SLOW, SLOW_FACTOR * median);
    const facts = {
      outcome: 'complete',
      steps: applied,
      milliseconds: Math.round(duration),
      ...(isSlow && !isFirst ? { median: Math.round(median) } : {}),
      faults,
    };
    const isTold = isFirst || isSlow;
    this.#log[isTold ? 'info' : 'v2'](facts, applied > 0 ? 'synced' : 'synced, nothing to do');
    return isTold;
  }

  /** A Service that the kernel refuses makes every sync incomplete: each failure is told as a lasting problem. */
  #failed(
    { outcome, applied, duration, failed }: SyncReport,
    { failingSince, faults, isLast = false }: Circumstances,
  ): boolean {
    if (isLast) {
      this.#failing.clear();
      this.#incomplete.over();
    }
    const now = this.#clock.now();
    const failures = new Set(failed.map(idOf));
    const news = new Set([...failures].filter((id) => this.#failing.met(id, '', now)));
    this.#failing.keep(failures);
    const { told = [], known = [] } = Object.groupBy(failed, (step) => (news.has(idOf(step)) ? 'told' : 'known'));
    for (const alike of Map.groupBy(told, causeAlone).values()) logFailed(alike, this.#log, 'error');
    for (const alike of Map.groupBy(known, causeAlone).values()) logFailed(alike, this.#log, 'v2');
    this.#incompleteInARow += 1;
    const isTold = this.#incomplete.met(outcome, now) || told.length > 0;
    const since = failingSince === undefined ? undefined : new Date(failingSince).toISOString();
    const facts = { outcome, steps: applied, milliseconds: Math.round(duration), faults, since };
    this.#log[isTold ? 'error' : 'v2'](
      facts,
      isLast ? 'sync incomplete; it is not tried again' : 'sync incomplete; it will be retried',
    );
    return isTold;
  }
}

/** Durations of the last syncs, in milliseconds. */
class Durations {
  readonly #kept = new Float64Array(DURATIONS_KEPT);
  #count = 0;

  add(duration: number): void {
    this.#kept[this.#count % DURATIONS_KEPT] = duration;
    this.#count += 1;
  }

  /** Of the last ones, at most those that are kept; 0 where there is none. */
  median(last = DURATIONS_KEPT): number {
    const count = Math.min(last, this.#count, DURATIONS_KEPT);
    const chosen = Float64Array.from(
      { length: count },
      (_, i) => this.#kept[(this.#count - 1 - i) % DURATIONS_KEPT] ?? 0,
    );
    return chosen.sort()[Math.floor(count / 2)] ?? 0;
  }
}

function newPeriod(since: number): Period {
  return { since, syncs: 0, steps: 0, incomplete: 0, slowest: 0, flows: 0, isUntold: false };
}

const STALE = { udp: 'UDP flows', opening: 'unanswered connections (TCP, SCTP)' } as const;

function idOf(step: FailedStep): string {
  return `${step.key} ${step.owner ?? ''} ${causeAlone(step)}`;
}

/** Why a step failed, without the refused line: equal for steps that fail alike. */
function causeAlone({ cause, line, blame }: FailedStep): string {
  return `${blame} ${line === undefined ? cause : cause.replaceAll(line, '')}`;
}

/** One line for all steps that failed for one cause. */
function logFailed(steps: readonly FailedStep[], log: Log, level: 'error' | 'v2'): void {
  const [first] = steps;
  if (first === undefined) return;
  const { key, owner, cause } = first;
  const who = owner === undefined ? key : `Service ${owner} is set aside: ${key}`;
  const services = [...new Set(steps.flatMap((step) => step.owner ?? []))];
  if (steps.length === 1) {
    log[level]({ step: key, service: owner }, `${who}: ${cause}`);
    return;
  }
  const others = services.filter((service) => service !== owner);
  const ofWhom = others.length === 0 ? '' : `, of Services ${firstOf(others, MAX_NAMED)}`;
  log[level](
    { step: key, service: owner, count: steps.length, services: services.slice(0, MAX_NAMED + 1) },
    `${who}: ${cause} (and ${steps.length - 1} more steps failed for the same cause${ofWhom})`,
  );
}

function logDrift(drift: readonly Drift[], log: Log, { by, isFight = false }: Circumstances): void {
  const facts = { drift: drift.slice(0, 20).map(driftText), count: drift.length, ...(by === undefined ? {} : { by }) };
  const who = by === undefined ? 'another program' : `another program (${by})`;
  log[isFight ? 'v2' : 'warn'](facts, `${who} changed rules of ours: ${driftsText(drift)}`);
}
