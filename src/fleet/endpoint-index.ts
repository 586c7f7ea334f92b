/** The slices that have an endpoint, by Pod and by address, and the Services that had it until a moment ago. Pure. */
import type { Family } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { ServiceKey, SliceKey } from '../proxy/model/objects.ts';
import type { FleetEndpoint, FleetSlice, SliceEndpointRef } from './types.ts';

/** A Service that had an endpoint. */
export interface PastEndpoint {
  readonly service: ServiceKey;
  readonly family: Family;
}

interface Remembered extends PastEndpoint {
  readonly name: string;
  /** Milliseconds of the clock. */
  readonly at: number;
}

/** Past endpoints are kept longer than the longest question waits. */
const MAX_PAST_AGE_MS = 15 * 60_000;
const MAX_PAST_ENDPOINTS = 100_000;

export class EndpointIndex {
  readonly #clock: Pick<Clock, 'now'>;
  /** Slices by name. A name is a Pod, which has a slash, or an address. */
  readonly #slices = new Map<string, SliceKey | Set<SliceKey>>();
  readonly #past = new Map<string, Remembered[]>();
  /** The same entries, the oldest first, from `#oldest` on. */
  #queue: Remembered[] = [];
  #oldest = 0;
  /** Endpoints by name, for slices with a question. */
  readonly #named = new WeakMap<FleetSlice, Map<string, readonly SliceEndpointRef[]>>();
  /** The moments at which endpoints began to terminate, by Service and name, in milliseconds of the clock. */
  readonly #endings = new Map<string, number>();
  readonly #families: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Families that have slices. */
  get families(): readonly Family[] {
    return (['IPv4', 'IPv6'] as const).filter((family) => this.#families[family] > 0);
  }

  /** A slice changed. Returns its new endpoints. */
  replace(before: FleetSlice | undefined, now: FleetSlice | undefined): FleetEndpoint[] {
    if (before !== undefined) this.#families[before.family] -= 1;
    if (now !== undefined) this.#families[now.family] += 1;
    this.#terminating(before, now);
    const gone = allNames(before);
    const kept = before?.service === now?.service ? gone : new Set<string>();
    const added: FleetEndpoint[] = [];
    for (const endpoint of now?.endpoints ?? []) {
      const names = namesOf(endpoint);
      if (now !== undefined && names.some((name) => !kept.has(name))) {
        added.push(endpoint);
        for (const name of names) this.#add(name, now.key);
      }
    }
    const left = allNames(now);
    for (const name of gone) {
      if (before === undefined) continue;
      if (!left.has(name)) this.#remove(name, before.key);
      if (!left.has(name) || before.service !== now?.service) this.#remember(name, before);
    }
    return added;
  }

  /** When an endpoint, named by its Pod or its address, began to terminate; -Infinity when the fleet did not see it. */
  endingSince(service: ServiceKey, name: string): number {
    return this.#endings.get(`${service} ${name}`) ?? Number.NEGATIVE_INFINITY;
  }

  /** The endpoints of a name, in the order of their slices' names. */
  now(name: string, slices: ReadonlyMap<SliceKey, FleetSlice>): readonly SliceEndpointRef[] {
    const keys = this.#slices.get(name);
    if (keys === undefined) return [];
    const placesIn = (key: SliceKey) => {
      const slice = slices.get(key);
      return slice === undefined ? [] : (this.#namesOf(slice).get(name) ?? []);
    };
    return typeof keys === 'string' ? placesIn(keys) : [...keys].sort().flatMap(placesIn);
  }

  #namesOf(slice: FleetSlice): Map<string, readonly SliceEndpointRef[]> {
    let named = this.#named.get(slice);
    if (named === undefined) {
      named = new Map();
      for (const endpoint of slice.endpoints) {
        for (const name of namesOf(endpoint)) named.set(name, [...(named.get(name) ?? []), { slice, endpoint }]);
      }
      this.#named.set(slice, named);
    }
    return named;
  }

  /** Services that had an endpoint of this name in the last quarter of an hour. */
  past(name: string): readonly PastEndpoint[] {
    this.#forget();
    return this.#past.get(name) ?? [];
  }

  #terminating(before: FleetSlice | undefined, now: FleetSlice | undefined): void {
    const ending = new Set(endingsOf(now));
    for (const name of endingsOf(before)) if (!ending.has(name)) this.#endings.delete(name);
    for (const name of ending) if (!this.#endings.has(name)) this.#endings.set(name, this.#clock.now());
  }

  #add(name: string, key: SliceKey): void {
    const keys = this.#slices.get(name);
    if (keys === undefined) this.#slices.set(name, key);
    else if (typeof keys !== 'string') keys.add(key);
    else if (keys !== key) this.#slices.set(name, new Set([keys, key]));
  }

  #remove(name: string, key: SliceKey): void {
    const keys = this.#slices.get(name);
    if (keys === key) this.#slices.delete(name);
    else if (keys instanceof Set) {
      keys.delete(key);
      if (keys.size === 0) this.#slices.delete(name);
    }
  }

  #remember(name: string, { service, family }: FleetSlice): void {
    this.#forget();
    const remembered = { name, service, family, at: this.#clock.now() };
    const before = this.#past.get(name)?.filter((each) => each.service !== service || each.family !== family) ?? [];
    this.#past.set(name, [...before, remembered]);
    this.#queue.push(remembered);
  }

  #forget(): void {
    const since = this.#clock.now() - MAX_PAST_AGE_MS;
    for (; this.#oldest < this.#queue.length; this.#oldest += 1) {
      const oldest = this.#queue[this.#oldest];
      if (oldest === undefined || (oldest.at >= since && this.#queue.length - this.#oldest < MAX_PAST_ENDPOINTS)) break;
      const left = this.#past.get(oldest.name)?.filter((other) => other !== oldest) ?? [];
      if (left.length === 0) this.#past.delete(oldest.name);
      else this.#past.set(oldest.name, left);
    }
    if (this.#oldest < MAX_PAST_ENDPOINTS && this.#oldest < this.#queue.length) return;
    this.#queue = this.#queue.slice(this.#oldest);
    this.#oldest = 0;
  }
}

function namesOf({ address, pod }: FleetEndpoint): readonly string[] {
  return pod === '' ? [address] : [address, pod];
}

function endingsOf(slice: FleetSlice | undefined): string[] {
  const ending = slice?.endpoints.filter(({ terminating }) => terminating) ?? [];
  return ending.map(({ pod, address }) => `${slice?.service} ${pod || address}`);
}

function allNames(slice: FleetSlice | undefined): Set<string> {
  return new Set(slice?.endpoints.flatMap(namesOf));
}
