/** The EndpointSlices that the cluster has, with an index by Service. */
import { MANAGED_BY_LABEL, SERVICE_NAME_LABEL } from '../model/labels.ts';
import type { ObjectKey, SliceObject } from '../producers/objects.ts';

/** Slices by name, and by the Service that they name. */
export class SliceShelf {
  readonly #slices = new Map<ObjectKey, SliceObject>();
  readonly #ofService = new Map<ObjectKey, Map<ObjectKey, SliceObject>>();

  has(key: ObjectKey): boolean {
    return this.#slices.has(key);
  }

  /** Slices of this manager that name the Service, without those that are being deleted. */
  of(service: ObjectKey, manager: string): SliceObject[] {
    return [...(this.#ofService.get(service)?.values() ?? [])].filter((slice) => counts(slice, manager));
  }

  /** Services that slices of this manager name. */
  services(manager: string): ObjectKey[] {
    const hasSome = (slices: ReadonlyMap<ObjectKey, SliceObject>) =>
      [...slices.values()].some((slice) => managerOf(slice) === manager);
    return [...this.#ofService].filter(([, slices]) => hasSome(slices)).map(([service]) => service);
  }

  /** Set or remove a slice. Returns the slice before. */
  set(key: ObjectKey, slice: SliceObject | undefined): SliceObject | undefined {
    const before = this.#slices.get(key);
    const was = before && serviceOf(before);
    if (was !== undefined) {
      const slices = this.#ofService.get(was);
      slices?.delete(key);
      if (slices?.size === 0) this.#ofService.delete(was);
    }
    this.#slices.delete(key);
    if (slice === undefined) return before;
    this.#slices.set(key, slice);
    const service = serviceOf(slice);
    if (service !== undefined) {
      const slices = this.#ofService.get(service) ?? new Map();
      this.#ofService.set(service, slices.set(key, slice));
    }
    return before;
  }
}

/** The Service that a slice names; undefined when it names none. */
export function serviceOf({ metadata }: SliceObject): ObjectKey | undefined {
  const name = metadata.labels?.[SERVICE_NAME_LABEL] ?? '';
  return name === '' ? undefined : `${metadata.namespace}/${name}`;
}

/** Whether the slice is this manager's. A slice that is being deleted counts as gone: a finalizer may hold it back for long. */
export function counts(slice: SliceObject, manager: string): boolean {
  return managerOf(slice) === manager && (slice.metadata.deletionTimestamp ?? null) === null;
}

function managerOf({ metadata }: SliceObject): string | undefined {
  return metadata.labels?.[MANAGED_BY_LABEL];
}
