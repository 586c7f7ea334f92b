/** How often something may be done: so many times at once, after that once each `refill` milliseconds. Pure: the caller tells the time. */
export interface TokenRate {
  readonly burst: number;
  /** Milliseconds. */
  readonly refill: number;
}

export class TokenBucket {
  readonly #rate: TokenRate;
  #tokens: number;
  #refilledAt: number;

  /** `now`: milliseconds that never run backwards, here and below. */
  constructor(rate: TokenRate, now: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#refilledAt = now;
  }

  /** Whether it may be done now; then it counts as done. */
  take(now: number): boolean {
    const { burst, refill } = this.#rate;
    const more = Math.floor((now - this.#refilledAt) / refill);
    this.#tokens = Math.min(burst, this.#tokens + more);
    this.#refilledAt += more * refill;
    if (this.#tokens === 0) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Milliseconds until there is another token, for a caller whose `take` was refused at this time. */
  untilNext(now: number): number {
    return this.#refilledAt + this.#rate.refill - now;
  }
}
