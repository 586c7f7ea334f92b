/** The time of the change for which a Service's slices are written. The end-to-end latency is measured from it (KEP-752). */
import type { ObjectKey, PodView, SelectingService } from './api-objects.ts';
import { PackedMap } from './packing.ts';

interface TriggerTimesOf {
  readonly service: number;
  /** Names of Pods, and the time of each. */
  readonly pods: readonly string[];
  readonly times: readonly number[];
}

/** Remembers the times of earlier changes. */
export class TriggerTimes {
  readonly #seen = new PackedMap<TriggerTimesOf>();

  /**
   * The time of the earliest change since the last call for this Service: a change of a Pod's readiness, or the creation of the
   * Service. Milliseconds since 1970; 0 when no change has a time.
   */
  take(service: SelectingService, pods: Iterable<PodView>): number {
    const before = this.#seen.get(service.key);
    const timeBefore = new Map(before?.pods.map((name, i) => [name, before.times[i]]));
    const seen = { service: service.createdAt, pods: [] as string[], times: [] as number[] };
    let earliest = Number.POSITIVE_INFINITY;
    const consider = (time: number, last: number) => {
      if (time > last) earliest = Math.min(earliest, time);
    };
    for (const { name, readySince } of pods) {
      if (readySince === 0) continue;
      seen.pods.push(name);
      seen.times.push(readySince);
      consider(readySince, timeBefore.get(name) ?? 0);
    }
    consider(service.createdAt, before?.service ?? 0);
    this.#seen.set(service.key, seen);
    if (before === undefined) return service.createdAt;
    return earliest === Number.POSITIVE_INFINITY ? 0 : earliest;
  }

  /** The Service was deleted. */
  forget(service: ObjectKey): void {
    this.#seen.delete(service);
  }
}
