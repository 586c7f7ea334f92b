/**
 * How fast a controller asks the API server: at most so many requests a second, and none while the server asks it to wait. A server
 * with priority and fairness refuses requests of a flow with too many (429, Retry-After) before they do anything, so they are repeated.
 */

import { type Clock, sleep } from '../base/clock.ts';
import { type ApiClient, ApiError } from '../cluster/api/client.ts';

/** Requests a second, and how many may come at once. */
export interface RequestRate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface PaceOptions {
  readonly clock: Clock;
  /** Of each client; undefined: no limit. */
  readonly rate: RequestRate | undefined;
  /** The server asked to wait so many milliseconds; called once for each wait. */
  readonly onWait: (milliseconds: number) => void;
  /** The server takes requests again, and asked for no wait for a minute; called once. */
  readonly onCalm?: () => void;
}

/** How often a request is repeated that the server refuses so, as in client-go. */
const MAX_REPEATS = 10;

/** Milliseconds without a wait after which a taken request means that the server is no longer busy: a busy one takes some, too. */
const CALM = 60_000;

/** Makes clients that keep a rate of their own. All of them wait when the server asks one of them to. */
export class ClientPace {
  readonly #options: PaceOptions;
  /** Nothing is asked before. */
  #waitsUntil = Number.NEGATIVE_INFINITY;
  /** It asked to wait, and has not been calm since. */
  #isBusy = false;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** The client with single requests at this pace; watches are not limited. */
  clientOf(client: ApiClient): ApiClient {
    const { clock, rate } = this.#options;
    const turn = rate === undefined ? () => 0 : turnsOf(rate, clock);
    const paced = async <T>(ask: () => Promise<T>, signal: AbortSignal) => {
      await sleepIfAny(clock, turn(), signal);
      return await this.#repeated(ask, signal);
    };
    return {
      server: client.server,
      get: (path, query, signal, protobuf) => paced(() => client.get(path, query, signal, protobuf), signal),
      write: (request, signal) => paced(() => client.write(request, signal), signal),
      watch: (path, query, signal, options) => client.watch(path, query, signal, options),
    };
  }

  async #repeated<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { clock } = this.#options;
    for (let repeats = 0; ; repeats++) {
      // While it sleeps, the server may ask another request to wait longer.
      while (clock.now() < this.#waitsUntil) await sleep(clock, this.#waitsUntil - clock.now(), signal);
      try {
        const answer = await ask();
        if (this.#isBusy && clock.now() - this.#waitsUntil >= CALM) this.#calm();
        return answer;
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 429 || error.retryAfter === undefined) throw error;
        this.#wait(error.retryAfter);
        if (repeats === MAX_REPEATS) throw error;
      }
    }
  }

  #calm(): void {
    this.#isBusy = false;
    this.#options.onCalm?.();
  }

  #wait(milliseconds: number): void {
    const { clock, onWait } = this.#options;
    const now = clock.now();
    this.#isBusy = true;
    if (now >= this.#waitsUntil) onWait(milliseconds);
    this.#waitsUntil = Math.max(this.#waitsUntil, now + milliseconds);
  }
}

/** Gives each request its turn; returns the milliseconds until then. */
function turnsOf({ perSecond, burst }: RequestRate, clock: Clock): () => number {
  const between = 1000 / perSecond;
  let next = Number.NEGATIVE_INFINITY;
  return () => {
    const now = clock.now();
    next = Math.max(next, now - burst * between) + between;
    return next - now;
  };
}

async function sleepIfAny(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  if (milliseconds > 0) await sleep(clock, milliseconds, signal);
}
