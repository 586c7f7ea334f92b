/** What a sync did, for the log. */
import type { Mode } from '../modes/mode.ts';
import { stepText } from '../reconcile/step.ts';
import type { SyncReport } from '../sync/status.ts';
import type { Log } from '../telemetry/log.ts';

/** Changes by others that the line of the log names; the record holds more. */
const MOST_NAMED = 5;

/** At debug level, tell each step of each plan that is applied. */
export function tellSteps(mode: Mode, log: Log): void {
  const apply = mode.apply.bind(mode);
  mode.apply = (plan, signal) => {
    if (log.isLevelEnabled('debug')) for (const step of plan.steps) log.debug(stepText(step));
    return apply(plan, signal);
  };
}

export interface Circumstances {
  /** No sync was complete before: an operator wants to see the first, also when there was nothing to do. */
  readonly isFirst: boolean;
  readonly failingSince?: number | undefined;
  /** Faults of the objects as they are now, by what follows from them. */
  readonly faults: Readonly<Record<string, number>>;
}

export function tellReport(report: SyncReport, log: Log, { isFirst, failingSince, faults }: Circumstances): void {
  const { outcome, applied: steps } = report;
  const facts = { outcome, steps, milliseconds: Math.round(report.duration), faults };
  if (report.drift.length > 0) {
    const more = report.drift.length - MOST_NAMED;
    const named = `${report.drift.slice(0, MOST_NAMED).join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
    const facts = { drift: report.drift.slice(0, 20), count: report.drift.length };
    log.warn(facts, `another program had changed our rules: ${named}`);
  }
  for (const step of report.failed) {
    const who = step.owner === undefined ? step.key : `Service ${step.owner} is set aside: ${step.key}`;
    log.error({ step: step.key, service: step.owner }, `${who}: ${step.cause}`);
  }
  if (report.outcome === 'complete') {
    if (report.applied > 0) log.info(facts, 'synced');
    else log[isFirst ? 'info' : 'debug'](facts, 'synced, nothing to do');
    return;
  }
  const since = failingSince === undefined ? undefined : new Date(failingSince).toISOString();
  log.error({ ...facts, since }, 'sync not complete; it will be tried again');
}
