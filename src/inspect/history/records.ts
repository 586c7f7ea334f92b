/** The lines of the flight recorder. Times are milliseconds since 1970; numbers of changes grow by one. */

import { createHash } from 'node:crypto';
import type { Drift } from '../../proxy/model/drift.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { RampsMoment } from '../../proxy/model/ramps.ts';
import { type Plan, planTexts } from '../../proxy/reconcile/step.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import { momentOf } from '../wire/envelope.ts';
import { cutText } from '../wire/format.ts';
import type { RecordedSync } from '../wire/history.ts';
import type { Status } from '../wire/status.ts';
import type { Change, HistoryDelta } from './delta.ts';

/** Why a sync runs. */
export type Trigger =
  | 'start'
  | 'changes'
  | 'resync'
  | 'retry'
  | 'another program wrote'
  /** IPVS mode waited for connections to end before it removed their endpoint. */
  | 'removals were waiting';

export interface SyncReason {
  readonly trigger: Trigger;
  /** The program that wrote before; "" when it is not known, and for other triggers. */
  readonly by: string;
}

/** A change by another program. */
export interface DriftSeen extends Drift {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The program; "" when it is not known. */
  readonly by: string;
}

/** The facts of a change of an object. */
export interface ChangeHead {
  readonly number: number;
  /** When the agent received it. */
  readonly at: number;
  /** "" for the Node. */
  readonly service: ServiceKey | '';
  /** The resourceVersion; "" when the source has none. */
  readonly version: string;
}

/** A change, with the delta that undoes it. */
export interface ChangeRecord extends ChangeHead {
  readonly type: 'change';
  readonly what: readonly string[];
  readonly undo: HistoryDelta;
}

/** The initial lists of a source, as one change. */
export interface ListsRecord extends ChangeHead {
  readonly type: 'lists';
  readonly what: readonly string[];
  /** The objects were in the kernel already, because a recording begins with them. */
  readonly wasWritten?: boolean;
}

interface SyncTimes {
  readonly all: number;
  readonly reading: number;
  readonly desiring: number;
  readonly writing: number;
}

/** A plan of a sync. */
export interface PlanRecord {
  readonly steps: number;
  /** The first 16 bytes of the SHA-256 of its text, in hexadecimal; "" for a part, and for a plan that is too long. */
  readonly digest: string;
}

export interface SyncRecord {
  readonly type: 'sync';
  readonly number: number;
  readonly at: number;
  readonly endedAt: number;
  /** A `Trigger`; recordings of other versions may have another one. */
  readonly trigger: string;
  /** The program that wrote before; "" when it is not known, and for other triggers. */
  readonly by: string;
  readonly outcome: 'complete' | 'partial' | 'failed';
  /** The number of the last change that it took. */
  readonly upTo: number;
  /** The changes that it took are in the kernel, except for those of the Services in `without`. */
  readonly hasWritten: boolean;
  /** Services that the kernel refused. */
  readonly without: readonly ServiceKey[];
  /** The number of the oldest change that is not in the kernel after this sync; one more than `upTo` when all are. */
  readonly oldest: number;
  /** Changes that no sync took before. */
  readonly changes: number;
  /** The first Services of these changes. */
  readonly services: readonly ServiceKey[];
  readonly steps: number;
  readonly milliseconds: SyncTimes;
  /** The first drifts and failures. */
  readonly drift: readonly Drift[];
  readonly failed: readonly string[];
  readonly plans: readonly PlanRecord[];
  /** The times that the mode read from its clock, in order. */
  readonly times: readonly number[];
  /** The endpoints whose weights grew, at the beginning; absent where it is as at the sync before. */
  readonly growing?: RampsMoment;
}

export type LogRecord = ChangeRecord | ListsRecord | SyncRecord;

/** A change with the values before and after it, for sinks. */
export interface ChangeEntry extends ChangeHead {
  readonly change: Change;
}

/** Drifts and failures that a record holds, and characters of each. */
const MAX_LINES = 10;
const MAX_CHARACTERS = 300;

/** The limits of a plan whose text is hashed: its steps, and the characters of its text. A whole node's plan would take a second. */
const MAX_HASHED_STEPS = 1000;
const MAX_HASHED_CHARACTERS = 400_000;

/** Whether the plan is too long for a hash of its text. So would be the parts of one sync together. */
export function isLong({ steps, isPart = false }: Plan): boolean {
  return isPart || steps.length > MAX_HASHED_STEPS;
}

/** The digest of a plan's text, by which a replay is compared; "" for a plan that is too long. */
export function planRecord(plan: Plan): PlanRecord {
  return { steps: plan.steps.length, digest: isLong(plan) ? '' : digestOf(plan) };
}

function digestOf(plan: Plan): string {
  const hash = createHash('sha256');
  let left = MAX_HASHED_CHARACTERS;
  let separator = '';
  for (const text of planTexts(plan)) {
    left -= text.length;
    if (left < 0) return '';
    hash.update(separator).update(text);
    separator = '\n';
  }
  return hash.digest('hex').slice(0, 32);
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
  | 'growing'
> & { readonly plans: readonly (Plan | PlanRecord)[] };

/** The record of a sync, from its report. */
export function syncRecord(report: SyncReport, facts: Facts): SyncRecord {
  const { outcome, applied, duration, reading, desiring, writing, drift, failed } = report;
  const { number, at, endedAt, trigger, by, upTo, hasWritten, without, oldest, changes, services, times } = facts;
  const { growing } = facts;
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
    drift: drift.slice(0, MAX_LINES).map((each) => ({ ...each, name: cutText(each.name, MAX_CHARACTERS) })),
    failed: failed
      .slice(0, MAX_LINES)
      .map(({ key, owner, cause }) =>
        cutText(`${owner === undefined ? key : `Service ${owner}, ${key}`}: ${cause}`, MAX_CHARACTERS),
      ),
    plans: facts.plans.map((plan) => ('digest' in plan ? plan : planRecord(plan))),
    times,
    ...(growing === undefined ? {} : { growing }),
  };
}

/** To a hundredth of a millisecond, upwards: no work takes no time. */
function round(milliseconds: number): number {
  return Math.ceil(milliseconds * 100) / 100;
}

/** The form of a sync in answers. */
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
