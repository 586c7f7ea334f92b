/** A wait that ends after some time, when it is woken, or when the signal aborts, whichever comes first. */
import type { Clock } from '../../base/clock.ts';

export interface WaitOptions {
  /** Milliseconds; undefined: until it is woken. */
  readonly time: number | undefined;
  readonly isWakeable: boolean;
  readonly signal: AbortSignal;
}

export class Wait {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** End the current wait, if it may be woken. */
  wake(): void {
    this.#wake?.();
  }

  /** Never rejects: the caller checks the signal. */
  start({ time, isWakeable, signal }: WaitOptions): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel?.();
        this.#wake = undefined;
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = time === undefined ? undefined : this.#clock.after(Math.max(0, time), done);
      if (isWakeable) this.#wake = done;
      signal.addEventListener('abort', done, { once: true });
      if (signal.aborted) done();
    });
  }
}
