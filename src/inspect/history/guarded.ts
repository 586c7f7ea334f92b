/** The recorder beside the proxy: a fault of its own must not touch what it records. */
import type { Recorder, Tap } from './recorder.ts';

/** What the agent reports to its recorder. */
export type RecorderHooks = Pick<Recorder, 'tap' | 'syncBegan' | 'planned' | 'syncEnded' | 'modeTime'>;

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
    tap(objects) {
      const own = recorder.tap(objects);
      const tap: Tap = { objects, event: (event, before) => safely(() => own.event(event, before)) };
      taps.set(tap, own);
      return tap;
    },
    syncBegan: (reason, tap) => safely(() => recorder.syncBegan(reason, taps.get(tap) ?? tap)),
    planned: (plan) => safely(() => recorder.planned(plan)),
    syncEnded: (report) => safely(() => recorder.syncEnded(report)),
    modeTime: recorder.modeTime,
  };
}
