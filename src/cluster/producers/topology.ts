/**
 * Hints for `service.kubernetes.io/topology-mode: Auto` (KEP-2433): each zone gets endpoints in proportion to its CPUs. There are no
 * hints when a zone's endpoints would get over 20 % more than their share of the traffic.
 */
import type { Family } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import type { Notice, ObjectKey, SliceEndpoint, SliceObject, ZonedNode } from './api-objects.ts';

/** The excess over its share that an endpoint may get (KEP-2433, "overload threshold"). */
const OVERLOAD = 0.2;

/** The number of endpoints for each zone. */
type ZoneCounts = ReadonlyMap<string, number>;
/** Each zone's share of the CPUs; the sum is 1. undefined when a node lacks its zone or CPUs, or there is only one zone. */
type ZoneShares = ReadonlyMap<string, number> | undefined;

/** The zones' shares. Nodes that are not ready, and those of the control plane, do not count. */
export function zoneShares(nodes: Iterable<ZonedNode>): ZoneShares {
  const cpus = new Map<string, number>();
  let total = 0;
  for (const { zone, ready, milliCpu, isControlPlane } of nodes) {
    if (isControlPlane || !ready) continue;
    if (zone === '' || milliCpu === 0) return undefined;
    cpus.set(zone, (cpus.get(zone) ?? 0) + milliCpu);
    total += milliCpu;
  }
  if (cpus.size < 2) return undefined;
  return new Map([...cpus].map(([zone, cpu]) => [zone, cpu / total]));
}

/** The Services with hints by zone, and the number of endpoints for each zone. */
export class TopologyBook {
  #shares: ZoneShares;
  readonly #counts = new Map<ObjectKey, Map<Family, ZoneCounts>>();
  /** Services that want hints, with the reason for each family that has none. */
  readonly #denied = new Map<ObjectKey, Map<Family, string>>();

  /** Sets the shares; returns the Services whose hints no longer fit, or may be possible now. */
  setShares(shares: ZoneShares): ObjectKey[] {
    if (sameShares(shares, this.#shares)) return [];
    this.#shares = shares;
    const isOverloaded = (families: ReadonlyMap<Family, ZoneCounts>) =>
      [...families.values()].some((counts) => hasOverload(counts, shares));
    const overloaded = [...this.#counts].filter(([, families]) => isOverloaded(families)).map(([key]) => key);
    return [...new Set([...overloaded, ...this.#denied.keys()])];
  }

  /** The Service was deleted, or one of its families. */
  forget(service: ObjectKey, family?: Family): void {
    forgetIn(this.#denied, service, family);
    forgetIn(this.#counts, service, family);
  }

  /** The Service wants no hints by zone; returns a notice when it had some. */
  release(service: ObjectKey, family: Family): Notice[] {
    const had = this.#counts.get(service)?.has(family) ?? false;
    this.forget(service, family);
    return had ? [disabled('Topology Aware Hints has been disabled', family)] : [];
  }

  /** Adds hints to a Service's endpoints of a family, or removes them, with a notice of the reason. */
  hint(slices: SlicesInHand, service: ObjectKey, family: Family): { slices: SlicesInHand; notices: Notice[] } {
    const had = this.#counts.get(service)?.has(family) ?? false;
    const allocated = allocate(slices, this.#shares);
    if ('problem' in allocated) {
      const { problem } = allocated;
      const isReported = this.#denied.get(service)?.get(family) === problem;
      this.forget(service, family);
      rememberIn(this.#denied, { service, family, value: problem });
      return { slices: withoutHints(slices), notices: isReported ? [] : [disabled(problem, family)] };
    }
    this.forget(service, family);
    rememberIn(this.#counts, { service, family, value: allocated.counts });
    const note = `Topology Aware Hints has been enabled, addressType: ${family}`;
    const notices: Notice[] = had ? [] : [{ type: 'Normal', reason: 'TopologyAwareHintsEnabled', note }];
    return { slices: allocated.slices, notices };
  }
}

type ByFamily<T> = Map<ObjectKey, Map<Family, T>>;

function forgetIn<T>(book: ByFamily<T>, service: ObjectKey, family: Family | undefined): void {
  const families = book.get(service);
  if (family !== undefined) families?.delete(family);
  if (family === undefined || families?.size === 0) book.delete(service);
}

function rememberIn<T>(book: ByFamily<T>, entry: { service: ObjectKey; family: Family; value: T }): void {
  const families = book.get(entry.service) ?? new Map<Family, T>();
  families.set(entry.family, entry.value);
  book.set(entry.service, families);
}

function sameShares(a: ZoneShares, b: ZoneShares): boolean {
  return sameData(a && [...a].sort(), b && [...b].sort());
}

function disabled(problem: string, family: Family): Notice {
  return { type: 'Warning', reason: 'TopologyAwareHintsDisabled', note: `${problem}, addressType: ${family}` };
}

/** Whether a zone has too few endpoints, or a removed zone has some. */
function hasOverload(counts: ZoneCounts, shares: ZoneShares): boolean {
  if (counts.size === 0) return false;
  if (shares === undefined || [...counts].some(([zone, count]) => count > 0 && !shares.has(zone))) return true;
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return [...shares].some(([zone, share]) => (counts.get(zone) ?? 0) < minimum(total * share) || !counts.has(zone));
}

function minimum(wanted: number): number {
  return Math.ceil(wanted / (1 + OVERLOAD));
}

interface Allotment {
  readonly maximum: number;
  readonly wanted: number;
}

type Allocated = { readonly slices: SlicesInHand; readonly counts: ZoneCounts } | { readonly problem: string };

function allocate(slices: SlicesInHand, shares: ZoneShares): Allocated {
  const all = [...slices.create, ...slices.update, ...slices.unchanged];
  const ready = all.reduce((sum, { endpoints }) => sum + endpoints.filter(isReady).length, 0);
  const allotments = allot(ready, shares);
  if ('problem' in allotments) return allotments;
  const { kept, redone, counts } = keepFitting(slices.unchanged, allotments.byZone);
  const inHand = [...slices.create, ...slices.update, ...redone];
  for (const endpoint of inHand.flatMap(({ endpoints }) => endpoints).filter(isReady)) {
    if (!endpoint.zone) return { problem: 'One or more endpoints do not have a zone specified' };
    counts.set(endpoint.zone, (counts.get(endpoint.zone) ?? 0) + 1);
  }
  const moved = rebalance(inHand, transfers(allotments.byZone, counts), counts);
  const created = slices.create.length;
  const again = moved.slice(created + slices.update.length);
  const isSame = (slice: SliceObject, i: number) => sameData(slice.endpoints, redone[i]?.endpoints);
  return {
    slices: {
      create: moved.slice(0, created),
      update: [...moved.slice(created, created + slices.update.length), ...again.filter((one, i) => !isSame(one, i))],
      unchanged: [...kept, ...again.filter(isSame)],
    },
    counts,
  };
}

/** The wanted and the largest number of endpoints of each zone. */
function allot(ready: number, shares: ZoneShares): { byZone: Map<string, Allotment> } | { problem: string } {
  if (shares === undefined) {
    return { problem: 'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes' };
  }
  const of = `(${ready} endpoints, ${shares.size} zones)`;
  if (shares.size > ready) return { problem: `Insufficient number of endpoints ${of}` };
  const needed = [...shares].map(([zone, share]) => ({ zone, wanted: share * ready, minimum: minimum(share * ready) }));
  const spare = ready - needed.reduce((sum, zone) => sum + zone.minimum, 0);
  if (spare < 0) {
    const problem = 'Unable to allocate minimum required endpoints to each zone without exceeding overload threshold';
    return { problem: `${problem} ${of}` };
  }
  const allotment = (zone: (typeof needed)[number]) => ({
    maximum: zone.minimum + spare,
    wanted: Math.max(zone.wanted, zone.minimum),
  });
  return { byZone: new Map(needed.map((zone) => [zone.zone, allotment(zone)])) };
}

/** Unchanged slices keep hints that fit the allotments; the others get new ones. */
function keepFitting(unchanged: readonly SliceObject[], allotments: ReadonlyMap<string, Allotment>) {
  const counts = new Map<string, number>();
  const kept: SliceObject[] = [];
  const redone: SliceObject[] = [];
  for (const slice of unchanged) {
    const own = hintCounts(slice);
    const fits = (zone: string, count: number) =>
      count + (counts.get(zone) ?? 0) <= (allotments.get(zone)?.maximum ?? Number.NEGATIVE_INFINITY);
    if (own === undefined || ![...own].every(([zone, count]) => fits(zone, count))) redone.push(slice);
    else {
      kept.push(slice);
      for (const [zone, count] of own) counts.set(zone, (counts.get(zone) ?? 0) + count);
    }
  }
  return { kept, redone, counts };
}

/** Hints of a slice by zone; undefined when a ready endpoint has none. */
function hintCounts({ endpoints }: SliceObject): Map<string, number> | undefined {
  const counts = new Map<string, number>();
  for (const { hints } of endpoints.filter(isReady)) {
    const zones = hints?.forZones ?? [];
    if (zones.length === 0) return undefined;
    for (const { name } of zones) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/** The number of endpoints that each zone with too many gives away, and that each of the others gets. */
interface Transfers {
  readonly give: Map<string, number>;
  readonly get: Map<string, number>;
}

function transfers(allotments: ReadonlyMap<string, Allotment>, counts: ZoneCounts): Transfers {
  const over = new Map<string, number>();
  const under = new Map<string, number>();
  for (const [zone, { wanted }] of allotments) {
    const more = (counts.get(zone) ?? 0) - wanted;
    if (more > 0) over.set(zone, more);
    else if (more < 0) under.set(zone, -more);
  }
  const result: Transfers = { give: new Map(), get: new Map() };
  for (;;) {
    const [from, surplus] = greatest(over);
    const [to, shortage] = greatest(under);
    // One zone must be at least one endpoint off its share, and the other at least half an endpoint.
    if ((surplus < 1 && shortage < 1) || surplus < 0.5 || shortage < 0.5) return result;
    result.give.set(from, (result.give.get(from) ?? 0) + 1);
    result.get.set(to, (result.get.get(to) ?? 0) + 1);
    over.set(from, surplus - 1);
    under.set(to, shortage - 1);
  }
}

function greatest(zones: ReadonlyMap<string, number>): [zone: string, amount: number] {
  return [...zones].reduce((best, entry) => (entry[1] > best[1] ? entry : best), ['', 0]);
}

/** Gives each ready endpoint its own zone, or the one that it is transferred to, and updates `counts`. */
function rebalance(
  slices: readonly SliceObject[],
  { give, get }: Transfers,
  counts: Map<string, number>,
): SliceObject[] {
  const zoneFor = (own: string): string => {
    const left = give.get(own) ?? 0;
    const to = left > 0 ? [...get].find(([, shortage]) => shortage > 0)?.[0] : undefined;
    if (to === undefined) return own;
    give.set(own, left - 1);
    get.set(to, (get.get(to) ?? 0) - 1);
    counts.set(own, (counts.get(own) ?? 0) - 1);
    counts.set(to, (counts.get(to) ?? 0) + 1);
    return to;
  };
  const place = (endpoint: SliceEndpoint) => {
    if (!isReady(endpoint) || !endpoint.zone) return hinted(endpoint, undefined);
    return hinted(endpoint, { forZones: [{ name: zoneFor(endpoint.zone) }] });
  };
  return slices.map((slice) => ({ ...slice, endpoints: slice.endpoints.map(place) }));
}

/** The slices of a Service and family, before the choice of those that are written. */
export interface SlicesInHand {
  readonly create: readonly SliceObject[];
  readonly update: readonly SliceObject[];
  readonly unchanged: readonly SliceObject[];
}

/** Whether the endpoint is ready. */
export function isReady({ conditions }: SliceEndpoint): boolean {
  return conditions?.ready === true;
}

/** The slice with the hints of a function for each endpoint; undefined removes them. */
export function withHints(
  slice: SliceObject,
  hintsOf: (endpoint: SliceEndpoint) => SliceEndpoint['hints'],
): SliceObject {
  return { ...slice, endpoints: slice.endpoints.map((endpoint) => hinted(endpoint, hintsOf(endpoint))) };
}

/** The endpoint with these hints; undefined removes them. */
function hinted(endpoint: SliceEndpoint, hints: SliceEndpoint['hints']): SliceEndpoint {
  if (hints) return { ...endpoint, hints };
  if (endpoint.hints === undefined) return endpoint;
  const { hints: _, ...rest } = endpoint;
  return rest;
}

/** Removes all hints. Unchanged slices that had hints are updated. */
export function withoutHints({ create, update, unchanged }: SlicesInHand): SlicesInHand {
  const hasHints = (slice: SliceObject) => slice.endpoints.some(({ hints }) => hints !== undefined && hints !== null);
  const plain = (slice: SliceObject) => withHints(slice, () => undefined);
  return {
    create: create.map(plain),
    update: [...update, ...unchanged.filter(hasHints)].map(plain),
    unchanged: unchanged.filter((slice) => !hasHints(slice)),
  };
}
