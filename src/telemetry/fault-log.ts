/**
 * Faults in the log. The first of a kind are told one by one; where there are very many, the rest are told by their number:
 * one broken generator of manifests must not fill a disk, nor hide what else is said.
 */
import type { Clock } from '../host/clock.ts';
import { type Fault, faultText } from '../model/objects.ts';
import { TokenBucket } from '../model/token-bucket.ts';
import type { Log } from './log.ts';

/** Lines of a kind that may be told at once; after that one more each `REFILL` milliseconds. */
const BURST = 20;
const REFILL = 30_000;
/** Milliseconds from the first fault that is not told to the line with their number, and from one such line to the next. */
const SETTLE = 1000;
const AGAIN = 60_000;

export interface FaultLogOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** Where all of them can be seen. */
  readonly seeAll?: string;
}

export const SEE_ALL_OF_AGENT =
  'slicewire plan --output json lists all, slicewire_faults in /metrics counts them, -v 4 tells each';
export const SEE_ALL_OF_CONTROLLER = '-v 4 tells each';

/** Faults of one kind: the same kind of object, part of it, and consequence. */
interface Bucket {
  readonly rate: TokenBucket;
  unreported: number;
  /** When their number was told last. */
  saidAt: number;
  cancel: (() => void) | undefined;
}

export class FaultLog {
  readonly #options: FaultLogOptions;
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: FaultLogOptions) {
    this.#options = options;
  }

  /** Returns whether it was told by itself. A mistake is a warning; what merely has no effect on this node is not. */
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

  /** Tell at once what was only counted: nothing comes any more. */
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
    const made = { rate, unreported: 0, saidAt: now - AGAIN, cancel: undefined };
    this.#buckets.set(kind, made);
    return made;
  }

  #logCountSoon(kind: string, bucket: Bucket, level: 'info' | 'warn'): void {
    if (bucket.cancel !== undefined) return;
    const { clock } = this.#options;
    bucket.cancel = clock.after(Math.max(SETTLE, bucket.saidAt + AGAIN - clock.now()), () => {
      bucket.cancel = undefined;
      this.#logCount(kind, bucket, level);
    });
  }

  #logCount(kind: string, bucket: Bucket, level: 'info' | 'warn'): void {
    const { log, clock, seeAll = SEE_ALL_OF_AGENT } = this.#options;
    const count = bucket.unreported;
    if (count === 0) return;
    bucket.unreported = 0;
    bucket.saidAt = clock.now();
    const more = count === 1 ? '1 more fault of this kind is' : `${count} more faults of this kind are`;
    log[level]({ kind, count }, `${kind}: ${more} not told one by one: ${seeAll}`);
  }
}

function levelOf({ effect }: Fault): 'info' | 'warn' {
  return effect === 'no effect here' ? 'info' : 'warn';
}

/** `Service spec.ports (object set aside)`. Of a path only what the API itself names: keys of labels are anybody's to choose. */
function kindOf({ kind, field, effect }: Fault): string {
  const path = field
    .replace(/\[[^\]]*\]/g, '')
    .replace(/[ :].*$/s, '')
    .split('.')
    .slice(0, 2)
    .join('.');
  return `${kind}${path === '' ? '' : ` ${path}`} (${effect})`;
}
