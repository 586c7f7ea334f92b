/** The time of the change for which a Service's slices are written. The end-to-end latency is measured from it (KEP-752). */
import type { ObjectKey, PodView, SelectingService } from './objects.ts';

interface Seen {
  readonly service: number;
  readonly pods: ReadonlyMap<string, number>;
}

/** Remembers the times of earlier changes. */
export class TriggerTimes {
  readonly #seen = new Map<ObjectKey, Seen>();

  /**
   * The time of the earliest change since the last call for this Service: a change of a Pod's readiness, or the creation of the
   * Service. Milliseconds since 1970; 0 when no change has a time.
   */
  take(service: SelectingService, pods: Iterable<PodView>): number {
    const before = this.#seen.get(service.key);
    const times = new Map<string, number>();
    let earliest = Number.POSITIVE_INFINITY;
    const consider = (time: number, last: number) => {
      if (time > last) earliest = Math.min(earliest, time);
    };
    for (const { name, readySince } of pods) {
      if (readySince === 0) continue;
      times.set(name, readySince);
      consider(readySince, before?.pods.get(name) ?? 0);
    }
    consider(service.createdAt, before?.service ?? 0);
    this.#seen.set(service.key, { service: service.createdAt, pods: times });
    if (before === undefined) return service.createdAt;
    return earliest === Number.POSITIVE_INFINITY ? 0 : earliest;
  }

  /** The Service was deleted. */
  forget(service: ObjectKey): void {
    this.#seen.delete(service);
  }
}
