/** Kernel objects to which nothing leads any more, and since when: each is deleted once it was idle for long enough. */
import type { Delta } from '../../reconcile/tracker.ts';

export interface IdleOptions {
  /**
   * Milliseconds for which a chain or set stays to which nothing leads any more, and the right of an endpoint to reach itself:
   * packets are on their way. They go through the chains of the state in which they began, of which the kernel keeps two, so that
   * a second change right after the first would empty them; and they are masqueraded some time after they were translated.
   */
  readonly keep: number;
  /** Milliseconds on a clock that never runs backwards. */
  readonly now: () => number;
}

/** Takes from a delta those removals that are not due yet; `kind` tells names of different kinds apart. */
export type DueOnly = <T>(kind: string, delta: Delta<string, T>) => Delta<string, T>;

export class Idle {
  readonly #options: IdleOptions;
  #since: ReadonlyMap<string, number> = new Map();

  constructor(options: IdleOptions) {
    this.#options = options;
  }

  /** Objects that are idle and not due yet. */
  get size(): number {
    return this.#since.size;
  }

  /** Begin a plan: what the result is not asked about is idle no longer. */
  begin(): DueOnly {
    const before = this.#since;
    const idle = new Map<string, number>();
    this.#since = idle;
    const now = this.#options.now();
    return (kind, delta) => {
      const isDue = (name: string) => {
        const since = before.get(`${kind} ${name}`) ?? now;
        if (now - since >= this.#options.keep) return true;
        idle.set(`${kind} ${name}`, since);
        return false;
      };
      return { ...delta, remove: new Map([...delta.remove].filter(([name]) => isDue(name))) };
    };
  }
}
