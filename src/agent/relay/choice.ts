/** Chooses the endpoint of a new connection: evenly at random, or with session affinity the one of the last connection. */
import type { Clock } from '../../base/clock.ts';
import type { Backend } from '../../proxy/model/service-port.ts';

export interface ChoiceParts {
  readonly clock: Pick<Clock, 'now'>;
  /** At least 0, less than 1. */
  readonly random: () => number;
}

/** What a port gives to choose from. */
export interface Choices {
  readonly endpoints: readonly Backend[];
  /** 0: no session affinity. */
  readonly affinitySeconds: number;
}

export interface ChosenEndpoint {
  readonly endpoint: Backend;
  /** Another one could still be tried. */
  readonly hasOthers: boolean;
}

/**
 * The choice of one port. All its clients have an address of this node, so affinity to a client holds all of them to one endpoint
 * (KEP-6032), until no connection has begun for the time of the affinity.
 */
export class Choice {
  readonly #parts: ChoiceParts;
  /** `ip:port`. */
  #last: string | undefined;
  #since = 0;

  constructor(parts: ChoiceParts) {
    this.#parts = parts;
  }

  /** An endpoint for a new connection that was not tried yet; undefined when there is none. */
  next({ endpoints, affinitySeconds }: Choices, tried: ReadonlySet<string>): ChosenEndpoint | undefined {
    const { clock, random } = this.#parts;
    const left = endpoints.filter(({ text }) => !tried.has(text));
    const now = clock.now();
    const isFresh = affinitySeconds > 0 && now - this.#since <= affinitySeconds * 1000;
    const last = isFresh ? left.find(({ text }) => text === this.#last) : undefined;
    const endpoint = last ?? left[Math.floor(random() * left.length)];
    if (endpoint === undefined) return undefined;
    this.#last = endpoint.text;
    this.#since = now;
    return { endpoint, hasOthers: left.length > 1 };
  }
}
