/**
 * Lines of the log about many objects, such as their faults. The first lines of a kind are logged as they are; of very many, the rest share
 * one line with their number: a broken generator of manifests must not fill a disk, nor hide other lines.
 */
import type { Clock } from '../base/clock.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import { type Fault, faultText } from '../proxy/model/objects.ts';
import type { Log } from './log.ts';

/** Lines of a kind at once; after these, one more in each period. */
const BURST = 20;
const REFILL_MS = 30_000;
/** Milliseconds from the first line that was left out to the line with their number, and from one such line to the next. */
const SETTLE_MS = 1000;
const NEXT_LINE_MS = 60_000;

interface RationedLine {
  readonly kind: string;
  readonly level: 'info' | 'warn';
  readonly facts: object;
  readonly text: string;
}

interface RationedLinesOptions {
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
  write({ kind, level, facts, text }: RationedLine): boolean {
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
    const rate = new TokenBucket({ burst: BURST, refill: REFILL_MS }, now);
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

interface FaultLogOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** The end of the line with their number: how to see all faults. */
  readonly seeAll?: string;
}

export const SEE_ALL_OF_AGENT =
  'slicewire plan --output json lists all, slicewire_faults in /metrics counts them, -v 4 logs each';
export const SEE_ALL_OF_CONTROLLER = '-v 4 logs each';

export class FaultLog {
  readonly #lines: RationedLines;

  constructor({ log, clock, seeAll = SEE_ALL_OF_AGENT }: FaultLogOptions) {
    this.#lines = new RationedLines({
      log,
      clock,
      rest: 'debug',
      counted(kind, count) {
        const more = count === 1 ? '1 more fault of this kind is' : `${count} more faults of this kind are`;
        return `${kind}: ${more} not logged one by one: ${seeAll}`;
      },
    });
  }

  /** Returns whether the fault has a line of its own. Faults are warnings, but for fields that merely have no effect on this node. */
  log(fault: Fault): boolean {
    return this.#lines.write({ kind: kindOf(fault), level: levelOf(fault), facts: { fault }, text: faultText(fault) });
  }

  /** Log the pending numbers at once, at the end. */
  flush(): void {
    this.#lines.flush();
  }
}

function levelOf({ effect }: Fault): 'info' | 'warn' {
  return effect === 'no effect here' ? 'info' : 'warn';
}

/** `Service spec.ports (object set aside)`. Only the first two names of a path: users choose keys of labels, without limit. */
function kindOf({ kind, field, effect }: Fault): string {
  const path = field
    .replace(/\[[^\]]*\]/g, '')
    .replace(/[ :].*$/s, '')
    .split('.')
    .slice(0, 2)
    .join('.');
  return `${kind}${path === '' ? '' : ` ${path}`} (${effect})`;
}
