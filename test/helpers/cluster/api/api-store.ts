/** The objects of the API server for tests, with their history: what etcd holds for the real one. */

/** An API object; the store fills in what the real server would fill in of its metadata. */
export interface ApiObject {
  apiVersion?: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    uid?: string;
    resourceVersion?: string;
    generateName?: string;
    creationTimestamp?: string;
  };
  [field: string]: unknown;
}

/** What is told of an object; a Status, and the object of a bookmark, have no name. */
export interface ToldObject {
  readonly kind: string;
  readonly apiVersion?: string;
  readonly metadata: object;
  readonly [field: string]: unknown;
}

/** Objects as JSON: each is written once, however often it is sent. */
const texts = new WeakMap<ToldObject, string>();

/** As an item of a list, which does not say what it is. */
export function itemText(object: ToldObject): string {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const { kind: _, apiVersion: __, ...item } = object;
  const text = JSON.stringify(item);
  texts.set(object, text);
  return text;
}

/** With its kind and version. */
export function objectText(object: ToldObject): string {
  const { kind, apiVersion } = object;
  // Every item has metadata: there is something behind the comma.
  return `${JSON.stringify({ kind, apiVersion }).slice(0, -1)},${itemText(object).slice(1)}`;
}

export interface Collection {
  readonly kind: string;
  readonly apiVersion: string;
  /** A version in which older servers have it. */
  readonly olderVersion?: string;
  /** Plural, as in paths. */
  readonly resource: string;
  readonly isNamespaced: boolean;
  /** Fields that the real server writes into the bookmark of this kind: none of them is optional there. */
  readonly bookmark: object;
}

export const COLLECTIONS: readonly Collection[] = [
  {
    kind: 'Service',
    apiVersion: 'v1',
    resource: 'services',
    isNamespaced: true,
    bookmark: { spec: {}, status: { loadBalancer: {} } },
  },
  { kind: 'Node', apiVersion: 'v1', resource: 'nodes', isNamespaced: false, bookmark: { spec: {}, status: {} } },
  {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    resource: 'endpointslices',
    isNamespaced: true,
    bookmark: { addressType: '', endpoints: null, ports: null },
  },
  {
    kind: 'Pod',
    apiVersion: 'v1',
    resource: 'pods',
    isNamespaced: true,
    bookmark: { spec: { containers: null }, status: {} },
  },
  {
    kind: 'ServiceCIDR',
    apiVersion: 'networking.k8s.io/v1',
    olderVersion: 'networking.k8s.io/v1beta1',
    resource: 'servicecidrs',
    isNamespaced: false,
    bookmark: { spec: {}, status: {} },
  },
  { kind: 'Endpoints', apiVersion: 'v1', resource: 'endpoints', isNamespaced: true, bookmark: {} },
  {
    kind: 'Lease',
    apiVersion: 'coordination.k8s.io/v1',
    resource: 'leases',
    isNamespaced: true,
    bookmark: { spec: {} },
  },
];

/** One write: what was there before it, and after it. */
export interface Change {
  readonly version: number;
  readonly kind: string;
  readonly key: string;
  readonly before: ApiObject | undefined;
  readonly after: ApiObject | undefined;
}

/** The states of one object, oldest first; undefined where it was deleted. */
type States = { readonly version: number; readonly object: ApiObject | undefined }[];

/** The objects of one kind, in the order of their keys. */
class Shelf {
  readonly #states = new Map<string, States>();
  #keys: string[] = [];
  #isSorted = true;

  newest(key: string): ApiObject | undefined {
    return this.#states.get(key)?.at(-1)?.object;
  }

  add(key: string, version: number, object: ApiObject | undefined): void {
    const states = this.#states.get(key);
    if (states) {
      states.push({ version, object });
      return;
    }
    this.#states.set(key, [{ version, object }]);
    this.#keys.push(key);
    this.#isSorted = false;
  }

  /** Objects as they were at a version, from the first key on that is not before `start`. Costs what is taken from it. */
  *from(version: number, start: string): Generator<[key: string, object: ApiObject]> {
    if (!this.#isSorted) this.#keys.sort();
    this.#isSorted = true;
    const keys = this.#keys;
    for (let at = firstAt(keys, (key) => key >= start); at < keys.length; at++) {
      const key = keys[at] as string;
      const object = this.#states.get(key)?.findLast((state) => state.version <= version)?.object;
      if (object) yield [key, object];
    }
  }

  /** Keep nothing that came after a version. */
  rewind(version: number): void {
    for (const [key, states] of this.#states) {
      const kept = states.filter((state) => state.version <= version);
      if (kept.length === 0) this.#states.delete(key);
      else this.#states.set(key, kept);
    }
    this.#keys = [...this.#states.keys()];
    this.#isSorted = false;
  }

  /** Keep nothing but the newest states. */
  forget(): void {
    for (const [key, states] of this.#states) {
      if (states.at(-1)?.object === undefined) this.#states.delete(key);
      else states.splice(0, states.length - 1);
    }
    this.#keys = [...this.#states.keys()];
    this.#isSorted = false;
  }
}

/** Index of the first item that fits, where all behind it do as well; the length when none does. */
function firstAt<T>(items: readonly T[], fits: (item: T) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (fits(items[middle] as T)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** What the store fills in of an object that is new. */
export interface NewObject {
  readonly uid: () => string;
  readonly creationTimestamp: () => string;
}

const NEW: NewObject = { uid: () => crypto.randomUUID(), creationTimestamp: () => '2026-11-21T00:00:00Z' };

export class ApiStore {
  readonly #new: NewObject;
  readonly #shelves = new Map(COLLECTIONS.map(({ kind }) => [kind, new Shelf()]));
  #history: Change[] = [];
  readonly #changed = new Map<string, number>();
  #version = 1000;
  #oldest = 0;

  constructor(fill: NewObject = NEW) {
    this.#new = fill;
  }

  get version(): number {
    return this.#version;
  }

  /** The oldest version from which the changes since are still known. */
  get oldest(): number {
    return this.#oldest;
  }

  get(kind: string, key: string): ApiObject | undefined {
    return this.#shelf(kind).newest(key);
  }

  put(object: ApiObject): Change {
    const { isNamespaced, apiVersion } = collectionOf(object.kind);
    const { namespace = 'default', name } = object.metadata;
    const key = isNamespaced ? `${namespace}/${name}` : name;
    const before = this.get(object.kind, key);
    const copy = structuredClone(object);
    copy.apiVersion = apiVersion;
    copy.metadata = {
      uid: before?.metadata.uid ?? this.#new.uid(),
      creationTimestamp: before?.metadata.creationTimestamp ?? this.#new.creationTimestamp(),
      ...copy.metadata,
      ...(isNamespaced ? { namespace } : {}),
      resourceVersion: String(this.#version + 1),
    };
    return this.#record({ kind: object.kind, key, before, after: copy });
  }

  /** Undefined when there is no such object. */
  delete(kind: string, key: string): Change | undefined {
    const before = this.get(kind, key);
    return before && this.#record({ kind, key, before, after: undefined });
  }

  /** Objects that are not watched here change as well: the version of the whole server moves. */
  touch(times = 1): void {
    this.#version += times;
  }

  /** Forget all history, as etcd's compaction does. */
  compact(): void {
    this.touch();
    this.#history = [];
    for (const shelf of this.#shelves.values()) shelf.forget();
    this.#oldest = this.#version;
  }

  /** The version of the newest change of a kind; 0 when there was none. */
  lastChange(kind: string): number {
    return this.#changed.get(kind) ?? 0;
  }

  /** As it was at a version: what came later never was. */
  rewind(version: number): void {
    this.#version = version;
    this.#history = this.#history.filter((change) => change.version <= version);
    for (const shelf of this.#shelves.values()) shelf.rewind(version);
  }

  changesSince(version: number): readonly Change[] {
    return this.#history.slice(firstAt(this.#history, (change) => change.version > version));
  }

  /** Objects of a kind as they were at a version that is not forgotten, ordered by key, from the first one not before `start`. */
  from(version: number, kind: string, start = ''): Generator<[key: string, object: ApiObject]> {
    return this.#shelf(kind).from(version, start);
  }

  #shelf(kind: string): Shelf {
    const { kind: known } = collectionOf(kind);
    return this.#shelves.get(known) as Shelf;
  }

  #record(write: Omit<Change, 'version'>): Change {
    this.#version += 1;
    const change = { ...write, version: this.#version };
    this.#history.push(change);
    this.#changed.set(write.kind, change.version);
    this.#shelf(write.kind).add(write.key, change.version, write.after);
    return change;
  }
}

function collectionOf(kind: string): Collection {
  const found = COLLECTIONS.find((collection) => collection.kind === kind);
  if (found === undefined) throw new Error(`the API server for tests has no kind ${kind}`);
  return found;
}
