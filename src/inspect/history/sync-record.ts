/** The record of a sync, from its report. */
import { createHash } from 'node:crypto';
import { type Plan, planText } from '../../proxy/reconcile/step.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import { momentOf } from '../wire/envelope.ts';
import { cutText } from '../wire/format.ts';
import type { RecordedSync } from '../wire/history.ts';
import type { Status } from '../wire/status.ts';
import type { DriftSeen, PlanRecord, SyncRecord } from './records.ts';

/** Lines of a kind that a record holds, and characters of a line. */
const LINES = 10;
const CHARACTERS = 300;

/** Steps of a plan whose text is hashed. The text of a whole node's plan would take a second. */
const HASHED = 1000;

/** Its text is not hashed. */
export function isLong({ steps }: Plan): boolean {
  return steps.length > HASHED;
}

/** The digest of a plan's text, by which a replay is compared. */
export function planRecord(plan: Plan): PlanRecord {
  const hash = isLong(plan) ? '' : createHash('sha256').update(planText(plan)).digest('hex').slice(0, 32);
  return { steps: plan.steps.length, digest: hash };
}

type Facts = Pick<
  SyncRecord,
  | 'number'
  | 'at'
  | 'endedAt'
  | 'trigger'
  | 'by'
  | 'upTo'
  | 'hasWritten'
  | 'without'
  | 'oldest'
  | 'changes'
  | 'services'
  | 'times'
> & { readonly plans: readonly (Plan | PlanRecord)[] };

export function syncRecord(report: SyncReport, facts: Facts): SyncRecord {
  const { outcome, applied, duration, reading, desiring, writing, drift, failed } = report;
  const { number, at, endedAt, trigger, by, upTo, hasWritten, without, oldest, changes, services, times } = facts;
  const milliseconds = {
    all: round(duration),
    reading: round(reading),
    desiring: round(desiring),
    writing: round(writing),
  };
  return {
    type: 'sync',
    ...{ number, at, endedAt, trigger, by, outcome, upTo, hasWritten, without, oldest, changes, services },
    steps: applied,
    milliseconds,
    drift: drift.slice(0, LINES).map((each) => ({ ...each, name: cutText(each.name, CHARACTERS) })),
    failed: failed
      .slice(0, LINES)
      .map(({ key, owner, cause }) =>
        cutText(`${owner === undefined ? key : `Service ${owner}, ${key}`}: ${cause}`, CHARACTERS),
      ),
    plans: facts.plans.map((plan) => ('digest' in plan ? plan : planRecord(plan))),
    times,
  };
}

/** To a hundredth of a millisecond, upwards: what was done did not take no time. */
function round(milliseconds: number): number {
  return Math.ceil(milliseconds * 100) / 100;
}

// A sync in the form of answers.

export function recordedSync(record: SyncRecord): RecordedSync {
  const { number, at, trigger, by, outcome, changes, services, steps, milliseconds, drift, failed } = record;
  return {
    ...{ number, at: momentOf(at), trigger, by, outcome, changes, services: [...services], steps },
    milliseconds: { ...milliseconds },
    drift: [...drift],
    failed: [...failed],
  };
}

/** `at`: milliseconds since 1970. */
export function driftForm({ at, ...drift }: DriftSeen): Status['drift'][number] {
  return { ...drift, at: momentOf(at) };
}
