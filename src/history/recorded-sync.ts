/** A sync in the form of answers. */
import { momentOf } from '../answers/head.ts';
import type { RecordedSync } from '../answers/history.ts';
import type { SyncRecord } from './records.ts';

export function recordedSync(record: SyncRecord): RecordedSync {
  const { number, at, trigger, outcome, changes, services, steps, milliseconds, drift, failed } = record;
  return {
    ...{ number, at: momentOf(at), trigger, outcome, changes, services: [...services], steps },
    milliseconds: { ...milliseconds },
    drift: [...drift],
    failed: [...failed],
  };
}
