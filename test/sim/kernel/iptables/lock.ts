/** The xtables lock, /run/xtables.lock: the legacy tools of both families take it, and any other program may hold it. */
import type { SimTime, TimerOwner } from '../../engine/time.ts';

/** Milliseconds between two tries (iptables/xshared.c, xtables_lock). */
const TRY = 50;

interface Taker {
  readonly owner: TimerOwner;
  readonly signal: AbortSignal;
}

export class XtablesLock {
  readonly #time: SimTime;
  #holder: TimerOwner | undefined;
  #othersUntil = Number.NEGATIVE_INFINITY;

  constructor(time: SimTime) {
    this.#time = time;
  }

  /** Another program holds it for so many milliseconds. */
  holdFor(milliseconds: number): void {
    this.#othersUntil = this.#time.now + milliseconds;
  }

  /** As kernel/xtables-lock.ts. */
  get holderText(): string | undefined {
    return this.isHeld ? 'iptables (process 77)' : undefined;
  }

  get isHeld(): boolean {
    return this.#time.now < this.#othersUntil || (this.#holder !== undefined && !this.#holder.isDead);
  }

  /** Resolves with how to release it; undefined when it was not free within so many seconds. Rejects with the signal's reason. */
  async take(seconds: number, { owner, signal }: Taker): Promise<(() => void) | undefined> {
    const late = this.#time.now + seconds * 1000;
    while (this.isHeld) {
      if (this.#time.now >= late) return undefined;
      await this.#time.pause(TRY, { owner, signal });
    }
    this.#holder = owner;
    return () => {
      if (this.#holder === owner) this.#holder = undefined;
    };
  }
}
