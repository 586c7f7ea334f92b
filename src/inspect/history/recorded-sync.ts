/** A sync in the form of answers. */
import { momentOf } from '../wire/envelope.ts';
import type { RecordedSync } from '../wire/history.ts';
import type { Status } from '../wire/status.ts';
import type { DriftSeen, SyncRecord } from './records.ts';

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
