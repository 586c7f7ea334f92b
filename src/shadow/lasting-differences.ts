/** The differences that stand, by Service and kind, each with the moment since when. Pure. */
import type { VerifiedDifference } from '../inspect/wire/verification.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';

/** Differences by Service and kind that are kept with an example; the others are counted. */
export const MAX_KEPT = 5000;

export interface Lasting {
  readonly service: ServiceKey | '';
  readonly kind: VerifiedDifference['kind'];
  /** Milliseconds of the clock that the caller has. */
  readonly since: number;
  readonly connections: number;
  readonly example: VerifiedDifference;
}

export interface LastingChanges {
  readonly begun: readonly Lasting[];
  readonly ended: readonly Lasting[];
}

/** `""` has the addresses that no Service has. */
type Unit = ServiceKey | '';

export class LastingDifferences {
  readonly #byUnit = new Map<Unit, readonly Lasting[]>();
  #size = 0;
  /** The numbers of those that are not kept. */
  readonly #beyond = new Map<Unit, number>();

  /** The number of all, by Service and kind. */
  get count(): number {
    let count = this.#size;
    for (const more of this.#beyond.values()) count += more;
    return count;
  }

  /** The oldest first. */
  get all(): readonly Lasting[] {
    return [...this.#byUnit.values()].flat().sort((a, b) => a.since - b.since);
  }

  /** The Services of which some connections go elsewhere. */
  *services(): Generator<ServiceKey> {
    for (const units of [this.#byUnit, this.#beyond]) for (const unit of units.keys()) if (unit !== '') yield unit;
  }

  /** All connections of a Service were followed, and these go elsewhere. `since` counts for those that are new. Changes of kept ones are returned. */
  found(unit: Unit, differences: readonly VerifiedDifference[], since: number): LastingChanges {
    const before = this.#byUnit.get(unit) ?? [];
    const now = [...Map.groupBy(differences, ({ kind }) => kind)].flatMap(([kind, of]): Lasting[] => {
      const [example] = of;
      if (example === undefined) return [];
      const known = before.find((one) => one.kind === kind);
      return [{ service: unit, kind, since: known?.since ?? since, connections: of.length, example }];
    });
    const kept = now.slice(0, Math.max(0, MAX_KEPT - (this.#size - before.length)));
    this.#size += kept.length - before.length;
    if (kept.length === 0) this.#byUnit.delete(unit);
    else this.#byUnit.set(unit, kept);
    if (now.length === kept.length) this.#beyond.delete(unit);
    else this.#beyond.set(unit, now.length - kept.length);
    const isIn = (list: readonly Lasting[], { kind }: Lasting) => list.some((one) => one.kind === kind);
    return {
      begun: kept.filter((one) => !isIn(before, one)),
      ended: before.filter((one) => !isIn(now, one)),
    };
  }

  /** The Services that are gone: their addresses belong to no Service now. */
  keepOnly(isThere: (service: ServiceKey) => boolean): Lasting[] {
    return [...new Set(this.services())]
      .filter((service) => !isThere(service))
      .flatMap((service) => this.found(service, [], 0).ended);
  }
}
