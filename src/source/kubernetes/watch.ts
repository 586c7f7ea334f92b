/** How well one kind of object can be followed. */
import type { Clock } from '../../host/clock.ts';
import type { WatchStatus } from '../../model/events.ts';
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
export function watchSink(watch: Watch<string>): Pick<ReflectorSink, 'heard' | 'opened' | 'failed' | 'recovered'> {
  return {
    heard: () => watch.heard(),
    opened: () => watch.opened(),
    failed: (error, failures) => watch.failed(error, failures),
    recovered: (failures) => watch.recovered(failures),
  };
}

type WatchFailure = NonNullable<WatchStatus['failure']>;

/** So often in a row a watch may stand and be silent: when that comes again, something swallows what is sent. */
const MOST_SILENCES = 2;

/** How well one kind can be followed: for the log, and for those who ask. */
export class Watch<Kind extends string> {
  readonly #of: Kind;
  readonly #options: WatchOptions;
  #heardAt: number;
  /** When the watch that stands now was opened. */
  #openedAt: number | undefined;
  #failure: WatchFailure | undefined;
  /** Watches in a row that stood and were silent. */
  #silences = 0;
  /** As people read it. */
  #since = '';

  constructor(of: Kind, options: WatchOptions) {
    this.#of = of;
    this.#options = options;
    this.#heardAt = options.clock.now();
  }

  get status(): { readonly of: Kind; readonly heardAt: number; readonly failure: WatchFailure | undefined } {
    // A watch that stands works, though a quiet cluster says nothing on it for a minute.
    const isOpen = this.#openedAt !== undefined && this.#options.clock.now() - this.#openedAt >= SHORT_WATCH;
    const stands = isOpen && this.#silences < MOST_SILENCES;
    return { of: this.#of, heardAt: this.#heardAt, failure: stands ? undefined : this.#failure };
  }

  heard(): void {
    this.#heardAt = this.#options.clock.now();
  }

  opened(): void {
    this.#openedAt = this.#options.clock.now();
    this.heard();
  }

  failed(error: Error, failures: number): void {
    this.#openedAt = undefined;
    const { clock, log, meanwhile, isOptional = false } = this.#options;
    const { lack, status } = error instanceof ApiError ? error : { lack: undefined, status: 0 };
    if (this.#failure === undefined) this.#since = new Date(clock.wall()).toISOString();
    // Who was silent for too long has not been followed for as long.
    const since = this.#failure?.since ?? (lack === 'silent' ? this.#heardAt : clock.now());
    // A server that is overloaded or has lost its own store is ill itself.
    const isServers = lack === 'unreachable' || status === 429 || status >= 500;
    const isTold = isOptional && this.#failure?.cause === error.message;
    this.#failure = { since, isServers, cause: error.message };
    this.#silences = lack === 'silent' ? this.#silences + 1 : 0;
    if (isTold) return;
    const facts = { of: this.#of, since: this.#since, failures };
    log.warn(facts, `cannot follow ${this.#of} since ${this.#since}: ${error.message}; ${meanwhile}, trying again`);
  }

  recovered(failures: number): void {
    this.#silences = 0;
    const facts = { of: this.#of, since: this.#since, failures };
    this.#failure = undefined;
    this.#options.log.info(facts, `following ${this.#of} again`);
  }
}
