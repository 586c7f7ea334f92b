/** How well one kind of object can be followed. */
import type { Clock } from '../host/clock.ts';
import type { WatchStatus } from '../model/events.ts';
import { ApiError } from './client.ts';
import { type ReflectorSink, SHORT_WATCH } from './reflector.ts';

/** The little of pino that is used. */
export interface SourceLog {
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
}

interface WatchOptions {
  readonly clock: Clock;
  readonly log: SourceLog;
  /** What becomes of the work while nothing is heard. */
  readonly meanwhile: string;
  /** Of use, and not needed, as where the API server does not have it: why it cannot be followed is told once. */
  readonly isOptional?: boolean;
}

/** What of a reflector's sink concerns how well it can follow. */
export function watchSink(
  watch: Watch<string>,
): Pick<ReflectorSink, 'heard' | 'opened' | 'failed' | 'recovered' | 'restored'> {
  return {
    heard: () => watch.heard(),
    opened: () => watch.opened(),
    failed: (error, failures) => watch.failed(error, failures),
    recovered: (failures) => watch.recovered(failures),
    restored: (from, to) => watch.restored(from, to),
  };
}

type WatchFailure = NonNullable<WatchStatus['failure']>;

/** How well one kind can be followed: for the log, and for those who ask. */
export class Watch<Kind extends string> {
  readonly #of: Kind;
  readonly #options: WatchOptions;
  #heardAt: number;
  /** When the watch that stands now was opened. */
  #openedAt: number | undefined;
  #failure: WatchFailure | undefined;
  /** As people read it. */
  #since = '';

  constructor(of: Kind, options: WatchOptions) {
    this.#of = of;
    this.#options = options;
    this.#heardAt = options.clock.now();
  }

  get status(): { readonly of: Kind; readonly heardAt: number; readonly failure: WatchFailure | undefined } {
    return { of: this.#of, heardAt: this.#heardAt, failure: this.#stands ? undefined : this.#failure };
  }

  /** A watch that stands works, though a quiet cluster says nothing on it: the connection is asked whether it lives. */
  get #stands(): boolean {
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
    const { clock, log, meanwhile, isOptional = false } = this.#options;
    // A watch stood until now: what failed before it is over.
    if (this.#stands) this.#failure = undefined;
    this.#openedAt = undefined;
    const { lack, status } = error instanceof ApiError ? error : { lack: undefined, status: 0 };
    if (this.#failure === undefined) this.#since = new Date(clock.wall()).toISOString();
    const since = this.#failure?.since ?? clock.now();
    // A server that is overloaded or has lost its own store is ill itself.
    const isServers = lack === 'unreachable' || status === 429 || status >= 500;
    const isReported = isOptional && this.#failure?.cause === error.message;
    this.#failure = { since, isServers, cause: error.message };
    if (isReported) return;
    const facts = { of: this.#of, since: this.#since, failures };
    log.warn(facts, `cannot follow ${this.#of} since ${this.#since}: ${error.message}; ${meanwhile}; retrying`);
  }

  restored(from: string, to: string): void {
    const text = `the resourceVersion of ${this.#of} went back from ${from} to ${to}: the API server's store was restored; listing everything again`;
    this.#options.log.warn({ of: this.#of, from, to }, text);
  }

  recovered(failures: number): void {
    const facts = { of: this.#of, since: this.#since, failures };
    this.#failure = undefined;
    this.#options.log.info(facts, `following ${this.#of} again`);
  }
}
