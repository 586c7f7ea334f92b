/** Pauses of the world in simulated time. */
import type { SimTime, TimerOwner } from '../engine/time.ts';

/** Resolves after so many milliseconds, unless the owner is dead then. Rejects with the signal's reason. */
export function pause(
  time: SimTime,
  milliseconds: number,
  { owner, signal }: { readonly owner: TimerOwner; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = time.after(
      milliseconds,
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      },
      owner,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
