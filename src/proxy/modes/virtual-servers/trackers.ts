/** Desired and believed state of the virtual servers of one family: a tracker for each kind of object. Does no I/O. */

import type { Address, Family } from '../../../base/address.ts';
import type { IpsetSpec } from '../../../kernel/ipvs-kernel.ts';
import type { Drift, DriftKind } from '../../model/drift.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { SetId } from './sets.ts';
import {
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  sameDestination,
  sameServer,
} from './tracked-objects.ts';

/** The result of reading one family. */
export interface ObservedServers {
  readonly sets: ReadonlyMap<SetId, IpsetSpec>;
  /** A set was left behind by an agent that ended while it resized another one (`spareName`). */
  readonly hasSpare: boolean;
  readonly entries: ReadonlyMap<string, OwnedEntry>;
  readonly servers: ReadonlyMap<string, OwnedServer>;
  readonly destinations: ReadonlyMap<string, OwnedDestination>;
  /** Connections by the key of the destination. */
  readonly connections: ReadonlyMap<string, number>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress>;
}

export class ServerTrackers {
  /** How large a set is depends on its entries (`set-sizes.ts`). */
  readonly sets = new Tracker<SetId, IpsetSpec>(sameSet);
  readonly entries = new Tracker<string, OwnedEntry>(() => true);
  readonly servers = new Tracker<string, OwnedServer>(sameServer);
  readonly destinations = new Tracker<string, OwnedDestination>(sameDestination);
  readonly addresses = new Tracker<Address, OwnedAddress>(() => true);

  /** Number of values compared for plans. */
  get compared(): number {
    const trackers = [this.sets, this.entries, this.servers, this.destinations, this.addresses];
    return trackers.reduce((sum, { compared }) => sum + compared, 0);
  }

  /** Number of writes that succeeded. */
  get writes(): number {
    const trackers = [this.sets, this.entries, this.servers, this.destinations, this.addresses];
    return trackers.reduce((sum, { writes }) => sum + writes, 0);
  }

  observe(seen: ObservedServers): void {
    this.sets.observe(seen.sets);
    this.entries.observe(withOwners(seen.entries, this.entries.applied));
    this.servers.observe(withOwners(seen.servers, this.servers.applied));
    this.destinations.observe(withOwners(seen.destinations, this.destinations.applied));
    this.addresses.observe(withOwners(seen.addresses, this.addresses.applied));
  }

  /** The changes of other programs. */
  driftFrom(seen: ObservedServers, family: Family): Drift[] {
    const drift = (kind: DriftKind, names: readonly string[]) =>
      names.map((name): Drift => ({ family, kind, table: '', name, target: '', difference: { kind: 'changed' } }));
    return [
      ...drift('server', this.servers.driftFrom(seen.servers)),
      ...drift('destination', this.destinations.driftFrom(seen.destinations)),
      ...drift('entry', this.entries.driftFrom(seen.entries)),
      ...drift('address', this.addresses.driftFrom(seen.addresses)),
    ];
  }

  /** Discard the believed state, after a write whose outcome is unknown or a failed reading. */
  forget(): void {
    for (const tracker of [this.sets, this.entries, this.servers, this.destinations, this.addresses]) tracker.forget();
  }
}

/** Whether rules can use either set as well; their sizes do not count. */
export function sameSet(a: IpsetSpec, b: IpsetSpec): boolean {
  return a.type === b.type && a.family === b.family;
}

/** The kernel does not store the Service of an object, so known owners are kept. */
function withOwners<K, V extends { readonly owner: string | undefined }>(
  seen: ReadonlyMap<K, V>,
  believed: ReadonlyMap<K, V> | undefined,
): ReadonlyMap<K, V> {
  if (believed === undefined) return seen;
  const owned = new Map<K, V>();
  for (const [key, value] of seen) {
    const owner = believed.get(key)?.owner;
    owned.set(key, owner === undefined ? value : { ...value, owner });
  }
  return owned;
}
