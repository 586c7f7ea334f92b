/** A rate limit: `burst` times at once, then once each `refill` milliseconds. Pure: the caller passes the time, in milliseconds of a clock that never goes backwards. */
export interface TokenRate {
  readonly burst: number;
  /** Milliseconds until the next token. */
  readonly refill: number;
}

/** Tokens for callers that give up, or ask again, where there is none. */
export class TokenBucket {
  readonly #rate: TokenRate;
  #tokens: number;
  #refilledAt: number;

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

/** Tokens for callers that wait: each call takes the next token, also one that is still to come. */
export class TokenQueue {
  readonly #rate: TokenRate;
  /** The time of the last token that was taken. */
  #takenUntil = Number.NEGATIVE_INFINITY;

  constructor(rate: TokenRate) {
    this.#rate = rate;
  }

  /** Returns the milliseconds until the token is there, 0 where it is. */
  take(now: number): number {
    const { burst, refill } = this.#rate;
    this.#takenUntil = Math.max(this.#takenUntil, now - burst * refill) + refill;
    return Math.max(0, this.#takenUntil - now);
  }
}
