/** EndpointSlices, kept by name under the Service that they name. */
import { sameData } from '../model/equal.ts';
import type { ServiceKey, Slice, SliceKey } from '../model/objects.ts';

/**
 * An endpoint that moves from one slice to another is in at least one of them at any time, whatever the order of the events:
 * a slice replaces the slice of its own name alone.
 */
export class SlicesByService {
  /** Most Services have one slice: a list each takes a quarter of the memory of a map. */
  readonly #slices = new Map<ServiceKey, readonly Slice[]>();
  readonly #serviceOfSlice = new Map<SliceKey, ServiceKey>();
  readonly #onTouch: (service: ServiceKey) => void;

  /** `onTouch` is called for each Service whose slices changed. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  of(key: ServiceKey): readonly Slice[] {
    return this.#slices.get(key) ?? [];
  }

  get(key: SliceKey): Slice | undefined {
    const service = this.#serviceOfSlice.get(key);
    return service === undefined ? undefined : this.of(service).find((slice) => slice.key === key);
  }

  *all(): Generator<Slice> {
    for (const slices of this.#slices.values()) yield* slices;
  }

  /** Set or remove a slice. Returns whether the slice exists and changed. */
  set(key: SliceKey, slice: Slice | undefined): boolean {
    const before = this.#serviceOfSlice.get(key);
    const now = slice?.service;
    if (before !== undefined && before !== now) this.#drop(before, key);
    if (slice === undefined) return false;
    const ofService = this.#slices.get(slice.service) ?? [];
    const at = ofService.findIndex((other) => other.key === key);
    if (at >= 0 && sameData(slice, ofService[at])) return false;
    this.#slices.set(slice.service, at < 0 ? [...ofService, slice] : ofService.with(at, slice));
    this.#serviceOfSlice.set(key, slice.service);
    this.#onTouch(slice.service);
    return true;
  }

  #drop(service: ServiceKey, key: SliceKey): void {
    const left = (this.#slices.get(service) ?? []).filter((other) => other.key !== key);
    if (left.length > 0) this.#slices.set(service, left);
    else this.#slices.delete(service);
    this.#serviceOfSlice.delete(key);
    this.#onTouch(service);
  }
}
