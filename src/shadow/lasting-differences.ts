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
  #beyond = 0;

  /** The number of all, by Service and kind. */
  get count(): number {
    return this.#size + this.#beyond;
  }

  /** The oldest first. */
  get all(): readonly Lasting[] {
    return [...this.#byUnit.values()].flat().sort((a, b) => a.since - b.since);
  }

  /** The Services of which some connections go elsewhere. */
  get units(): ReadonlySet<Unit> {
    return new Set(this.#byUnit.keys());
  }

  /** All connections of a Service were followed, and these go elsewhere. `since` counts for those that are new. */
  found(unit: Unit, differences: readonly VerifiedDifference[], since: number): LastingChanges {
    const before = this.#byUnit.get(unit) ?? [];
    const byKind = Map.groupBy(differences, ({ kind }) => kind);
    const now: Lasting[] = [];
    for (const [kind, of] of byKind) {
      const [example] = of;
      if (example === undefined) continue;
      const known = before.find((one) => one.kind === kind);
      now.push({ service: unit, kind, since: known?.since ?? since, connections: of.length, example });
    }
    const begun = now.filter(({ kind }) => !before.some((one) => one.kind === kind));
    const ended = before.filter(({ kind }) => !now.some((one) => one.kind === kind));
    const room = MAX_KEPT - (this.#size - before.length);
    const kept = now.slice(0, Math.max(0, room));
    this.#size += kept.length - before.length;
    if (kept.length === 0) this.#byUnit.delete(unit);
    else this.#byUnit.set(unit, kept);
    this.#beyond += now.length - kept.length;
    return { begun, ended };
  }

  /** A comparison of all Services begins: those beyond the limit are counted anew. */
  roundBegins(): void {
    this.#beyond = 0;
  }

  /** The Services that are gone: their addresses belong to no Service now. */
  keepOnly(isThere: (service: ServiceKey) => boolean): Lasting[] {
    const gone: Lasting[] = [];
    for (const [unit, lasting] of [...this.#byUnit]) {
      if (unit === '' || isThere(unit)) continue;
      gone.push(...lasting);
      this.found(unit, [], 0);
    }
    return gone;
  }
}
