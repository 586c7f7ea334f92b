/** Kernel objects to which nothing leads any more, with the time since when. Each is deleted after it was idle long enough. */
import type { Delta } from '../../reconcile/tracker.ts';

export interface DelayedRemovalOptions {
  /**
   * Milliseconds for which unused chains, sets, and hairpin elements stay, because packets may still need them. A packet goes
   * through the chains of the state in which it began. The kernel keeps two states, so a second change right after the first
   * would empty those chains. And a packet is masqueraded some time after it was translated.
   */
  readonly keep: number;
  /** Milliseconds on a monotonic clock. */
  readonly now: () => number;
}

/**
 * Drops the removals that are not due yet from a delta; `kind` distinguishes names of different kinds. What is in use is due at once,
 * although nobody wants it.
 */
export type DueOnly = <T extends R, R>(
  kind: string,
  delta: Delta<string, T, R>,
  isInUse?: (value: R) => boolean,
) => Delta<string, T, R>;

export class DelayedRemoval {
  readonly #options: DelayedRemovalOptions;
  #since: ReadonlyMap<string, number> = new Map();

  constructor(options: DelayedRemovalOptions) {
    this.#options = options;
  }

  /** Objects that are idle and not due yet. */
  get size(): number {
    return this.#since.size;
  }

  /** Begin a plan. Objects about which the result is not asked are no longer idle. */
  begin(): DueOnly {
    const before = this.#since;
    const idle = new Map<string, number>();
    this.#since = idle;
    const now = this.#options.now();
    return (kind, delta, isInUse = () => false) => {
      const isDue = (name: string) => {
        const since = before.get(`${kind} ${name}`) ?? now;
        if (now - since >= this.#options.keep) return true;
        idle.set(`${kind} ${name}`, since);
        return false;
      };
      return { ...delta, remove: new Map([...delta.remove].filter(([name, value]) => isInUse(value) || isDue(name))) };
    };
  }
}
