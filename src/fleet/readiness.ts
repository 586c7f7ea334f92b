/** Whether a Node has been not ready for so long that nobody waits for it. Pure. */
import type { Clock } from '../base/clock.ts';

export interface LeavingOut {
  readonly clock: Clock;
  /** Milliseconds for which a Node may be not ready before nobody waits for it. */
  readonly leaveOutAfter: number;
  readonly onLeftOut: () => void;
}

export class Readiness {
  #isLeftOut = false;
  /** Ends the wait until it is left out; undefined: the Node is ready. */
  #cancel: (() => void) | undefined;

  get isLeftOut(): boolean {
    return this.#isLeftOut;
  }

  /** The Node is ready, or gone. */
  ready(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isLeftOut = false;
  }

  /** The Node is not ready; `since` in milliseconds since 1970, undefined: from now on. */
  notReady(since: number | undefined, { clock, leaveOutAfter, onLeftOut }: LeavingOut): void {
    if (this.#cancel !== undefined) return;
    const left = leaveOutAfter - (since === undefined ? 0 : Math.max(0, clock.wall() - since));
    const leaveOut = () => {
      this.#isLeftOut = true;
      onLeftOut();
    };
    this.#isLeftOut = left <= 0;
    this.#cancel = left <= 0 ? () => undefined : clock.after(left, leaveOut);
  }
}
