/**
 * The sorted list of Services, and the results of searches. Both are kept until they may have changed, and made in portions, because there
 * may be very many.
 */

import { breath } from '../../base/clock.ts';
import { inPortions } from '../../base/portions.ts';
import type { Cache } from '../../cluster/cache/cache.ts';
import { fits, fitsByName, type Term, termsOf } from '../../inspect/overview/service-list.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { OneAtATime } from './one-at-a-time.ts';

/** Limit of searches whose results are kept. */
const MAX_KEPT = 8;
/** Services that are sorted before the event loop gets its turn. */
const RUN_LENGTH = 2000;
/**
 * A search that reads Services, and not only their names, is repeated after a change only when this multiple of its own time has passed. So it
 * takes at most a tenth of a core, however often objects change.
 */
const REST_FACTOR = 10;

interface SearchResult {
  readonly names: number;
  readonly objects: number;
  /** True when the names alone decided. */
  readonly isByName: boolean;
  readonly endedAt: number;
  readonly took: number;
  readonly keys: readonly ServiceKey[];
}

/** The kept results for one cache. */
interface CachedSearches {
  readonly found: Map<string, SearchResult>;
  order: { readonly names: number; readonly keys: readonly ServiceKey[] } | undefined;
}

export class ServiceSearch {
  readonly #cache: () => Cache;
  readonly #now: () => number;
  readonly #limiter = new OneAtATime('services');
  /** Weak, because a reload may replace the cache. */
  #kept = new WeakMap<Cache, CachedSearches>();

  constructor(cache: () => Cache, now: () => number) {
    this.#cache = cache;
    this.#now = now;
  }

  /**
   * The sorted keys of the Services that match, with those that are set aside. Throws NoAnswer when too many requests wait, and the
   * signal's reason.
   */
  async find(search: string, signal: AbortSignal): Promise<readonly ServiceKey[]> {
    const known = this.#known(search);
    if (known !== undefined) return known;
    return await this.#limiter.run(signal, async () => this.#known(search) ?? (await this.#search(search, signal)));
  }

  /** Drops all kept results. */
  forget(): void {
    this.#kept = new WeakMap();
  }

  #keptOf(cache: Cache): CachedSearches {
    const kept = this.#kept.get(cache) ?? { found: new Map<string, SearchResult>(), order: undefined };
    this.#kept.set(cache, kept);
    return kept;
  }

  #known(search: string): readonly ServiceKey[] | undefined {
    const cache = this.#cache();
    const found = this.#kept.get(cache)?.found.get(search);
    if (found === undefined || found.names !== cache.byName.version) return undefined;
    const isFresh = found.isByName || found.objects === objectsVersion(cache);
    return isFresh || this.#now() - found.endedAt < REST_FACTOR * found.took ? found.keys : undefined;
  }

  async #search(search: string, signal: AbortSignal): Promise<readonly ServiceKey[]> {
    const cache = this.#cache();
    const [names, objects, began] = [cache.byName.version, objectsVersion(cache), this.#now()];
    const all = await this.#sorted(cache, signal);
    const terms = termsOf(search);
    const keys = terms.length === 0 ? all : await fitting(all, { terms, cache, signal });
    const endedAt = this.#now();
    const isByName = terms.every(({ isNumber, isAddress }) => !isNumber && !isAddress);
    const { found } = this.#keptOf(cache);
    found.delete(search);
    found.set(search, { names, objects, isByName, endedAt, took: endedAt - began, keys });
    const [oldest] = found.keys();
    if (found.size > MAX_KEPT && oldest !== undefined) found.delete(oldest);
    return keys;
  }

  async #sorted(cache: Cache, signal: AbortSignal): Promise<readonly ServiceKey[]> {
    const names = cache.byName.version;
    const kept = this.#keptOf(cache);
    if (kept.order?.names === names) return kept.order.keys;
    const keys = await sorted([...new Set([...cache.byName.keys(), ...setAsideServices(cache)])], signal);
    kept.order = { names, keys };
    return keys;
  }
}

/** The Services that are set aside as a whole, of which only the faults are known. */
function setAsideServices({ faults }: Cache): ServiceKey[] {
  if (!faults.counts.has('object set aside')) return [];
  return faults.all
    .filter(({ kind, effect }) => kind === 'Service' && effect === 'object set aside')
    .map(({ object }) => object);
}

/** Grows with each event of a Service or an EndpointSlice. */
function objectsVersion(cache: Cache): number {
  return cache.counts('services').total + cache.counts('slices').total;
}

interface Searching {
  readonly terms: readonly Term[];
  readonly cache: Cache;
  readonly signal: AbortSignal;
}

async function fitting(all: readonly ServiceKey[], { terms, cache, signal }: Searching): Promise<ServiceKey[]> {
  const found: ServiceKey[] = [];
  const look = (key: ServiceKey) => {
    const byName = fitsByName(terms, key);
    if (byName === false) return;
    const service = byName === undefined ? cache.service(key) : undefined;
    const isFitting = byName ?? (service !== undefined && fits(terms, service, () => cache.slicesOf(key)));
    if (isFitting) found.push(key);
  };
  await inPortions(all, look, signal);
  return found;
}

/** Sorts runs and merges them, so that the event loop gets its turn after each. Lists of an API server are sorted already, which makes it fast. */
async function sorted(keys: readonly ServiceKey[], signal: AbortSignal): Promise<readonly ServiceKey[]> {
  let runs: (readonly ServiceKey[])[] = [];
  for (let i = 0; i < keys.length; i += RUN_LENGTH) {
    runs.push(keys.slice(i, i + RUN_LENGTH).sort());
    await breath();
    signal.throwIfAborted();
  }
  while (runs.length > 1) {
    const merged: (readonly ServiceKey[])[] = [];
    for (let i = 0; i < runs.length; i += 2) {
      merged.push(merge(runs[i] ?? [], runs[i + 1] ?? []));
      await breath();
      signal.throwIfAborted();
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function merge(a: readonly ServiceKey[], b: readonly ServiceKey[]): readonly ServiceKey[] {
  const merged: ServiceKey[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    const isLeft = right === undefined || (left !== undefined && left <= right);
    const next = isLeft ? left : right;
    if (next !== undefined) merged.push(next);
    if (isLeft) i += 1;
    else j += 1;
  }
  return merged;
}
