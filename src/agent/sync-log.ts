/**
 * Syncs in the log. At the default level a sync has a line when it is the first, slow, or incomplete for a new cause; at `-v 2` each has one. A
 * summary covers the others. It comes with the first sync ten minutes after the last summary, and at the end, because a timer would wake an
 * idle machine. The log outlives generations of the agent.
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

/** Minimum interval of summaries. */
const SUMMARY_INTERVAL_MS = 600_000;
/** A sync is slow when it took longer than this time, and longer than this multiple of the median of those before it. */
const SLOW_MS = 1000;
const SLOW_FACTOR = 10;
/** Number of durations that are kept for the median. */
const DURATIONS_KEPT = 1000;
/** The trouble of an unexpected error of the sweep. A table that cannot be read is another trouble. */
export const SWEEP_FAILED = 'the sweep of stale flows failed';

export interface Circumstances {
  /** No sync was complete before. The first one is logged even when there was nothing to do. */
  readonly isFirst: boolean;
  /** The sync is not tried again, so all its failures are logged, also those that were logged before. */
  readonly isLast?: boolean;
  readonly failingSince?: number | undefined;
  /** Text of the program that changed rules of ours, where it is known. */
  readonly by?: string | undefined;
  /** The log already has a line that another program changes rules of ours again and again. */
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
  /** Some work has no line at the default level yet. */
  hasUnlogged: boolean;
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
    if (isAsLeft) this.#log.info('the ruleset is unchanged since the last agent, and as desired; it was not read');
    if (drift.length > 0) logDrift(drift, this.#log, circumstances);
    const isLogged =
      outcome === 'complete' ? this.#complete(report, circumstances) : this.#failed(report, circumstances);
    const period = this.#period;
    period.syncs += 1;
    period.steps += applied;
    if (outcome !== 'complete') period.incomplete += 1;
    period.slowest = Math.max(period.slowest, duration);
    period.hasUnlogged ||= !isLogged && (applied > 0 || outcome !== 'complete');
    this.#durations.add(duration);
    if (this.#clock.now() - period.since >= SUMMARY_INTERVAL_MS) this.summarize();
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
      this.#period.hasUnlogged ||= deleted > 0;
    }
  }

  /** Logs an error beside a sync or a sweep as a lasting trouble. `work` is the trouble, and `follows` its consequence. */
  failedBeside(work: string, cause: string, follows?: string): void {
    const text = `${work}: ${cause}${follows === undefined ? '' : `; ${follows}`}`;
    this.#beside.tell({ of: work, cause, text });
  }

  /** The same work succeeded, so a later failure is logged at once. `text` is logged where it had failed. */
  workedBeside(work: string, text: string): void {
    this.#beside.over({ of: work, text });
  }

  /** Logs a summary of the syncs since the last one, if some work has no line yet. */
  summarize(): void {
    const { since, syncs, steps, incomplete, slowest, flows, hasUnlogged } = this.#period;
    if (!hasUnlogged) return;
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
    // The median sorts the durations, which most syncs do not need because they are quick.
    const median = duration > SLOW_MS ? this.#durations.median() : 0;
    const isSlow = duration > Math.max(SLOW_MS, SLOW_FACTOR * median);
    const facts = {
      outcome: 'complete',
      steps: applied,
      milliseconds: Math.round(duration),
      ...(isSlow && !isFirst ? { median: Math.round(median) } : {}),
      faults,
    };
    const isLogged = isFirst || isSlow;
    this.#log[isLogged ? 'info' : 'v2'](facts, applied > 0 ? 'synced' : 'synced, nothing to do');
    return isLogged;
  }

  /** Logs each failure as a lasting problem, because a Service that the kernel refuses makes every sync incomplete. */
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
    const { fresh = [], known = [] } = Object.groupBy(failed, (step) => (news.has(idOf(step)) ? 'fresh' : 'known'));
    for (const alike of Map.groupBy(fresh, causeAlone).values()) logFailed(alike, this.#log, 'error');
    for (const alike of Map.groupBy(known, causeAlone).values()) logFailed(alike, this.#log, 'v2');
    this.#incompleteInARow += 1;
    const isLogged = this.#incomplete.met(outcome, now) || fresh.length > 0;
    const since = failingSince === undefined ? undefined : new Date(failingSince).toISOString();
    const facts = { outcome, steps: applied, milliseconds: Math.round(duration), faults, since };
    this.#log[isLogged ? 'error' : 'v2'](
      facts,
      isLast ? 'sync incomplete; it is not tried again' : 'sync incomplete; it will be retried',
    );
    return isLogged;
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

  /** The median of the last durations, as far as they are kept; 0 without any. */
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
  return { since, syncs: 0, steps: 0, incomplete: 0, slowest: 0, flows: 0, hasUnlogged: false };
}

const STALE = {
  udp: 'UDP flows',
  opening: 'unanswered connections (TCP, SCTP)',
  gone: 'connections to endpoints that are gone (TCP)',
} as const;

function idOf(step: FailedStep): string {
  return `${step.key} ${step.owner ?? ''} ${causeAlone(step)}`;
}

/** The cause without the refused line, so that it is equal for steps that fail alike. */
function causeAlone({ cause, line, blame }: FailedStep): string {
  return `${blame} ${line === undefined ? cause : cause.replaceAll(line, '')}`;
}

/** One line for all steps that failed for one cause. */
function logFailed(steps: readonly FailedStep[], log: Log, level: 'error' | 'v2'): void {
  const [first] = steps;
  if (first === undefined) return;
  const { key, owner, cause } = first;
  const subject = owner === undefined ? key : `Service ${owner} is set aside: ${key}`;
  const services = [...new Set(steps.flatMap((step) => step.owner ?? []))];
  if (steps.length === 1) {
    log[level]({ step: key, service: owner }, `${subject}: ${cause}`);
    return;
  }
  const others = services.filter((service) => service !== owner);
  const ofWhom = others.length === 0 ? '' : `, of Services ${firstOf(others, MAX_NAMED)}`;
  log[level](
    { step: key, service: owner, count: steps.length, services: services.slice(0, MAX_NAMED + 1) },
    `${subject}: ${cause} (and ${steps.length - 1} more steps failed for the same cause${ofWhom})`,
  );
}

function logDrift(drift: readonly Drift[], log: Log, { by, isFight = false }: Circumstances): void {
  const facts = { drift: drift.slice(0, 20).map(driftText), count: drift.length, ...(by === undefined ? {} : { by }) };
  const program = by === undefined ? 'another program' : `another program (${by})`;
  log[isFight ? 'v2' : 'warn'](facts, `${program} changed rules of ours: ${driftsText(drift)}`);
}
