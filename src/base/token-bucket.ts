/** A rate limit: `burst` times at once, then once each `refill` milliseconds. Pure: the caller passes the time. */
export interface TokenRate {
  readonly burst: number;
  /** Milliseconds. */
  readonly refill: number;
}

/** Limits an action to a rate. */
export class TokenBucket {
  readonly #rate: TokenRate;
  #tokens: number;
  #refilledAt: number;

  /** `now`, as in the methods, is in milliseconds of a clock that never goes backwards. */
  constructor(rate: TokenRate, now: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#refilledAt = now;
  }

  /** Takes a token; returns false when there is none. */
  take(now: number): boolean {
    const { burst, refill } = this.#rate;
    const more = Math.floor((now - this.#refilledAt) / refill);
    this.#tokens = Math.min(burst, this.#tokens + more);
    this.#refilledAt += more * refill;
    if (this.#tokens === 0) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Milliseconds until the next token, after `take` returned false at this time. */
  untilNext(now: number): number {
    return this.#refilledAt + this.#rate.refill - now;
  }
}
