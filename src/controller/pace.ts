/**
 * The pace of a controller's requests to the API server: a limited number each second, and none while the server asks it to wait. A server
 * with priority and fairness refuses requests of a flow that has too many (429, Retry-After) before they do anything, so they are repeated.
 */

import { type Clock, sleep } from '../base/clock.ts';
import { TokenQueue } from '../base/token-bucket.ts';
import { type ApiClient, ApiError } from '../cluster/api/client.ts';

/** Requests a second, and how many may come at once: --kube-api-qps and --kube-api-burst, with defaults in config/controller-config.ts. */
export interface RequestRate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface PaceOptions {
  readonly clock: Clock;
  /** The rate of each client; undefined for no limit. */
  readonly rate: RequestRate | undefined;
  /** Called once for each wait that the server asks for. */
  readonly onWait: (milliseconds: number) => void;
  /** Called once when the server accepts requests again, and has asked for no wait for a minute. */
  readonly onCalm?: () => void;
}

/** Repetitions of a request that the server refuses with 429, as in client-go. */
const MAX_REPEATS = 10;

/** Milliseconds without a wait after which an accepted request means that the server is no longer busy: a busy one accepts some, too. */
const CALM_MS = 60_000;

/** Makes clients that keep a rate of their own. All of them wait when the server asks one of them to. */
export class ClientPace {
  readonly #options: PaceOptions;
  /** No request is sent before this time. */
  #waitsUntil = Number.NEGATIVE_INFINITY;
  /** The server asked to wait, and has not been calm since. */
  #isBusy = false;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** The client with single requests at this pace; watches are not limited. */
  clientOf(client: ApiClient): ApiClient {
    const { clock, rate } = this.#options;
    const turns = rate && new TokenQueue({ burst: rate.burst, refill: 1000 / rate.perSecond });
    const paced = async <T>(ask: () => Promise<T>, signal: AbortSignal) => {
      const wait = turns?.take(clock.now()) ?? 0;
      if (wait > 0) await sleep(clock, wait, signal);
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
        if (this.#isBusy && clock.now() - this.#waitsUntil >= CALM_MS) this.#calm();
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
