/** The EndpointSlices that the cluster has, packed, with an index by Service. */

import type { ObjectKey, SliceObject } from '../cluster/producers/api-objects.ts';
import { Lists } from '../cluster/producers/few.ts';
import { pack, unpack } from '../cluster/producers/packing.ts';
import { MANAGED_BY_LABEL, MIRROR_MANAGER, SERVICE_NAME_LABEL, SLICES_MANAGER } from '../proxy/model/labels.ts';
import type { Packed } from '../proxy/model/packed/bytes.ts';

interface ShelvedSlice {
  readonly slice: Packed<SliceObject>;
  /** The Service that it names. */
  readonly service: ObjectKey | undefined;
  readonly manager: string | undefined;
}

const MANAGERS = [SLICES_MANAGER, MIRROR_MANAGER];

/** Slices by name, and by the Service that they name. What it returns is new each time. */
export class SliceShelf {
  readonly #rows = new Map<ObjectKey, ShelvedSlice>();
  readonly #ofService = new Lists<ShelvedSlice>();

  has(key: ObjectKey): boolean {
    return this.#rows.has(key);
  }

  /** Slices of this manager that name the Service, without those that are being deleted. */
  of(service: ObjectKey, manager: string): SliceObject[] {
    const found: SliceObject[] = [];
    for (const row of this.#ofService.get(service)) {
      if (row.manager !== manager) continue;
      const slice = unpack(row.slice);
      if (counts(slice, manager)) found.push(slice);
    }
    return found;
  }

  /** Services that slices of this manager name. */
  services(manager: string): ObjectKey[] {
    const found = new Set<ObjectKey>();
    for (const row of this.#rows.values()) {
      if (row.manager === manager && row.service !== undefined) found.add(row.service);
    }
    return [...found];
  }

  /** Set or remove a slice. Returns the slice before. */
  set(key: ObjectKey, slice: SliceObject | undefined): SliceObject | undefined {
    const before = this.#rows.get(key);
    if (before?.service !== undefined) this.#ofService.remove(before.service, before);
    if (slice === undefined) this.#rows.delete(key);
    else {
      const row: ShelvedSlice = {
        slice: pack(slice),
        service: serviceOf(slice),
        manager: sharedText(managerOf(slice)),
      };
      this.#rows.set(key, row);
      if (row.service !== undefined) this.#ofService.add(row.service, row);
    }
    return before && unpack(before.slice);
  }
}

/** Each slice came with a text of its own. */
function sharedText(manager: string | undefined): string | undefined {
  return MANAGERS.find((known) => known === manager) ?? manager;
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
