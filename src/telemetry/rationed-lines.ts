/**
 * Lines of the log about many objects. The first lines of a kind are logged as they are; of very many, the rest share a line with their
 * number: one broken generator of manifests must not fill a disk, nor hide other lines.
 */
import type { Clock } from '../base/clock.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import type { Log } from './log.ts';

/** Lines of a kind at once; after that one more every `REFILL` milliseconds. */
const BURST = 20;
const REFILL = 30_000;
/** Milliseconds from the first line that was left out to the line with their number, and from one such line to the next. */
const SETTLE_MS = 1000;
const NEXT_LINE_MS = 60_000;

export interface RationedLine {
  readonly kind: string;
  readonly level: 'info' | 'warn';
  readonly facts: object;
  readonly text: string;
}

export interface RationedLinesOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** The level of the lines that are left out. */
  readonly rest: 'v2' | 'debug';
  /** The line with their number. */
  readonly counted: (kind: string, count: number) => string;
}

/** Lines of one kind. */
interface Bucket {
  readonly rate: TokenBucket;
  readonly level: RationedLine['level'];
  unreported: number;
  /** Time of the last line with their number. */
  countedAt: number;
  cancel: (() => void) | undefined;
}

export class RationedLines {
  readonly #options: RationedLinesOptions;
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: RationedLinesOptions) {
    this.#options = options;
  }

  /** Returns whether the line is logged by itself. Lines of a kind have one level. */
  say({ kind, level, facts, text }: RationedLine): boolean {
    const { log, clock, rest } = this.#options;
    const bucket = this.#bucket(kind, level);
    if (bucket.rate.take(clock.now())) {
      log[level](facts, text);
      return true;
    }
    log[rest](facts, text);
    bucket.unreported += 1;
    this.#logCountSoon(kind, bucket);
    return false;
  }

  /** Log the pending numbers at once, at the end. */
  flush(): void {
    for (const [kind, bucket] of this.#buckets) {
      bucket.cancel?.();
      bucket.cancel = undefined;
      this.#logCount(kind, bucket);
    }
  }

  #bucket(kind: string, level: RationedLine['level']): Bucket {
    const known = this.#buckets.get(kind);
    if (known !== undefined) return known;
    const now = this.#options.clock.now();
    const rate = new TokenBucket({ burst: BURST, refill: REFILL }, now);
    const made = { rate, level, unreported: 0, countedAt: now - NEXT_LINE_MS, cancel: undefined };
    this.#buckets.set(kind, made);
    return made;
  }

  #logCountSoon(kind: string, bucket: Bucket): void {
    if (bucket.cancel !== undefined) return;
    const { clock } = this.#options;
    bucket.cancel = clock.after(Math.max(SETTLE_MS, bucket.countedAt + NEXT_LINE_MS - clock.now()), () => {
      bucket.cancel = undefined;
      this.#logCount(kind, bucket);
    });
  }

  #logCount(kind: string, bucket: Bucket): void {
    const { log, clock, counted } = this.#options;
    const count = bucket.unreported;
    if (count === 0) return;
    bucket.unreported = 0;
    bucket.countedAt = clock.now();
    log[bucket.level]({ kind, count }, counted(kind, count));
  }
}
