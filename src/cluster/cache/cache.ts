/** The objects as they are now, packed, and the changes that no sync has taken yet. An object is unpacked when it is asked for. */
import type { Cidr } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import { SOURCE_KINDS, type SourceEvent, type SourceKind } from '../../proxy/model/events.ts';
import { FaultBook } from '../../proxy/model/fault-book.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice } from '../../proxy/model/objects.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import { packedVersion, packService, sameContent, unpackService } from '../../proxy/model/packed/objects.ts';
import type { CachedObjects } from '../../proxy/sync/loop.ts';
import { SlicesByService } from './slices-by-service.ts';

/** Called with an object as it was, and its resourceVersion, "" for none. */
export type OnChanged = (before: Service | Slice | NodeView | undefined, version: string) => void;

export class Cache implements CachedObjects {
  /** Faults of objects. */
  readonly faults = new FaultBook();
  readonly #changes = new TouchedServices();
  /** To read; events alone change it. */
  readonly byName = new ServicesByName();
  /** To read; events alone change it. */
  readonly slices = new SlicesByService((service) => this.#changes.touch('slices', service));
  readonly #synced = new Set<SourceKind>();
  /** The Node of the agent, with the Nodes that do not answer it. */
  readonly own = new OwnNode((service) => this.#changes.touch('slices', service));
  readonly #serviceCidrs = new Map<string, readonly Cidr[]>();

  /** All initial lists are complete (invariant 1). */
  get isSynced(): boolean {
    return SOURCE_KINDS.every((kind) => this.#synced.has(kind));
  }

  /** Kinds whose initial list is not complete yet. */
  get waitingFor(): SourceKind[] {
    return SOURCE_KINDS.filter((kind) => !this.#synced.has(kind));
  }

  /** With the Nodes that do not answer it. */
  get node(): NodeView | undefined {
    return this.own.view;
  }

  /** The ranges of all ServiceCIDRs, sorted; undefined: their list is not complete, or nobody watches them. */
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

  slicesOf(key: ServiceKey): readonly Slice[] {
    return this.slices.of(key);
  }

  /**
   * Apply one event. Returns the faults that are new with it, for the log. `changed` is called with the former object of an event
   * that changed one; undefined: there was none.
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
        if (changed !== undefined) {
          const { service, version } = former();
          changed(service, version);
        }
      }
    } else if (event.kind === 'slice') {
      const { key, slice, resourceVersion } = event;
      this.#changes.count('slices');
      this.slices.set(key, slice, resourceVersion, changed);
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

  /** The Services that changed since the last call; each is returned once. */
  takeChanges(): ReadonlySet<ServiceKey> {
    return this.#changes.take();
  }

  /** Mark everything as changed, for another mode that takes over. */
  touchAll(): void {
    for (const key of this.byName.keys()) this.#changes.touch('services', key);
    this.#changes.touchNode();
  }

  counts(of: 'services' | 'slices'): ChangeCounts {
    return this.#changes.counts(of);
  }
}

/** The Services that have endpoints on one of these Nodes. In a recording, the Node brings the suspects along. */
function* withEndpointsOn(nodes: ReadonlySet<string>, slices: SlicesByService): Generator<ServiceKey> {
  if (nodes.size === 0) return;
  for (const { service, endpoints } of slices.all())
    if (endpoints.some(({ nodeName }) => nodes.has(nodeName))) yield service;
}

const NONE: readonly string[] = [];

/** The Node of the agent as its source has it, and the Nodes that do not answer it, which no source knows (docs/semantics.md 3.6). */
class OwnNode {
  #node: NodeView | undefined;
  #suspects = NONE;
  #view: NodeView | undefined;
  #ejections = 0;
  readonly #onTouch: (service: ServiceKey) => void;

  /** `onTouch` is called for each Service that has endpoints on a Node which became a suspect, or is one no more. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  /** The Node with the suspects; undefined: there is none. */
  get view(): NodeView | undefined {
    return this.#view;
  }

  /** Sorted. In a recording, the Node brings them along. */
  get suspects(): readonly string[] {
    return this.#suspects.length > 0 ? this.#suspects : (this.#node?.suspects ?? NONE);
  }

  /** Times that a Node became a suspect. */
  get ejections(): number {
    return this.#ejections;
  }

  /** Takes the Node of the source. Returns the suspects that came or went with it; undefined: it is the same as before. */
  set(node: NodeView | undefined): ReadonlySet<string> | undefined {
    if (sameData(node, this.#node)) return undefined;
    const before = this.suspects;
    this.#node = node;
    this.#compose();
    return new Set(before).symmetricDifference(new Set(this.suspects));
  }

  /** Replaces the suspects, which are sorted. `services`: those with endpoints on a Node that became one, or is one no more. */
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

  /** Grows when a Service comes or goes, also one of which nothing is known but its faults. */
  get version(): number {
    return this.#version;
  }

  get count(): number {
    return this.#services.size;
  }

  /** All keys, without unpacking a Service. */
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

  /** The resourceVersion of a Service; "": there is none, or its source has no versions. */
  resourceVersion(key: ServiceKey): string {
    const packed = this.#services.get(key);
    return packed === undefined ? '' : packedVersion(packed);
  }

  /** Returns what gives the former Service and its version, where it changed. `version`: of the Service now; "" for none. */
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

/** A Service as it was, with its resourceVersion. */
interface FormerService {
  readonly service: Service | undefined;
  readonly version: string;
}
