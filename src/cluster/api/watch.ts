/** The status of watches: whether each kind of object can be followed, and since when it cannot. */
import type { Clock } from '../../base/clock.ts';
import { LastingProblem } from '../../base/lasting-problem.ts';
import type { WatchStatus } from '../../proxy/model/events.ts';
import { isOlder } from '../../proxy/model/resource-version.ts';
import { type ApiClient, ApiError } from './client.ts';
import { PAGE } from './paged-list.ts';
import { followAll, type ReflectorSink, type Resource, SHORT_WATCH } from './reflector.ts';

/** The part of pino that watches use. */
export interface WatchLog {
  info(facts: object, text: string): void;
  /** Verbosity 2, which has a line for each attempt. */
  v2(facts: object, text: string): void;
  warn(facts: object, text: string): void;
}

interface KindWatchOptions {
  readonly clock: Clock;
  readonly log: WatchLog;
  /** The consequence while the kind cannot be followed, for the log. */
  readonly meanwhile: string;
  /** Some API servers lack the kind, and the program works without it. The same cause is logged once. */
  readonly isOptional?: boolean;
}

/** The callbacks of a reflector's sink that the status needs. */
export function watchSink(
  watch: Watch<string>,
): Pick<ReflectorSink, 'heard' | 'opened' | 'failed' | 'absent' | 'recovered' | 'restored'> {
  return {
    heard: () => watch.heard(),
    opened: () => watch.opened(),
    failed: (error, failures) => watch.failed(error, failures),
    absent: () => watch.absent(),
    recovered: (failures) => watch.recovered(failures),
    restored: (from, to) => watch.restored(from, to),
  };
}

type WatchFailure = NonNullable<WatchStatus['failure']>;

/** The status of one kind; logs failures and recoveries. */
export class Watch<Kind extends string> {
  readonly #of: Kind;
  readonly #options: KindWatchOptions;
  #heardAt: number;
  /** Time at which the present watch was opened; undefined when none is open. */
  #openedAt: number | undefined;
  #failure: WatchFailure | undefined;
  readonly #problem: LastingProblem;
  /** Time of the first failure in a row, for the log. */
  #since = '';

  constructor(of: Kind, options: KindWatchOptions) {
    this.#of = of;
    this.#options = options;
    this.#heardAt = options.clock.now();
    // A kind on which nothing depends is logged once.
    this.#problem = new LastingProblem(options.isOptional === true ? Number.POSITIVE_INFINITY : undefined);
  }

  get status(): { readonly of: Kind; readonly heardAt: number; readonly failure: WatchFailure | undefined } {
    return { of: this.#of, heardAt: this.#heardAt, failure: this.#isOpen ? undefined : this.#failure };
  }

  /** An open watch works even when a quiet cluster sends nothing on it, because the connection is probed. */
  get #isOpen(): boolean {
    return this.#openedAt !== undefined && this.#options.clock.now() - this.#openedAt >= SHORT_WATCH;
  }

  heard(): void {
    this.#heardAt = this.#options.clock.now();
  }

  opened(): void {
    this.#openedAt = this.#options.clock.now();
    this.heard();
  }

  failed(error: Error, failures: number): void {
    const { clock, log, meanwhile } = this.#options;
    // The watch was open until now, so earlier failures are over.
    if (this.#isOpen) {
      this.#failure = undefined;
      this.#problem.over();
    }
    this.#openedAt = undefined;
    const { lack, status } = error instanceof ApiError ? error : { lack: undefined, status: 0 };
    if (this.#failure === undefined) this.#since = new Date(clock.wall()).toISOString();
    const since = this.#failure?.since ?? clock.now();
    // The server itself is at fault when it is overloaded or has lost its store.
    const isServers = lack === 'unreachable' || status === 429 || status >= 500;
    this.#failure = { since, isServers, cause: error.message };
    // Further attempts usually fail with the same cause.
    const isNew = this.#problem.met(error.message, clock.now());
    const facts = { of: this.#of, since: this.#since, failures };
    log[isNew ? 'warn' : 'v2'](
      facts,
      `cannot follow ${this.#of} since ${this.#since}: ${error.message}; ${meanwhile}; retrying`,
    );
  }

  /** The API server lacks the optional kind. Logged once. */
  absent(): void {
    const { clock, log, meanwhile } = this.#options;
    this.#openedAt = undefined;
    const cause = `the API server has no ${this.#of}`;
    if (this.#failure?.cause === cause) return;
    this.#since = new Date(clock.wall()).toISOString();
    this.#failure = { since: clock.now(), isServers: false, cause };
    log.info({ of: this.#of }, `${cause}; ${meanwhile}; asking again in an hour, and when slicewire starts`);
  }

  restored(from: string, to: string): void {
    const text = isOlder(to, from)
      ? `the resourceVersion of ${this.#of} went back from ${from} to ${to}: the API server's store was restored; listing everything again`
      : `the API server's store was restored, so that the resourceVersion ${from} of ${this.#of} means something else now; listing everything again`;
    this.#options.log.warn({ of: this.#of, from, to }, text);
  }

  recovered(failures: number): void {
    const facts = { of: this.#of, since: this.#since, failures };
    this.#failure = undefined;
    this.#problem.over();
    this.#options.log.info(facts, `following ${this.#of} again`);
  }
}

/** The watches of several kinds, and whether their first lists are complete. */
export class Watches<Kind extends string> {
  readonly #watches: ReadonlyMap<Kind, Watch<Kind>>;
  readonly #synced = new Set<Kind>();
  readonly #clock: Clock;

  constructor(kinds: readonly Kind[], options: KindWatchOptions) {
    this.#clock = options.clock;
    this.#watches = new Map(kinds.map((kind) => [kind, new Watch(kind, options)]));
  }

  /** The first lists of all kinds are complete. */
  get isSynced(): boolean {
    return this.#synced.size === this.#watches.size;
  }

  get statuses() {
    return [...this.#watches.values()].map((watch) => watch.status);
  }

  /** Lists and watches all kinds until the signal aborts. */
  async follow(
    client: ApiClient,
    partsOf: (kind: Kind, watch: Watch<Kind>) => { readonly resource: Resource; readonly sink: ReflectorSink },
    signal: AbortSignal,
  ): Promise<void> {
    const shared = { client, clock: this.#clock, random: Math.random, pageSize: PAGE };
    await followAll(
      [...this.#watches].map(([kind, watch]) => ({ ...partsOf(kind, watch), ...shared })),
      signal,
    );
  }

  /** The first list of a kind is complete. */
  synced(kind: Kind): void {
    this.#synced.add(kind);
  }
}
