/** The objects at one moment of the past, to which changes are applied or undone. */
import type { NodeView, Service, ServiceKey, Slice, SliceKey } from '../../proxy/model/objects.ts';
import type { ModelObjects } from '../../proxy/model/proxy-model.ts';
import { NOTHING_GROWS, type RampsMoment } from '../../proxy/model/ramps.ts';
import { appliedToService, appliedToSlice, type Change, type HistoryDelta } from './delta.ts';

/** The objects as they are now: the cache. */
export interface PresentObjects extends ModelObjects {
  readonly node: NodeView | undefined;
  services(): Iterable<Service>;
  readonly serviceCount: number;
  readonly slices: SliceLookup;
  /** The endpoints whose weights grow (slow start): the same object until that changes. */
  readonly growing: RampsMoment;
}

export interface SliceLookup {
  get(key: SliceKey): Slice | undefined;
  /** All slices, also those whose Service does not exist. */
  all(): Iterable<Slice>;
  readonly count: number;
}

export class ObjectStore implements PresentObjects {
  growing = NOTHING_GROWS;
  readonly #services = new Map<ServiceKey, Service>();
  readonly #slices = new Map<SliceKey, Slice>();
  readonly slices: SliceLookup;
  /** Made at the first lookup; undefined after a change. */
  #byService: Map<ServiceKey, Slice[]> | undefined;
  #node: NodeView | undefined;

  constructor() {
    const slices = this.#slices;
    this.slices = {
      get: (key) => slices.get(key),
      all: () => slices.values(),
      get count() {
        return slices.size;
      },
    };
  }

  /** A copy of the lists; the objects in them never change. */
  static copyOf(objects: PresentObjects): ObjectStore {
    const store = new ObjectStore();
    for (const service of objects.services()) store.#services.set(service.key, service);
    for (const slice of objects.slices.all()) store.#slices.set(slice.key, slice);
    store.#node = objects.node;
    store.growing = objects.growing;
    return store;
  }

  get node(): NodeView | undefined {
    return this.#node;
  }

  service(key: ServiceKey): Service | undefined {
    return this.#services.get(key);
  }

  services(): Iterable<Service> {
    return this.#services.values();
  }

  get serviceCount(): number {
    return this.#services.size;
  }

  slicesOf(key: ServiceKey): readonly Slice[] {
    this.#byService ??= Map.groupBy(this.#slices.values(), ({ service }) => service);
    return this.#byService.get(key) ?? [];
  }

  /** Applies a delta and returns the change. Throws DeltaMismatch when it does not fit. */
  apply({ kind, key, delta }: HistoryDelta): Change {
    if (kind === 'Service') {
      const from = this.#services.get(key);
      const to = appliedToService(key, from, delta);
      put(this.#services, key, to);
      return { kind, key, from, to };
    }
    if (kind === 'EndpointSlice') {
      const from = this.#slices.get(key);
      const to = appliedToSlice(key, from, delta);
      put(this.#slices, key, to);
      this.#byService = undefined;
      return { kind, key, from, to };
    }
    const from = this.#node;
    this.#node = delta.all ?? undefined;
    return { kind, key, from, to: this.#node };
  }
}

function put<T>(into: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) into.delete(key);
  else into.set(key, value);
}
