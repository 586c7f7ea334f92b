/** Authentication of `/programmed` at the health server: the API server of the configuration checks the tokens. */

import { realClock } from '../base/clock.ts';
import { AccessReviews } from '../cluster/api/access-reviews.ts';
import { apiClient, type OpenClient } from '../cluster/api/client.ts';
import { loadCredentials } from '../cluster/api/credentials.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { userAgent } from '../config/program-version.ts';
import { type Auth, authOf } from '../serve/auth.ts';
import type { Platform } from './platform.ts';

/** The fleet requests its tokens for this audience, so that an agent cannot use them for anything else. */
export const AGENT_AUDIENCE = 'slicewire-agent';

/** Limit of reviews. An agent has few clients, but a flood of made-up tokens to every agent of a large cluster would reach the API server. */
const RATE = { burst: 20, refill: 500 } as const;

export interface FleetAuthOptions {
  readonly signal: AbortSignal;
  readonly platform: Pick<Platform, 'connect'>;
  /** True for an address of the fleet, which a flood of tokens from other clients must not keep out. */
  readonly isTrusted?: (address: string) => boolean;
}

/** `config` is read at each request, because a reload replaces it. No connection to the API server is opened before the first token. */
export function programmedAuth(config: () => Pick<Config, 'serve' | 'source'>, options: FleetAuthOptions): Auth {
  const reviewers = new Reviewers(options);
  return authOf({
    isOn: () => config().serve.programmedAuthentication,
    access: () => reviewers.of(config().source),
    flag: '--programmed-authentication',
  });
}

/** Token reviews by the API server of the configuration. Another server gets a reviewer of its own: it does not know the former tokens. */
class Reviewers {
  readonly #options: FleetAuthOptions;
  #source: string | undefined;
  #reviews: AccessReviews | undefined;
  /** Aborts the reviews of the present server. */
  #stop = new AbortController();

  constructor(options: FleetAuthOptions) {
    this.#options = options;
  }

  /** undefined where the objects come from manifests, without an API server. */
  of(source: SourceConfig): AccessReviews | undefined {
    const text = JSON.stringify(source);
    if (text === this.#source) return this.#reviews;
    this.#stop.abort(new Error('another API server is used'));
    this.#stop = new AbortController();
    this.#source = text;
    this.#reviews = this.#reviewsBy(source);
    return this.#reviews;
  }

  #reviewsBy(source: SourceConfig): AccessReviews | undefined {
    if (source.kind === 'manifests') return undefined;
    const signal = AbortSignal.any([this.#stop.signal, this.#options.signal]);
    let opened: Promise<OpenClient> | undefined;
    const client = async () => {
      opened ??= this.#connect(source, signal);
      try {
        return await opened;
      } catch (error) {
        opened = undefined;
        throw error;
      }
    };
    const { isTrusted } = this.#options;
    return new AccessReviews({
      ...{ client, audiences: [AGENT_AUDIENCE], clock: realClock, signal, rate: RATE },
      ...(isTrusted === undefined ? {} : { isTrusted }),
    });
  }

  async #connect(source: SourceConfig & { readonly kind: 'kubernetes' }, signal: AbortSignal): Promise<OpenClient> {
    const { connect } = this.#options.platform;
    const client = apiClient(await loadCredentials(source), { userAgent: userAgent('agent'), connect });
    if (signal.aborted) client.close();
    else signal.addEventListener('abort', () => client.close(), { once: true });
    return client;
  }
}
