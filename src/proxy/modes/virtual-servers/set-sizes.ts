/** How large the sets of one family are, and how large they must be: entries and maxelem of each, as believed. Does no I/O. */
import type { SetSpec } from '../../../kernel/ipvs-kernel.ts';
import type { OwnedEntry } from './objects.ts';
import { isBitmap, KUBE_PROXY_MAXELEM, maxelemOf, type SetId } from './sets.ts';

export class SetSizes {
  readonly #entries = new Map<SetId, number>();
  readonly #maxelem = new Map<SetId, number>();
  /** Those that this agent enlarged. */
  readonly #enlarged = new Set<SetId>();

  /** The sets were read. */
  observe(sets: ReadonlyMap<SetId, SetSpec>, entries: Iterable<Pick<OwnedEntry, 'set'>>): void {
    this.#entries.clear();
    this.#maxelem.clear();
    for (const { set } of entries) this.changed(set, 1);
    for (const [id, { maxelem }] of sets) if (!isBitmap(id)) this.#maxelem.set(id, maxelem);
  }

  /** A set has more entries, or fewer. */
  changed(id: SetId, more: number): void {
    this.#entries.set(id, (this.#entries.get(id) ?? 0) + more);
  }

  /** A set was created or resized. */
  became(id: SetId, maxelem: number): void {
    if (isBitmap(id)) return;
    this.#maxelem.set(id, maxelem);
    if (maxelem > KUBE_PROXY_MAXELEM) this.#enlarged.add(id);
    else this.#enlarged.delete(id);
  }

  gone(id: SetId): void {
    this.#entries.delete(id);
    this.#maxelem.delete(id);
    this.#enlarged.delete(id);
  }

  /** Its maxelem in the kernel; undefined: it does not exist, or is a bitmap. */
  now(id: SetId): number | undefined {
    return this.#maxelem.get(id);
  }

  /** The maxelem that a set should have when it takes so many entries more. */
  wanted(id: SetId, more: number): number {
    const entries = (this.#entries.get(id) ?? 0) + more;
    return maxelemOf(id, { entries, now: this.now(id), isEnlarged: this.#enlarged.has(id) });
  }
}
