/**
 * Faults in the log. The first faults of a kind have a line each; of very many, the rest share a line with their number: one broken
 * generator of manifests must not fill a disk, nor hide other lines.
 */
import type { Clock } from '../host/clock.ts';
import { type Fault, faultText } from '../model/objects.ts';
import { TokenBucket } from '../model/token-bucket.ts';
import type { Log } from './log.ts';

/** Lines of a kind at once; after that one more every `REFILL` milliseconds. */
const BURST = 20;
const REFILL = 30_000;
/** Milliseconds from the first fault without a line of its own to the line with their number, and from one such line to the next. */
const SETTLE = 1000;
const AGAIN = 60_000;

export interface FaultLogOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** How to see all faults, for the line with their number. */
  readonly seeAll?: string;
}

export const SEE_ALL_OF_AGENT =
  'slicewire plan --output json lists all, slicewire_faults in /metrics counts them, -v 4 logs each';
export const SEE_ALL_OF_CONTROLLER = '-v 4 logs each';

/** Faults of one kind: the same kind of object, part of it, and consequence. */
interface Bucket {
  readonly rate: TokenBucket;
  unreported: number;
  /** Time of the last line with their number. */
  countedAt: number;
  cancel: (() => void) | undefined;
}

export class FaultLog {
  readonly #options: FaultLogOptions;
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: FaultLogOptions) {
    this.#options = options;
  }

  /** Returns whether the fault has a line of its own. Faults are warnings, but for fields that merely have no effect on this node. */
  log(fault: Fault): boolean {
    const { log } = this.#options;
    const kind = kindOf(fault);
    const bucket = this.#bucket(kind);
    if (bucket.rate.take(this.#options.clock.now())) {
      log[levelOf(fault)]({ fault }, faultText(fault));
      return true;
    }
    log.debug({ fault }, faultText(fault));
    bucket.unreported += 1;
    this.#logCountSoon(kind, bucket, levelOf(fault));
    return false;
  }

  /** Log the pending numbers at once, at the end. */
  flush(): void {
    for (const [kind, bucket] of this.#buckets) {
      bucket.cancel?.();
      bucket.cancel = undefined;
      this.#logCount(kind, bucket, kind.endsWith('(no effect here)') ? 'info' : 'warn');
    }
  }

  #bucket(kind: string): Bucket {
    const known = this.#buckets.get(kind);
    if (known !== undefined) return known;
    const now = this.#options.clock.now();
    const rate = new TokenBucket({ burst: BURST, refill: REFILL }, now);
    const made = { rate, unreported: 0, countedAt: now - AGAIN, cancel: undefined };
    this.#buckets.set(kind, made);
    return made;
  }

  #logCountSoon(kind: string, bucket: Bucket, level: 'info' | 'warn'): void {
    if (bucket.cancel !== undefined) return;
    const { clock } = this.#options;
    bucket.cancel = clock.after(Math.max(SETTLE, bucket.countedAt + AGAIN - clock.now()), () => {
      bucket.cancel = undefined;
      this.#logCount(kind, bucket, level);
    });
  }

  #logCount(kind: string, bucket: Bucket, level: 'info' | 'warn'): void {
    const { log, clock, seeAll = SEE_ALL_OF_AGENT } = this.#options;
    const count = bucket.unreported;
    if (count === 0) return;
    bucket.unreported = 0;
    bucket.countedAt = clock.now();
    const more = count === 1 ? '1 more fault of this kind is' : `${count} more faults of this kind are`;
    log[level]({ kind, count }, `${kind}: ${more} not logged one by one: ${seeAll}`);
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
