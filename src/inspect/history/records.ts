/** The lines of the flight recorder. Times are milliseconds since 1970; numbers of changes grow by one. */
import type { Drift } from '../../proxy/model/drift.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
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
  /** `` for the Node. */
  readonly service: ServiceKey | '';
  /** The resourceVersion; `` when the source has none. */
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
  /** The objects were in the kernel before: a recording began then. */
  readonly wasWritten?: boolean;
}

export interface SyncTimes {
  readonly all: number;
  readonly reading: number;
  readonly desiring: number;
  readonly writing: number;
}

/** A plan of a sync. */
export interface PlanRecord {
  readonly steps: number;
  /** The first 16 bytes of the SHA-256 of its text, in hexadecimal; `` for a plan of more than 1000 steps. */
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
  /** The first ones. */
  readonly drift: readonly Drift[];
  readonly failed: readonly string[];
  readonly plans: readonly PlanRecord[];
  /** What the mode read from its clock, in order. */
  readonly times: readonly number[];
}

export type LogRecord = ChangeRecord | ListsRecord | SyncRecord;

/** A change with both values, for those who record it elsewhere. */
export interface ChangeEntry extends ChangeHead {
  readonly change: Change;
}
