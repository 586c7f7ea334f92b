/** The objects as they are now, packed, and the changes that no sync has taken yet. An object is unpacked when it is read. */
import type { Cidr } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import { sameData } from '../../base/equal.ts';
import { SOURCE_KINDS, type SourceEvent, type SourceKind } from '../../proxy/model/events.ts';
import { FaultBook } from '../../proxy/model/fault-book.ts';
import { type GoneEndpoint, GoneEndpoints } from '../../proxy/model/gone-endpoints.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice, SliceKey } from '../../proxy/model/objects.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import {
  keyOfSlice,
  Names,
  packedVersion,
  packService,
  packSlice,
  sameContent,
  unpackService,
  unpackSlice,
} from '../../proxy/model/packed/packed-objects.ts';
import { NOTHING_GROWS, type Ramp, Ramps, type RampsMoment, readyAddresses } from '../../proxy/model/ramps.ts';
import type { CachedObjects } from '../../proxy/sync/loop.ts';

/** Receives the object before a change, and its resourceVersion, "" for none. */
export type OnChanged = (before: Service | Slice | NodeView | undefined, version: string) => void;

type SliceEvent = Extract<SourceEvent, { readonly kind: 'slice' }>;

/** The time by which weights grow, and who hears of it: after a step, and when an endpoint begins or ends to grow. */
export interface GrowingWeights {
  readonly clock: Pick<Clock, 'wall' | 'after'>;
  readonly onSteps: () => void;
  readonly onChange: () => void;
}

export class Cache implements CachedObjects {
  readonly faults = new FaultBook();
  readonly #changes = new TouchedServices();
  /** Public for reading; only events change it. */
  readonly byName = new ServicesByName();
  /** Public for reading; only events change it. */
  readonly slices = new SlicesByService((service) => this.#changes.touch('slices', service));
  readonly #synced = new Set<SourceKind>();
  /** The Node of the agent, with the Nodes that do not answer it. */
  readonly own = new OwnNode((service) => this.#changes.touch('slices', service));
  readonly #serviceCidrs = new Map<string, readonly Cidr[]>();
  #gone: GoneEndpoints | undefined;
  /** Services with a slow start; most clusters have none. */
  readonly #slowStarts = new Map<ServiceKey, number>();
  readonly #growing: GrowingWeights | undefined;
  #ramps: Ramps | undefined;

  /** Without `growing`, new endpoints have their whole weights at once. */
  constructor(growing?: GrowingWeights) {
    this.#growing = growing;
  }

  /** True when all initial lists are complete (invariant 1). */
  get isSynced(): boolean {
    return SOURCE_KINDS.every((kind) => this.#synced.has(kind));
  }

  /** The kinds whose initial list is not complete yet. */
  get waitingFor(): SourceKind[] {
    return SOURCE_KINDS.filter((kind) => !this.#synced.has(kind));
  }

  /** The own Node, with the Nodes that do not answer it. */
  get node(): NodeView | undefined {
    return this.own.view;
  }

  /** The sorted ranges of all ServiceCIDRs; undefined while their list is not complete, or where they are not watched. */
  get serviceCidrs(): readonly Cidr[] | undefined {
    if (!this.#synced.has('servicecidrs')) return undefined;
    return [...new Set([...this.#serviceCidrs.values()].flat())].sort();
  }

  get hasChanges(): boolean {
    return !this.#changes.isEmpty;
  }

  service(key: ServiceKey): Service | undefined {
    return this.byName.get(key);
  }

  services(): Generator<Service> {
    return this.byName.all();
  }

  get serviceCount(): number {
    return this.byName.count;
  }

  /** With the weights of this moment. */
  slicesOf(key: ServiceKey): readonly Slice[] {
    const slices = this.slices.of(key);
    return this.#ramps === undefined ? slices : this.#ramps.applied(key, slices);
  }

  /** The endpoints whose weights grow, and the moment of these weights: the same object until that changes. */
  get growing(): RampsMoment {
    return this.#ramps?.moment ?? NOTHING_GROWS;
  }

  /** Sets the weights that grow to those of a recorded moment. */
  replayGrowing(moment: RampsMoment): void {
    if (this.#ramps !== undefined || moment.ramps.length > 0) this.#rampsOf()?.replay(moment);
  }

  /** Goes on with those of an earlier agent. Call it when all lists are complete. */
  restoreRamps(ramps: readonly Ramp[]): void {
    if (ramps.length === 0 || this.#slowStarts.size === 0) return;
    for (const [service, some] of Map.groupBy(ramps, (ramp) => ramp.service)) {
      const ready = readyAddresses(this.slices.of(service));
      this.#rampsOf()?.restore(some.filter(({ address }) => ready.has(address)));
    }
  }

  /**
   * Apply one event. Returns its new faults, for the log. `changed` receives the former object when the event changed one; undefined when
   * there was none.
   */
  readonly take = (event: SourceEvent, changed?: OnChanged): readonly Fault[] => {
    if (event.kind === 'synced') {
      this.#synced.add(event.of);
      return [];
    }
    if (event.kind === 'reached') return [];
    if (event.kind === 'service') {
      this.#changes.count('services');
      const former = this.byName.set(event.key, event.service, event.resourceVersion);
      if (former !== undefined) {
        this.#changes.touch('services', event.key);
        this.#noteSlowStart(event.key, event.service?.slowStart);
        if (changed !== undefined) {
          const { service, version } = former();
          changed(service, version);
        }
      }
    } else if (event.kind === 'slice') {
      this.#changes.count('slices');
      if (this.#slowStarts.size > 0) this.#setGrowing(event, changed);
      else this.#setSlice(event, changed);
    } else if (event.kind === 'node') {
      const before = this.node;
      const differing = this.own.set(event.node);
      if (differing !== undefined) {
        this.#changes.touchNode();
        for (const key of withEndpointsOn(differing, this.slices)) this.#changes.touch('slices', key);
        changed?.(before, '');
      }
    } else if (event.kind === 'serviceCidr') {
      if (event.cidrs === undefined) this.#serviceCidrs.delete(event.key);
      else this.#serviceCidrs.set(event.key, event.cidrs);
    }
    return this.faults.set(`${event.kind} ${event.key}`, event.faults);
  };

  /** Notes from now on which endpoints are gone, or no more. */
  noteGone(isWanted: boolean): void {
    if (isWanted === (this.#gone !== undefined)) return;
    const isSuspect = (nodeName: string) => this.own.suspects.includes(nodeName);
    this.#gone = isWanted ? new GoneEndpoints(this.slices.all(), isSuspect) : undefined;
  }

  /** The endpoints that are gone since the last call; none where they are not noted. */
  takeGone(): readonly GoneEndpoint[] {
    return this.#gone?.take() ?? NONE;
  }

  #setSlice({ key, slice, resourceVersion }: SliceEvent, changed: OnChanged | undefined): void {
    this.slices.set(key, slice, resourceVersion, this.#gone === undefined ? changed : this.#noting(slice, changed));
  }

  /** The same, and notes which endpoints of a Service with a slow start became ready. Those of the initial lists may be ready for long. */
  #setGrowing(event: SliceEvent, changed: OnChanged | undefined): void {
    const service = event.slice?.service ?? this.slices.serviceOf(event.key);
    if (service === undefined || !this.#slowStarts.has(service) || !this.isSynced) {
      this.#setSlice(event, changed);
      return;
    }
    const before = readyAddresses(this.slices.of(service));
    this.#setSlice(event, changed);
    this.#rampsOf()?.changed(service, before, readyAddresses(this.slices.of(service)), event.triggeredAt);
  }

  /** Weights stay as they are. */
  stopGrowing(): void {
    this.#ramps?.stop();
  }

  #noteSlowStart(service: ServiceKey, time: number | undefined): void {
    if (time !== undefined) {
      const before = this.#slowStarts.get(service);
      this.#slowStarts.set(service, time);
      if (before !== undefined && before !== time) this.#ramps?.retimed();
    } else if (this.#slowStarts.delete(service)) this.#ramps?.forget(service);
  }

  #rampsOf(): Ramps | undefined {
    if (this.#growing === undefined) return undefined;
    this.#ramps ??= new Ramps({
      ...this.#growing,
      durationOf: (service) => this.#slowStarts.get(service),
      onStep: (service) => this.#changes.touch('slices', service),
    });
    return this.#ramps;
  }

  #noting(slice: Slice | undefined, changed: OnChanged | undefined): OnSliceChanged {
    return (before, version) => {
      this.#gone?.changed(before, slice);
      changed?.(before, version);
    };
  }

  /** The Services that changed since the last call. */
  takeChanges(): ReadonlySet<ServiceKey> {
    return this.#changes.take();
  }

  /** Mark everything as changed, for another generation that takes over. */
  touchAll(): void {
    for (const key of this.byName.keys()) this.#changes.touch('services', key);
    this.#changes.touchNode();
  }

  counts(of: 'services' | 'slices'): ChangeCounts {
    return this.#changes.counts(of);
  }
}

/** The Services with endpoints on one of these Nodes. Only recordings need this, where the Node has the suspects. */
function* withEndpointsOn(nodes: ReadonlySet<string>, slices: SlicesByService): Generator<ServiceKey> {
  if (nodes.size === 0) return;
  for (const { service, endpoints } of slices.all())
    if (endpoints.some(({ nodeName }) => nodes.has(nodeName))) yield service;
}

const NONE: readonly never[] = Object.freeze([]);

/** The Node of the agent as its source has it, and the Nodes that do not answer it, which no source knows (docs/semantics.md 3.6). */
class OwnNode {
  #node: NodeView | undefined;
  #suspects: readonly string[] = NONE;
  #view: NodeView | undefined;
  #ejections = 0;
  readonly #onTouch: (service: ServiceKey) => void;

  /** `onTouch` is called for each Service with endpoints on a Node whose suspicion began or ended. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  /** The Node with the suspects; undefined without a Node. */
  get view(): NodeView | undefined {
    return this.#view;
  }

  /** The sorted suspects. In a recording the Node has them. */
  get suspects(): readonly string[] {
    return this.#suspects.length > 0 ? this.#suspects : (this.#node?.suspects ?? NONE);
  }

  /** The number of times that a Node became a suspect. */
  get ejections(): number {
    return this.#ejections;
  }

  /** Sets the Node of the source. Returns the suspects that came or went with it; undefined if the Node is unchanged. */
  set(node: NodeView | undefined): ReadonlySet<string> | undefined {
    if (sameData(node, this.#node)) return undefined;
    const before = this.suspects;
    this.#node = node;
    this.#compose();
    return new Set(before).symmetricDifference(new Set(this.suspects));
  }

  /** Replaces the suspects by these sorted ones. `services`: those with endpoints on a Node whose suspicion began or ended. */
  suspect(nodes: readonly string[], services: Iterable<ServiceKey>): void {
    for (const key of services) this.#onTouch(key);
    if (sameData(nodes, this.#suspects)) return;
    this.#ejections += nodes.filter((name) => !this.#suspects.includes(name)).length;
    this.#suspects = nodes;
    this.#compose();
  }

  #compose(): void {
    const suspects = this.#suspects;
    this.#view = this.#node === undefined || suspects.length === 0 ? this.#node : { ...this.#node, suspects };
  }
}

/** The number of events, and the number of Services with a change that no sync has taken yet. */
interface ChangeCounts {
  readonly total: number;
  readonly pending: number;
}

/** The changes of the cache since the last sync took them, and the number of events. */
class TouchedServices {
  readonly #totals = { services: 0, slices: 0 };
  /** Services with a change, by the kind of object that changed. */
  #touched = { services: new Set<ServiceKey>(), slices: new Set<ServiceKey>() };
  #isNodeTouched = false;

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

  take(): ReadonlySet<ServiceKey> {
    const services = this.#touched.services.union(this.#touched.slices);
    this.#touched = { services: new Set(), slices: new Set() };
    this.#isNodeTouched = false;
    return services;
  }
}

/** Services by their keys, each packed (`proxy/model/packed/`). */
class ServicesByName {
  readonly #services = new Map<ServiceKey, Packed<Service>>();
  #version = 0;

  /** Grows when a Service comes or goes, also one that is set aside for its faults. */
  get version(): number {
    return this.#version;
  }

  get count(): number {
    return this.#services.size;
  }

  /** All keys. No Service is unpacked for them. */
  keys(): MapIterator<ServiceKey> {
    return this.#services.keys();
  }

  get(key: ServiceKey): Service | undefined {
    const packed = this.#services.get(key);
    return packed === undefined ? undefined : unpackService(key, packed);
  }

  *all(): Generator<Service> {
    for (const [key, packed] of this.#services) yield unpackService(key, packed);
  }

  /** The resourceVersion of a Service; "" if there is no such Service, or its source has no versions. */
  resourceVersion(key: ServiceKey): string {
    const packed = this.#services.get(key);
    return packed === undefined ? '' : packedVersion(packed);
  }

  /**
   * Returns a function for the former Service and its version if it changed, so that it is unpacked only on demand. `version` is the new
   * one; "" for none.
   */
  set(key: ServiceKey, service: Service | undefined, version = ''): (() => FormerService) | undefined {
    const before = this.#services.get(key);
    if (before === undefined || service === undefined) this.#version += 1;
    const packed = service && packService(service, version);
    if (packed === before) return undefined;
    if (packed === undefined) this.#services.delete(key);
    else this.#services.set(key, packed);
    if (packed !== undefined && before !== undefined && sameContent(packed, before)) return undefined;
    return () =>
      before === undefined
        ? { service: undefined, version: '' }
        : { service: unpackService(key, before), version: packedVersion(before) };
  }
}

/** A Service before a change, with its resourceVersion. */
interface FormerService {
  readonly service: Service | undefined;
  readonly version: string;
}

/** New names of nodes after which those of deleted nodes are forgotten. */
const NAMES_BETWEEN_CLEANUPS = 20_000;

/** Receives the slice before a change, and its resourceVersion; undefined and "" if there was none. */
type OnSliceChanged = (before: Slice | undefined, version: string) => void;

/**
 * EndpointSlices by Service, each packed (`proxy/model/packed/`). A slice only replaces the slice of its own name, so an endpoint that moves from
 * one slice to another is in at least one of them at any time, whatever the order of the events.
 */
export class SlicesByService {
  /** Most Services have one slice, which is stored without a list. */
  readonly #slices = new Map<ServiceKey, Packed<Slice> | readonly Packed<Slice>[]>();
  /** The Services of slices whose name does not begin with that of their Service. */
  readonly #serviceOfSlice = new Map<SliceKey, ServiceKey>();
  readonly #onTouch: (service: ServiceKey) => void;
  #count = 0;
  #names = new Names();
  #namesAtMost = NAMES_BETWEEN_CLEANUPS;

  /** `onTouch` is called for each Service whose slices changed. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  of(key: ServiceKey): readonly Slice[] {
    return this.#of(key).map((slice) => unpackSlice(key, slice, this.#names));
  }

  /** Identical by `===` as long as no slice of the Service changes, nor a resourceVersion of them. */
  versionOf(key: ServiceKey): unknown {
    return this.#slices.get(key);
  }

  get(key: SliceKey): Slice | undefined {
    const service = this.serviceOf(key);
    const packed = service === undefined ? undefined : this.#packed(service, key);
    return service === undefined || packed === undefined ? undefined : unpackSlice(service, packed, this.#names);
  }

  /** The resourceVersion of a slice; "" if there is no such slice, or its source has no versions. */
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
   * Set or remove a slice. `version` is its resourceVersion, "" for none. Returns whether the slice exists and changed. `changed` receives the
   * former slice and its version when the slice changed or was removed.
   */
  set(key: SliceKey, slice: Slice | undefined, version = '', changed?: OnSliceChanged): boolean {
    if (slice !== undefined) this.#forgetNames();
    const before = this.serviceOf(key);
    const now = slice?.service;
    // The former slice is unpacked only for a callback.
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

  /** The Service of a slice; undefined if there is no such slice. */
  serviceOf(key: SliceKey): ServiceKey | undefined {
    const known = this.#serviceOfSlice.get(key);
    if (known !== undefined) return known;
    const service = likelyService(key);
    return this.#of(service).some((slice) => keyOfSlice(service, slice) === key) ? service : undefined;
  }

  /** Forgets names of deleted nodes, which would add up where nodes come and go. */
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
    this.#namesAtMost = now.size * 2 + NAMES_BETWEEN_CLEANUPS;
  }
}

/** The probable Service of a slice by its name: the API server appends `-` and five characters to the Service's name (generateName). */
function likelyService(key: SliceKey): ServiceKey {
  return key.slice(0, key.lastIndexOf('-'));
}
