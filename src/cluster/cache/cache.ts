/** The objects as they are now, packed, and the changes that no sync has taken yet. An object is unpacked when it is asked for. */

import type { Cidr } from '../../base/address.ts';
import type { SourceEvent, SourceKind } from '../../proxy/model/events.ts';
import { SOURCE_KINDS } from '../../proxy/model/events.ts';
import { FaultBook } from '../../proxy/model/fault-book.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice } from '../../proxy/model/objects.ts';
import type { CachedObjects, TakenChanges } from '../../proxy/sync/loop.ts';
import { OwnNode } from './own-node.ts';
import { type ChangeCounts, PendingChanges } from './pending-changes.ts';
import { ServicesByName } from './services-by-name.ts';
import { SlicesByService } from './slices-by-service.ts';

/** Called with an object as it was, and its resourceVersion, "" for none. */
export type OnChanged = (before: Service | Slice | NodeView | undefined, version: string) => void;

export class Cache implements CachedObjects {
  /** Faults of objects. */
  readonly faults = new FaultBook();
  readonly #changes = new PendingChanges();
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
      const { key, slice, triggeredAt, resourceVersion } = event;
      this.#changes.count('slices');
      if (this.slices.set(key, slice, resourceVersion, changed) && triggeredAt > 0)
        this.#changes.addTrigger(triggeredAt);
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

  /** All changes since the last call; each is returned once. */
  takeChanges(): TakenChanges {
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
