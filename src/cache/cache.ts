/**
 * The objects as they are now, and which Services were touched since the last take.
 *
 * Slices are kept by name under their Service (docs/semantics.md 2.1): an endpoint that moves from one slice to another is in at
 * least one of them at any time, whatever the order of the events.
 */

import type { Cidr } from '../model/address.ts';
import { sameData } from '../model/equal.ts';
import type { SourceEvent, SourceKind } from '../model/events.ts';
import { SOURCE_KINDS } from '../model/events.ts';
import { FaultBook } from '../model/fault-book.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice, SliceKey } from '../model/objects.ts';
import type { Objects } from '../model/proxy-model.ts';

/** What was touched since the last take. */
export interface Changes {
  readonly services: ReadonlySet<ServiceKey>;
  readonly node: boolean;
  /** When the changes happened that slices tell of, as far as they say; milliseconds since 1970. */
  readonly triggers: readonly number[];
}

/** How many events came, and of how many things the change was not taken yet. */
export interface ChangeCounts {
  readonly total: number;
  readonly pending: number;
}

export class Cache implements Objects {
  /** Faults of objects. */
  readonly faults = new FaultBook();
  readonly #services = new Map<ServiceKey, Service>();
  /** Most Services have one slice: a list each takes a quarter of the memory of a map. */
  readonly #slices = new Map<ServiceKey, readonly Slice[]>();
  readonly #serviceOfSlice = new Map<SliceKey, ServiceKey>();
  readonly #synced = new Set<SourceKind>();
  #node: NodeView | undefined;
  readonly #serviceCidrs = new Map<string, readonly Cidr[]>();
  /** Services touched since the last take, by what touched them. */
  #touched = { services: new Set<ServiceKey>(), slices: new Set<ServiceKey>() };
  #nodeTouched = false;
  #triggers: number[] = [];
  readonly #totals = { services: 0, slices: 0 };

  /** All initial lists are complete (invariant 1). */
  get isSynced(): boolean {
    return SOURCE_KINDS.every((kind) => this.#synced.has(kind));
  }

  /** Kinds whose initial list is not complete yet. */
  get waitingFor(): SourceKind[] {
    return SOURCE_KINDS.filter((kind) => !this.#synced.has(kind));
  }

  get node(): NodeView | undefined {
    return this.#node;
  }

  /** Of all ServiceCIDRs, sorted; undefined: not known yet, or nobody follows them. */
  get serviceCidrs(): readonly Cidr[] | undefined {
    if (!this.#synced.has('servicecidrs')) return undefined;
    return [...new Set([...this.#serviceCidrs.values()].flat())].sort();
  }

  get hasChanges(): boolean {
    return this.#touched.services.size > 0 || this.#touched.slices.size > 0 || this.#nodeTouched;
  }

  service(key: ServiceKey): Service | undefined {
    return this.#services.get(key);
  }

  services(): IterableIterator<Service> {
    return this.#services.values();
  }

  slicesOf(key: ServiceKey): readonly Slice[] {
    return this.#slices.get(key) ?? [];
  }

  /** Take in one event. Returns the faults that are new with it, for the log. */
  readonly take: (event: SourceEvent) => readonly Fault[] = (event) => {
    if (event.kind === 'synced') {
      this.#synced.add(event.of);
      return [];
    }
    if (event.kind === 'service') this.#setService(event.key, event.service);
    if (event.kind === 'slice' && this.#setSlice(event.key, event.slice) && event.triggeredAt > 0) {
      this.#triggers.push(event.triggeredAt);
    }
    if (event.kind === 'node') this.#setNode(event.node);
    if (event.kind === 'serviceCidr') this.#setServiceCidr(event.key, event.cidrs);
    return this.faults.set(`${event.kind} ${event.key}`, event.faults);
  };

  /** What was touched, given out once. */
  takeChanges(): Changes {
    const services = this.#touched.services.union(this.#touched.slices);
    const changes = { services, node: this.#nodeTouched, triggers: this.#triggers };
    this.#touched = { services: new Set(), slices: new Set() };
    this.#nodeTouched = false;
    this.#triggers = [];
    return changes;
  }

  /** Everything is to be taken again: somebody new takes. */
  touchAll(): void {
    for (const key of this.#services.keys()) this.#touched.services.add(key);
    this.#nodeTouched = true;
  }

  counts(of: 'services' | 'slices'): ChangeCounts {
    return { total: this.#totals[of], pending: this.#touched[of].size };
  }

  #setService(key: ServiceKey, service: Service | undefined): void {
    this.#totals.services += 1;
    if (sameData(service, this.#services.get(key))) return;
    if (service === undefined) this.#services.delete(key);
    else this.#services.set(key, service);
    this.#touched.services.add(key);
  }

  /** Returns whether it is there and changed. */
  #setSlice(key: SliceKey, slice: Slice | undefined): boolean {
    this.#totals.slices += 1;
    const before = this.#serviceOfSlice.get(key);
    const now = slice?.service;
    if (before !== undefined && before !== now) this.#dropSlice(before, key);
    if (slice === undefined) return false;
    const ofService = this.#slices.get(slice.service) ?? [];
    const at = ofService.findIndex((other) => other.key === key);
    if (at >= 0 && sameData(slice, ofService[at])) return false;
    this.#slices.set(slice.service, at < 0 ? [...ofService, slice] : ofService.with(at, slice));
    this.#serviceOfSlice.set(key, slice.service);
    this.#touched.slices.add(slice.service);
    return true;
  }

  #dropSlice(service: ServiceKey, key: SliceKey): void {
    const left = (this.#slices.get(service) ?? []).filter((other) => other.key !== key);
    if (left.length > 0) this.#slices.set(service, left);
    else this.#slices.delete(service);
    this.#serviceOfSlice.delete(key);
    this.#touched.slices.add(service);
  }

  #setServiceCidr(key: string, cidrs: readonly Cidr[] | undefined): void {
    if (cidrs === undefined) this.#serviceCidrs.delete(key);
    else this.#serviceCidrs.set(key, cidrs);
  }

  #setNode(node: NodeView | undefined): void {
    if (sameData(node, this.#node)) return;
    this.#node = node;
    this.#nodeTouched = true;
  }
}
