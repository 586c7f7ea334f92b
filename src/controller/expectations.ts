/**
 * Writes that the cache does not show yet. A sync on a stale cache would write twice, or turn two Pods into one endpoint: the cache must show
 * at least the versions that were written, and no slice that was deleted.
 */

import type { Metadata, ObjectKey } from '../cluster/producers/api-objects.ts';
import { isOlder } from '../proxy/model/resource-version.ts';

/** A written object: a slice, or Endpoints. */
interface WrittenObject {
  readonly metadata: Metadata;
}

type Expected = { readonly kind: 'version'; readonly version: string } | { readonly kind: 'gone' };

/** Deleted objects that are remembered: far more than the number of writes that wait for an answer. */
const MAX_GONE = 1000;

export class Expectations {
  /** By Service, then by uid of the slice. */
  readonly #expected = new Map<ObjectKey, Map<string, Expected>>();
  /** Objects that the watch showed of Services whose writes are under way. */
  readonly #early = new Map<ObjectKey, Metadata[]>();
  /** The last objects that the watch reported as gone: the answer to a write of one may come later. */
  readonly #gone = new Set<string>();

  /** Writes for a Service begin. The watch may show them before the API server answers. */
  begin(service: ObjectKey): void {
    this.#early.set(service, []);
  }

  /** The writes ended. Returns whether the watch meanwhile showed something that was not written here. */
  end(service: ObjectKey): boolean {
    const early = this.#early.get(service) ?? [];
    this.#early.delete(service);
    return early.length > 0;
  }

  /** The API server answered a create or update with this object. `shown`: the version up to which the cache shows objects. */
  wrote(service: ObjectKey, { metadata }: WrittenObject, shown: string): void {
    const { uid = '', resourceVersion = '' } = metadata;
    const early = this.#early.get(service);
    const isNews = (one: Metadata) => one.uid !== uid || isOlder(resourceVersion, one.resourceVersion ?? '');
    if (early !== undefined) this.#early.set(service, early.filter(isNews));
    if (shown !== '' && !isOlder(shown, resourceVersion)) {
      // The watch was faster than the answer: nothing is expected any more, and memory is kept for nothing.
      this.#drop(service, uid);
      return;
    }
    if (!this.#gone.has(`${service} ${uid}`)) this.#of(service).set(uid, { kind: 'version', version: resourceVersion });
  }

  /** A delete begins. The watch may report it before the API server answers. */
  deleting(service: ObjectKey, { metadata }: WrittenObject): void {
    this.#of(service).set(metadata.uid ?? '', { kind: 'gone' });
  }

  /** The delete failed, or its result is unknown. */
  notDeleted(service: ObjectKey, { metadata }: WrittenObject): void {
    this.#drop(service, metadata.uid ?? '');
  }

  /** The watch reported the slice. Returns whether another program wrote it; while writes are under way, `end` returns that. */
  seen(service: ObjectKey, { metadata }: WrittenObject): boolean {
    const uid = metadata.uid ?? '';
    this.#gone.delete(`${service} ${uid}`);
    const expected = this.#expected.get(service)?.get(uid);
    if (expected === undefined) {
      const early = this.#early.get(service);
      early?.push(metadata);
      return early === undefined;
    }
    if (expected.kind === 'gone') return false;
    const version = metadata.resourceVersion ?? '';
    if (!isOlder(version, expected.version)) this.#drop(service, uid);
    return isOlder(expected.version, version);
  }

  /** The watch reported that the slice is gone. Returns whether another program deleted it. */
  seenGone(service: ObjectKey, { metadata }: WrittenObject): boolean {
    const uid = metadata.uid ?? '';
    const expected = this.#expected.get(service)?.get(uid);
    this.#drop(service, uid);
    this.#gone.add(`${service} ${uid}`);
    const [oldest = ''] = this.#gone;
    if (this.#gone.size > MAX_GONE) this.#gone.delete(oldest);
    return expected?.kind !== 'gone';
  }

  /**
   * Whether the cache lacks writes of a Service's slices; `shown`: the resourceVersion up to which it shows slices.
   * A slice that is missing although `shown` covers its write was deleted by another program, or moved to another Service.
   */
  isStale(service: ObjectKey, slices: readonly WrittenObject[], shown: string): boolean {
    const expected = this.#expected.get(service);
    if (expected === undefined) return false;
    const versions = new Map(slices.map(({ metadata }) => [metadata.uid ?? '', metadata.resourceVersion ?? '']));
    const isBehind = ([uid, one]: readonly [string, Expected]) => {
      const version = versions.get(uid);
      if (one.kind === 'gone') return version !== undefined;
      if (version !== undefined) return isOlder(version, one.version);
      if (shown === '' || isOlder(shown, one.version)) return true;
      this.#drop(service, uid);
      return false;
    };
    return [...expected].some(isBehind);
  }

  forget(service: ObjectKey): void {
    this.#expected.delete(service);
  }

  clear(): void {
    this.#expected.clear();
    this.#gone.clear();
  }

  #drop(service: ObjectKey, uid: string): void {
    const known = this.#expected.get(service);
    known?.delete(uid);
    if (known?.size === 0) this.#expected.delete(service);
  }

  #of(service: ObjectKey): Map<string, Expected> {
    const known = this.#expected.get(service);
    if (known !== undefined) return known;
    const fresh = new Map<string, Expected>();
    this.#expected.set(service, fresh);
    return fresh;
  }
}
