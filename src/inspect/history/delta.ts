/** Objects and their changes in a compact form that JSON can carry. A delta leads from one value of an object to the next, or back. */
import { familyOf } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import {
  type Endpoint,
  type NodeView,
  RARE_FIELDS,
  type RareField,
  type Service,
  type ServiceKey,
  type Slice,
  type SliceKey,
} from '../../proxy/model/objects.ts';

/** The values of an object before and after a change; undefined where it does not exist. */
export type Change =
  | {
      readonly kind: 'Service';
      readonly key: ServiceKey;
      readonly from: Service | undefined;
      readonly to: Service | undefined;
    }
  | {
      readonly kind: 'EndpointSlice';
      readonly key: SliceKey;
      readonly from: Slice | undefined;
      readonly to: Slice | undefined;
    }
  | {
      readonly kind: 'Node';
      readonly key: string;
      readonly from: NodeView | undefined;
      readonly to: NodeView | undefined;
    };

/** A Service for JSON, which has no undefined. */
export interface PackedService extends Omit<Service, 'sourceRanges' | 'uid' | RareField>, Readonly<RareValues> {
  readonly uid: string | null;
  readonly sourceRanges: Exclude<Service['sourceRanges'], undefined> | null;
}

/** Absent in recordings of earlier versions; null where the Service has none. */
type RareValues = { [Field in RareField]?: Exclude<Service[Field], undefined> | null };

/**
 * The address, the sum of 1 for ready, 2 for serving, 4 for terminating and 8 for a backup, the node, the hints of zones and of nodes, and the
 * weight. Empty values at the end are left out.
 */
export type PackedEndpoint = readonly [
  address: Endpoint['address'],
  conditions: number,
  nodeName?: string,
  zoneHints?: readonly string[],
  nodeHints?: readonly string[],
  weight?: number,
];

export interface PackedSlice extends Omit<Slice, 'endpoints' | 'key'> {
  readonly endpoints: readonly PackedEndpoint[];
}

/** Replaces the endpoints between the `first` and the `last` ones, which stay. */
export interface EndpointsDelta {
  readonly first: number;
  readonly last: number;
  readonly between: readonly PackedEndpoint[];
}

/** `all`: the whole object, or null when there is none. `set`: the fields that differ. */
export type ServiceDelta = { readonly all: PackedService | null } | { readonly set: Partial<PackedService> };
export type SliceDelta =
  | { readonly all: PackedSlice | null }
  | { readonly set: Partial<Omit<PackedSlice, 'endpoints'>>; readonly endpoints?: EndpointsDelta };
export type NodeDelta = { readonly all: NodeView | null };

export type HistoryDelta =
  | { readonly kind: 'Service'; readonly key: ServiceKey; readonly delta: ServiceDelta }
  | { readonly kind: 'EndpointSlice'; readonly key: SliceKey; readonly delta: SliceDelta }
  | { readonly kind: 'Node'; readonly key: string; readonly delta: NodeDelta };

/** The delta that leads from the first value to the second. */
export function deltaOf(change: Change): HistoryDelta {
  const { kind, key } = change;
  if (kind === 'Service') return { kind, key, delta: serviceDelta(change.from, change.to) };
  if (kind === 'EndpointSlice') return { kind, key, delta: sliceDelta(change.from, change.to) };
  return { kind, key, delta: { all: change.to ?? null } };
}

/** The change in the other direction. */
export function reversed(change: Change): Change {
  if (change.kind === 'Service') return { ...change, from: change.to, to: change.from };
  if (change.kind === 'EndpointSlice') return { ...change, from: change.to, to: change.from };
  return { ...change, from: change.to, to: change.from };
}

function packService({ uid, sourceRanges, ...service }: Service): PackedService {
  const rare: RareValues = Object.fromEntries(RARE_FIELDS.map((field) => [field, service[field] ?? null]));
  return { ...service, ...rare, uid: uid ?? null, sourceRanges: sourceRanges ?? null };
}

function unpackService({ uid, sourceRanges, ...packed }: PackedService): Service {
  const isRare = (field: string) => RARE_FIELDS.some((rare) => rare === field);
  const usual = Object.fromEntries(Object.entries(packed).filter(([field]) => !isRare(field)));
  // In their order: a digest of the object depends on it.
  const rare = Object.fromEntries(
    RARE_FIELDS.flatMap((field) => (packed[field] == null ? [] : [[field, packed[field]]])),
  );
  const own = { ...(uid === null ? {} : { uid }), sourceRanges: sourceRanges ?? undefined };
  return { ...(usual as Omit<Service, 'uid' | 'sourceRanges' | RareField>), ...own, ...rare };
}

export function packSlice({ service, family, ports, endpoints }: Slice): PackedSlice {
  return { service, family, ports, endpoints: endpoints.map(packEndpoint) };
}

function unpackSlice(key: SliceKey, { service, family, ports, endpoints }: PackedSlice): Slice {
  return { key, service, family, ports, endpoints: endpoints.map(unpackEndpoint) };
}

function packEndpoint({ address, nodeName, zoneHints, nodeHints, weight, ...is }: Endpoint): PackedEndpoint {
  const conditions = (is.ready ? 1 : 0) + (is.serving ? 2 : 0) + (is.terminating ? 4 : 0) + (is.isBackup ? 8 : 0);
  if (weight !== undefined) return [address, conditions, nodeName, zoneHints, nodeHints, weight];
  if (nodeHints.length > 0) return [address, conditions, nodeName, zoneHints, nodeHints];
  if (zoneHints.length > 0) return [address, conditions, nodeName, zoneHints];
  return nodeName === '' ? [address, conditions] : [address, conditions, nodeName];
}

/** Shared by all endpoints without hints. */
const NO_NAMES: readonly string[] = [];

function unpackEndpoint(packed: PackedEndpoint): Endpoint {
  const [address, conditions, nodeName = '', zoneHints = NO_NAMES, nodeHints = NO_NAMES, weight] = packed;
  const has = (bit: number) => (conditions & bit) !== 0;
  const endpoint = { address, ready: has(1), serving: has(2), terminating: has(4), nodeName, zoneHints, nodeHints };
  if (weight === undefined && !has(8)) return endpoint;
  return { ...endpoint, ...(weight === undefined ? {} : { weight }), ...(has(8) ? { isBackup: true } : {}) };
}

/** Throws DeltaMismatch when the delta does not fit the value. */
export function appliedToService(
  key: ServiceKey,
  service: Service | undefined,
  delta: ServiceDelta,
): Service | undefined {
  if ('all' in delta && delta.all === null) return undefined;
  if ('set' in delta && service === undefined) throw new DeltaMismatch(`Service ${key} does not exist and was changed`);
  const packed = 'all' in delta ? delta.all : service && { ...packService(service), ...delta.set };
  const changed = packed ? unpackService(packed) : undefined;
  if (changed === undefined || changed.key === key) return changed;
  throw new DeltaMismatch(`Service ${key} became ${changed.key}`);
}

/** Throws DeltaMismatch when the delta does not fit the value. */
export function appliedToSlice(key: SliceKey, slice: Slice | undefined, delta: SliceDelta): Slice | undefined {
  if ('all' in delta) return delta.all === null ? undefined : ofOneFamily(unpackSlice(key, delta.all));
  if (slice === undefined) throw new DeltaMismatch(`EndpointSlice ${key} does not exist and was changed`);
  const { first, last, between } = delta.endpoints ?? { first: slice.endpoints.length, last: 0, between: [] };
  if (first + last > slice.endpoints.length) {
    throw new DeltaMismatch(
      `EndpointSlice ${key} has ${slice.endpoints.length} endpoints; ${first + last} should stay`,
    );
  }
  const endpoints = [
    ...slice.endpoints.slice(0, first),
    ...between.map(unpackEndpoint),
    ...slice.endpoints.slice(slice.endpoints.length - last),
  ];
  return ofOneFamily({ ...slice, ...delta.set, endpoints });
}

function ofOneFamily(slice: Slice): Slice {
  const other = slice.endpoints.find(({ address }) => familyOf(address) !== slice.family);
  if (other === undefined) return slice;
  throw new DeltaMismatch(`EndpointSlice ${slice.key} of ${slice.family} has the endpoint ${other.address}`);
}

/** A change does not fit the object that it is about: a part of the history is missing or wrong. */
export class DeltaMismatch extends Error {
  readonly code = 'DELTA_MISMATCH';
}

function serviceDelta(from: Service | undefined, to: Service | undefined): ServiceDelta {
  if (to === undefined) return { all: null };
  if (from === undefined) return { all: packService(to) };
  return { set: differing(packService(from), packService(to)) };
}

function sliceDelta(from: Slice | undefined, to: Slice | undefined): SliceDelta {
  if (to === undefined) return { all: null };
  if (from === undefined) return { all: packSlice(to) };
  const head = ({ service, family, ports }: Slice) => ({ service, family, ports });
  const set = differing(head(from), head(to));
  const endpoints = endpointsDelta(from.endpoints, to.endpoints);
  return endpoints === undefined ? { set } : { set, endpoints };
}

/** The fields of the second object that differ from the first; both have the same fields. */
function differing<T extends object>(from: T, to: T): Partial<T> {
  const set: Partial<T> = {};
  for (const name of Object.keys(to) as (keyof T)[]) if (!sameData(from[name], to[name])) set[name] = to[name];
  return set;
}

function endpointsDelta(from: readonly Endpoint[], to: readonly Endpoint[]): EndpointsDelta | undefined {
  const shorter = Math.min(from.length, to.length);
  let first = 0;
  while (first < shorter && isSame(from[first], to[first])) first += 1;
  if (first === from.length && first === to.length) return undefined;
  let last = 0;
  while (last < shorter - first && isSame(from[from.length - 1 - last], to[to.length - 1 - last])) last += 1;
  return { first, last, between: to.slice(first, to.length - last).map(packEndpoint) };
}

/** Most endpoints of a slice are the same: this is several times as fast as a comparison of any data. */
export function isSame(a: Endpoint | undefined, b: Endpoint | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.address === b.address &&
    a.ready === b.ready &&
    a.serving === b.serving &&
    a.terminating === b.terminating &&
    a.nodeName === b.nodeName &&
    a.weight === b.weight &&
    a.isBackup === b.isBackup &&
    sameNames(a.zoneHints, b.zoneHints) &&
    sameNames(a.nodeHints, b.nodeHints)
  );
}

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((name, i) => name === b[i]));
}
