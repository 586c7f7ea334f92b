/** What changed in the cache since the last sync took the changes, and how many events came. */
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { TakenChanges } from '../../proxy/sync/loop.ts';

/** The number of events, and the number of Services with a change that no sync has taken yet. */
export interface ChangeCounts {
  readonly total: number;
  readonly pending: number;
}

export class PendingChanges {
  readonly #totals = { services: 0, slices: 0 };
  /** Services with a change, by the kind of object that changed. */
  #touched = { services: new Set<ServiceKey>(), slices: new Set<ServiceKey>() };
  #isNodeTouched = false;
  #triggers: number[] = [];

  get isEmpty(): boolean {
    return this.#touched.services.size === 0 && this.#touched.slices.size === 0 && !this.#isNodeTouched;
  }

  count(of: 'services' | 'slices'): void {
    this.#totals[of] += 1;
  }

  counts(of: 'services' | 'slices'): ChangeCounts {
    return { total: this.#totals[of], pending: this.#touched[of].size };
  }

  touch(of: 'services' | 'slices', key: ServiceKey): void {
    this.#touched[of].add(key);
  }

  touchNode(): void {
    this.#isNodeTouched = true;
  }

  /** `at`: milliseconds since 1970. */
  addTrigger(at: number): void {
    this.#triggers.push(at);
  }

  /** All changes; each is returned once. */
  take(): TakenChanges {
    const services = this.#touched.services.union(this.#touched.slices);
    const changes = { services, node: this.#isNodeTouched, triggers: this.#triggers };
    this.#touched = { services: new Set(), slices: new Set() };
    this.#isNodeTouched = false;
    this.#triggers = [];
    return changes;
  }
}
