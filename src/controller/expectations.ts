/**
 * What the controller wrote and its cache does not show yet. Who acts on a stale cache writes twice, or makes of two Pods one
 * endpoint: so the cache must show at least the versions that were written, and no slice that was deleted.
 */
import type { Metadata, ObjectKey } from '../producers/objects.ts';

/** What is expected of: a slice, or Endpoints. */
interface Written {
  readonly metadata: Metadata;
}

type Expected = { readonly kind: 'version'; readonly version: string } | { readonly kind: 'gone' };

/** Far more than writes whose answers are under way. */
const MOST_GONE = 1000;

export class Expectations {
  /** By Service, then by uid of the slice. */
  readonly #expected = new Map<ObjectKey, Map<string, Expected>>();
  /** What the cache heard is gone, the last of it: the answer to a write of it may come after that. */
  readonly #gone = new Set<string>();

  /** The API server answered a create or update with this. */
  wrote(service: ObjectKey, { metadata }: Written): void {
    const { uid = '', resourceVersion = '' } = metadata;
    if (!this.#gone.has(`${service} ${uid}`)) this.#of(service).set(uid, { kind: 'version', version: resourceVersion });
  }

  /** It is going to be deleted: the cache may hear of that before the API server's answer comes. */
  deleting(service: ObjectKey, { metadata }: Written): void {
    this.#of(service).set(metadata.uid ?? '', { kind: 'gone' });
  }

  /** It was not deleted after all, or nobody knows. */
  notDeleted(service: ObjectKey, { metadata }: Written): void {
    this.#drop(service, metadata.uid ?? '');
  }

  /** The cache heard of the slice: whether somebody else wrote it. */
  seen(service: ObjectKey, { metadata }: Written): boolean {
    const uid = metadata.uid ?? '';
    this.#gone.delete(`${service} ${uid}`);
    const expected = this.#expected.get(service)?.get(uid);
    if (expected === undefined) return true;
    return expected.kind === 'version' && isOlder(expected.version, metadata.resourceVersion ?? '');
  }

  /** The cache heard that the slice is gone: whether nobody here deleted it. */
  seenGone(service: ObjectKey, { metadata }: Written): boolean {
    const uid = metadata.uid ?? '';
    const expected = this.#expected.get(service)?.get(uid);
    this.#drop(service, uid);
    this.#gone.add(`${service} ${uid}`);
    const [oldest = ''] = this.#gone;
    if (this.#gone.size > MOST_GONE) this.#gone.delete(oldest);
    return expected?.kind !== 'gone';
  }

  /**
   * Whether what the cache has of a Service's slices is behind what was written; `shown`: up to which version it shows them.
   * A slice that it should show by then and does not is nobody's any more: somebody deleted it, or gave it to another.
   */
  isStale(service: ObjectKey, slices: readonly Written[], shown: string): boolean {
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

/** resourceVersions of one kind are numbers that grow (KEP-5504); others cannot be compared, and then none is older. */
export function isOlder(a: string, b: string): boolean {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}
