/** Who may write to the kernel, or compare it with the desired state, takes a turn: a sync, a check, or an answer. */
import { createMutex } from '../base/mutex.ts';

export class KernelLock {
  readonly #mutex = createMutex();
  #syncs = 0;

  /** The number of syncs that began: two equal numbers mean that none wrote in between. */
  get syncs(): number {
    return this.#syncs;
  }

  /** Run a sync, while nothing else has a turn. */
  sync<T>(work: () => Promise<T>): Promise<T> {
    return this.#mutex(() => {
      this.#syncs += 1;
      return work();
    });
  }

  /** Run something else, while no sync runs. */
  readonly between = <T>(work: () => Promise<T>): Promise<T> => this.#mutex(work);
}
