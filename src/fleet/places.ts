/** Which slices have an endpoint, by Pod and by address, and which Services had it until a moment ago. Pure. */
import type { Clock } from '../host/clock.ts';
import type { Family } from '../model/address.ts';
import type { ServiceKey, SliceKey } from '../model/objects.ts';
import type { FleetEndpoint, FleetSlice } from './objects.ts';

/** An endpoint in a slice. */
export interface Place {
  readonly slice: FleetSlice;
  readonly endpoint: FleetEndpoint;
}

/** A Service that had an endpoint. */
export interface PastPlace {
  readonly service: ServiceKey;
  readonly family: Family;
}

interface Remembered extends PastPlace {
  readonly name: string;
  /** Milliseconds of the clock. */
  readonly at: number;
}

/** Milliseconds for which Services are remembered, longer than the longest question waits, and how many of them. */
const REMEMBERED = 15 * 60_000;
const MOST = 100_000;

export class Places {
  readonly #clock: Pick<Clock, 'now'>;
  /** Slices by name: a Pod, which has a slash, or an address. */
  readonly #slices = new Map<string, SliceKey | Set<SliceKey>>();
  readonly #past = new Map<string, Remembered[]>();
  /** The same, the oldest first. */
  #queue: Remembered[] = [];
  readonly #families: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Families of which there are slices. */
  get families(): readonly Family[] {
    return (['IPv4', 'IPv6'] as const).filter((family) => this.#families[family] > 0);
  }

  /** A slice changed. Returns the endpoints that it had not. */
  replace(before: FleetSlice | undefined, now: FleetSlice | undefined): FleetEndpoint[] {
    if (before !== undefined) this.#families[before.family] -= 1;
    if (now !== undefined) this.#families[now.family] += 1;
    const gone = namesOf(before);
    const kept = before?.service === now?.service ? gone : new Set<string>();
    const added: FleetEndpoint[] = [];
    for (const endpoint of now?.endpoints ?? []) {
      const names = endpoint.pod === '' ? [endpoint.address] : [endpoint.address, endpoint.pod];
      if (now !== undefined && names.some((name) => !kept.has(name))) {
        added.push(endpoint);
        for (const name of names) this.#add(name, now.key);
      }
    }
    const left = namesOf(now);
    for (const name of gone) {
      if (before === undefined) continue;
      if (!left.has(name)) this.#remove(name, before.key);
      if (!left.has(name) || before.service !== now?.service) this.#remember(name, before);
    }
    return added;
  }

  /** Where it is, in the order of the slices' names. */
  now(name: string, slices: ReadonlyMap<SliceKey, FleetSlice>): Place[] {
    const keys = this.#slices.get(name);
    if (keys === undefined) return [];
    return (typeof keys === 'string' ? [keys] : [...keys].sort()).flatMap((key) => {
      const slice = slices.get(key);
      if (slice === undefined) return [];
      const isIt = ({ pod, address }: FleetEndpoint) => pod === name || address === name;
      return slice.endpoints.filter(isIt).map((endpoint) => ({ slice, endpoint }));
    });
  }

  /** Services that had it in the last quarter of an hour. */
  past(name: string): readonly PastPlace[] {
    this.#forget();
    return this.#past.get(name) ?? [];
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
    const since = this.#clock.now() - REMEMBERED;
    let count = 0;
    for (const each of this.#queue) {
      if (each.at >= since && this.#queue.length - count < MOST) break;
      count += 1;
      const left = this.#past.get(each.name)?.filter((other) => other !== each) ?? [];
      if (left.length === 0) this.#past.delete(each.name);
      else this.#past.set(each.name, left);
    }
    if (count > 0) this.#queue = this.#queue.slice(count);
  }
}

function namesOf(slice: FleetSlice | undefined): Set<string> {
  const names = new Set<string>();
  for (const { address, pod } of slice?.endpoints ?? []) {
    names.add(address);
    if (pod !== '') names.add(pod);
  }
  return names;
}
