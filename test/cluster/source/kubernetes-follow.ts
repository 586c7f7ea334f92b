/** A reflector at work, with a log of what it reported. */
import { apiClient, type Credentials } from '../../../src/cluster/api/client.ts';
import type { PingTimes } from '../../../src/cluster/api/http2.ts';
import { Reflector, type Resource } from '../../../src/cluster/api/reflector.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';

export interface FollowOptions {
  readonly clock?: FakeClock;
  readonly resource?: Resource;
  readonly pageSize?: number;
  readonly pings?: PingTimes;
  /** What a request is authenticated with. */
  readonly apply?: Credentials['apply'];
  readonly random?: () => number;
}

export const SERVICES: Resource = { path: '/api/v1/services' };

/** The test context's part that is used: what to do when the test is over. */
interface Ending {
  after(call: () => unknown): void;
}

export class Following {
  readonly clock: FakeClock;
  /** `set default/a 1001`, `gone default/a`, `synced`, `failed 1`, `recovered 1`. */
  readonly reported: string[] = [];
  /** What is there, by key. */
  readonly objects = new Map<string, unknown>();
  /** Messages of the failures. */
  readonly errors: string[] = [];
  /** Resolves when `run` has returned. */
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();

  constructor(t: Ending, server: string, options: FollowOptions = {}) {
    const { clock = new FakeClock(), resource = SERVICES, pageSize = 500, apply = () => Promise.resolve() } = options;
    const { random = () => 0.5, pings } = options;
    this.clock = clock;
    const client = apiClient({ server, apply }, { userAgent: 'test', ...(pings === undefined ? {} : { pings }) });
    const sink = this.#sink();
    this.ended = new Reflector({ resource, client, clock, sink, random, pageSize })
      .run(this.#abort.signal)
      .finally(() => client.close());
    t.after(() => this.stop());
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.ended;
  }

  /** Wait until this was reported. */
  hears(text: string): Promise<void> {
    return until(text, () => this.reported.includes(text));
  }

  /** Wait until the reflector waits for its next attempt, and let the time pass. Returns the milliseconds. */
  async nextAttempt(): Promise<number> {
    await until('a wait for the next attempt', () => this.clock.pending > 0);
    const wait = this.clock.waits.at(-1) ?? 0;
    this.clock.finishWaits();
    return wait;
  }

  /** All reports so far; each is returned once. */
  take(): string[] {
    return this.reported.splice(0);
  }

  #sink(): ConstructorParameters<typeof Reflector>[0]['sink'] {
    return {
      set: (key, object) => {
        const { metadata } = object as { metadata: { resourceVersion: string } };
        this.reported.push(`set ${key} ${metadata.resourceVersion}`);
        this.objects.set(key, object);
      },
      gone: (key) => {
        this.reported.push(`gone ${key}`);
        this.objects.delete(key);
      },
      heard: () => undefined,
      opened: () => undefined,
      synced: () => this.reported.push('synced'),
      failed: (error, failures) => {
        this.reported.push(`failed ${failures}`);
        this.errors.push(error.message);
      },
      recovered: (failures) => this.reported.push(`recovered ${failures}`),
      restored: (from, to) => this.reported.push(`restored ${from} ${to}`),
    };
  }
}
