/** EndpointSlices, kept by name under the Service that they name, each packed (`proxy/model/packed/`). */
import type { ServiceKey, Slice, SliceKey } from '../../proxy/model/objects.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import {
  keyOfSlice,
  Names,
  packedVersion,
  packSlice,
  sameContent,
  unpackSlice,
} from '../../proxy/model/packed/objects.ts';

/** Names of nodes that went and came until those of nodes that are gone are forgotten. */
const NAMES = 20_000;

/** Called with the slice as it was, and its resourceVersion; undefined and "": there was none. */
type OnSliceChanged = (before: Slice | undefined, version: string) => void;

/**
 * An endpoint that moves from one slice to another is in at least one of them at any time, whatever the order of the events:
 * a slice replaces the slice of its own name alone.
 */
export class SlicesByService {
  /** Most Services have one slice: it stands there without a list. */
  readonly #slices = new Map<ServiceKey, Packed<Slice> | readonly Packed<Slice>[]>();
  /** Of slices whose name does not begin with that of their Service. */
  readonly #serviceOfSlice = new Map<SliceKey, ServiceKey>();
  readonly #onTouch: (service: ServiceKey) => void;
  #count = 0;
  #names = new Names();
  #namesAtMost = NAMES;

  /** `onTouch` is called for each Service whose slices changed. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  of(key: ServiceKey): readonly Slice[] {
    return this.#of(key).map((slice) => unpackSlice(key, slice, this.#names));
  }

  /** The same with `===` as long as no slice of the Service changes, nor the resourceVersion of one. */
  versionOf(key: ServiceKey): unknown {
    return this.#slices.get(key);
  }

  get(key: SliceKey): Slice | undefined {
    const service = this.serviceOf(key);
    const packed = service === undefined ? undefined : this.#packed(service, key);
    return service === undefined || packed === undefined ? undefined : unpackSlice(service, packed, this.#names);
  }

  /** The resourceVersion of a slice; "": there is none, or its source has no versions. */
  resourceVersion(key: SliceKey): string {
    const service = this.serviceOf(key);
    const packed = service === undefined ? undefined : this.#packed(service, key);
    return packed === undefined ? '' : packedVersion(packed);
  }

  /** The number of all slices. */
  get count(): number {
    return this.#count;
  }

  *all(): Generator<Slice> {
    for (const key of this.#slices.keys()) yield* this.of(key);
  }

  /**
   * Set or remove a slice; `version`: its resourceVersion, "" for none. Returns whether the slice exists and changed. `changed` is
   * called with the former slice and its version where there is another one now, or none.
   */
  set(key: SliceKey, slice: Slice | undefined, version = '', changed?: OnSliceChanged): boolean {
    if (slice !== undefined) this.#forgetNames();
    const before = this.serviceOf(key);
    const now = slice?.service;
    // A slice is unpacked only for somebody who asks for it.
    let former: Packed<Slice> | undefined;
    if (before !== undefined && before !== now) {
      former = this.#packed(before, key);
      this.#drop(before, key);
    }
    if (slice === undefined) {
      if (before !== undefined) this.#report(before, former, changed);
      return false;
    }
    const { service } = slice;
    const packed = packSlice(slice, this.#names, version);
    const ofService = this.#of(service);
    const at = ofService.findIndex((other) => keyOfSlice(service, other) === key);
    const same = ofService[at];
    if (same === packed) return false;
    this.#put(service, at < 0 ? [...ofService, packed] : ofService.with(at, packed));
    if (same !== undefined && sameContent(same, packed)) return false;
    if (likelyService(key) !== service) this.#serviceOfSlice.set(key, service);
    this.#onTouch(service);
    this.#report(same === undefined ? (before ?? service) : service, same ?? former, changed);
    return true;
  }

  #report(service: ServiceKey, former: Packed<Slice> | undefined, changed: OnSliceChanged | undefined): void {
    if (changed === undefined) return;
    if (former === undefined) changed(undefined, '');
    else changed(unpackSlice(service, former, this.#names), packedVersion(former));
  }

  #drop(service: ServiceKey, key: SliceKey): void {
    this.#put(
      service,
      this.#of(service).filter((other) => keyOfSlice(service, other) !== key),
    );
    this.#serviceOfSlice.delete(key);
    this.#onTouch(service);
  }

  #packed(service: ServiceKey, key: SliceKey): Packed<Slice> | undefined {
    return this.#of(service).find((slice) => keyOfSlice(service, slice) === key);
  }

  #of(service: ServiceKey): readonly Packed<Slice>[] {
    const slices = this.#slices.get(service) ?? [];
    return typeof slices === 'string' ? [slices] : slices;
  }

  #put(service: ServiceKey, slices: readonly Packed<Slice>[]): void {
    this.#count += slices.length - this.#of(service).length;
    const [only] = slices;
    if (only === undefined) this.#slices.delete(service);
    else this.#slices.set(service, slices.length === 1 ? only : slices);
  }

  /** The Service that has the slice; undefined: there is no such slice. */
  serviceOf(key: SliceKey): ServiceKey | undefined {
    const known = this.#serviceOfSlice.get(key);
    if (known !== undefined) return known;
    const service = likelyService(key);
    return this.#of(service).some((slice) => keyOfSlice(service, slice) === key) ? service : undefined;
  }

  /** Where nodes come and go, names of those that are gone would add up. */
  #forgetNames(): void {
    if (this.#names.size < this.#namesAtMost) return;
    const [before, now] = [this.#names, new Names()];
    for (const [service] of this.#slices) {
      const slices = this.#of(service).map((slice) =>
        packSlice(unpackSlice(service, slice, before), now, packedVersion(slice)),
      );
      this.#put(service, slices);
    }
    this.#names = now;
    this.#namesAtMost = now.size * 2 + NAMES;
  }
}

/** The Service of a slice by its name: the API server makes names of slices by five characters after a `-` (generateName). */
function likelyService(key: SliceKey): ServiceKey {
  return key.slice(0, key.lastIndexOf('-'));
}
