/** The objects as they are now, packed, and the changes that no sync has taken yet. An object is unpacked when it is asked for. */

import type { Cidr } from '../model/address.ts';
import { sameData } from '../model/equal.ts';
import type { SourceEvent, SourceKind } from '../model/events.ts';
import { SOURCE_KINDS } from '../model/events.ts';
import { FaultBook } from '../model/fault-book.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice } from '../model/objects.ts';
import type { Objects } from '../model/proxy-model.ts';
import { type ChangeCounts, type Changes, PendingChanges } from './pending-changes.ts';
import { ServicesByName } from './services-by-name.ts';
import { SlicesByService } from './slices-by-service.ts';

/** Called with an object as it was. */
export type OnChanged = (before: Service | Slice | NodeView | undefined) => void;

const NO_NAMES: readonly string[] = [];

/** Names that are in one of two lists alone. */
function differing(a: readonly string[], b: readonly string[]): ReadonlySet<string> {
  return a === b ? new Set() : new Set(a).symmetricDifference(new Set(b));
}

export class Cache implements Objects {
  /** Faults of objects. */
  readonly faults = new FaultBook();
  readonly #changes = new PendingChanges();
  /** To read; events alone change it. */
  readonly byName = new ServicesByName();
  /** To read; events alone change it. */
  readonly slices = new SlicesByService((service) => this.#changes.touch('slices', service));
  readonly #synced = new Set<SourceKind>();
  #node: NodeView | undefined;
  #suspects: readonly string[] = NO_NAMES;
  #withSuspects: NodeView | undefined;
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
    return this.#withSuspects;
  }

  /** The Nodes that do not answer this one, sorted (docs/semantics.md 3.6). */
  get suspects(): readonly string[] {
    return this.#suspects.length > 0 ? this.#suspects : (this.#node?.suspects ?? NO_NAMES);
  }

  /** Replaces the suspects, which are sorted, and touches the Services that have endpoints on a Node that became one, or is one no more. */
  suspect(nodes: readonly string[], services: Iterable<ServiceKey>): void {
    if (!sameData(nodes, this.#suspects)) {
      this.#suspects = nodes;
      this.#compose();
    }
    for (const key of services) this.#changes.touch('slices', key);
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
    if (event.kind === 'service') {
      this.#changes.count('services');
      const former = this.byName.set(event.key, event.service);
      if (former !== undefined) {
        this.#changes.touch('services', event.key);
        changed?.(former());
      }
    } else if (event.kind === 'slice') {
      const { key, slice, triggeredAt } = event;
      this.#changes.count('slices');
      if (this.slices.set(key, slice, changed) && triggeredAt > 0) this.#changes.addTrigger(triggeredAt);
    } else if (event.kind === 'node' && !sameData(event.node, this.#node)) {
      const before = this.node;
      const were = this.suspects;
      this.#node = event.node;
      this.#compose();
      this.#changes.touchNode();
      this.#touchEndpointsOf(differing(were, this.suspects));
      changed?.(before);
    } else if (event.kind === 'serviceCidr') {
      if (event.cidrs === undefined) this.#serviceCidrs.delete(event.key);
      else this.#serviceCidrs.set(event.key, event.cidrs);
    }
    return this.faults.set(`${event.kind} ${event.key}`, event.faults);
  };

  #compose(): void {
    const suspects = this.#suspects;
    this.#withSuspects = this.#node === undefined || suspects.length === 0 ? this.#node : { ...this.#node, suspects };
  }

  /** In a recording, the Node brings the suspects along. */
  #touchEndpointsOf(nodes: ReadonlySet<string>): void {
    if (nodes.size === 0) return;
    for (const { service, endpoints } of this.slices.all())
      if (endpoints.some(({ nodeName }) => nodes.has(nodeName))) this.#changes.touch('slices', service);
  }

  /** All changes since the last call; each is returned once. */
  takeChanges(): Changes {
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
