/** The recorder beside the proxy: a fault of its own must not touch what it records. */
import type { Recorder, Tap } from './recorder.ts';

/** What the agent reports to its recorder. */
export type RecorderHooks = Pick<Recorder, 'numbers' | 'tap' | 'syncBegan' | 'planned' | 'syncEnded' | 'modeTime'>;

/** After its first fault nothing is recorded any more, because a history with a gap would be wrong. `onFault` is called with it. */
export function guarded(recorder: RecorderHooks, onFault: (error: unknown) => void): RecorderHooks {
  let isRecording = true;
  const safely = (record: () => void): void => {
    if (!isRecording) return;
    try {
      record();
    } catch (error) {
      isRecording = false;
      onFault(error);
    }
  };
  const taps = new WeakMap<Tap, Tap>();
  return {
    numbers: recorder.numbers,
    tap(objects, ledger) {
      const own = recorder.tap(objects, ledger);
      const tap: Tap = { objects, ledger, event: (event, ...more) => safely(() => own.event(event, ...more)) };
      taps.set(tap, own);
      return tap;
    },
    syncBegan: (reason, tap) => safely(() => recorder.syncBegan(reason, taps.get(tap) ?? tap)),
    planned: (plan) => safely(() => recorder.planned(plan)),
    syncEnded: (report, changes) => safely(() => recorder.syncEnded(report, changes)),
    modeTime: recorder.modeTime,
  };
}
