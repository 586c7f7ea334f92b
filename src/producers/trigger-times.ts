/** When the change happened for which a Service's slices are written: what the latency of the whole way is measured from (KEP-752). */
import type { ObjectKey, PodView, SelectingService } from './objects.ts';

interface Seen {
  readonly service: number;
  readonly pods: ReadonlyMap<string, number>;
}

export class TriggerTimes {
  readonly #seen = new Map<ObjectKey, Seen>();

  /**
   * Of what changed since the last call for this Service, the time of the earliest: of a Pod when its readiness changed,
   * of a Service when it was created. Milliseconds since 1970; 0 when nothing that says its time did.
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

  forget(service: ObjectKey): void {
    this.#seen.delete(service);
  }
}
