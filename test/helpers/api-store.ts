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
    creationTimestamp?: string;
  };
  [field: string]: unknown;
}

export interface Collection {
  readonly kind: string;
  readonly apiVersion: string;
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
];

/** One write: what was there before it, and after it. */
export interface Change {
  readonly version: number;
  readonly kind: string;
  readonly key: string;
  readonly before: ApiObject | undefined;
  readonly after: ApiObject | undefined;
}

export class ApiStore {
  /** `Kind namespace/name` → object. */
  readonly #objects = new Map<string, ApiObject>();
  #history: Change[] = [];
  #version = 1000;
  #oldest = 0;

  get version(): number {
    return this.#version;
  }

  /** The oldest version from which the changes since are still known. */
  get oldest(): number {
    return this.#oldest;
  }

  get(kind: string, key: string): ApiObject | undefined {
    return this.#objects.get(`${kind} ${key}`);
  }

  put(object: ApiObject): Change {
    const { isNamespaced, apiVersion } = collectionOf(object.kind);
    const { namespace = 'default', name } = object.metadata;
    const key = isNamespaced ? `${namespace}/${name}` : name;
    const before = this.get(object.kind, key);
    const copy = structuredClone(object);
    copy.apiVersion = apiVersion;
    copy.metadata = {
      uid: before?.metadata.uid ?? crypto.randomUUID(),
      creationTimestamp: before?.metadata.creationTimestamp ?? '2026-11-21T00:00:00Z',
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
  touch(): void {
    this.#version += 1;
  }

  /** Forget all history, as etcd's compaction does. */
  compact(): void {
    this.touch();
    this.#history = [];
    this.#oldest = this.#version;
  }

  changesSince(version: number): readonly Change[] {
    return this.#history.filter((change) => change.version > version);
  }

  /** Objects of a kind as they were at a version that is not forgotten, ordered by key. */
  at(version: number, kind: string): [key: string, object: ApiObject][] {
    const objects = new Map(this.#objects);
    for (const change of this.changesSince(version).toReversed()) {
      const id = `${change.kind} ${change.key}`;
      if (change.before) objects.set(id, change.before);
      else objects.delete(id);
    }
    return [...objects]
      .filter(([id]) => id.startsWith(`${kind} `))
      .map(([id, object]): [string, ApiObject] => [id.slice(kind.length + 1), object])
      .sort(([a], [b]) => (a < b ? -1 : 1));
  }

  #record(write: Omit<Change, 'version'>): Change {
    this.#version += 1;
    const change = { ...write, version: this.#version };
    this.#history.push(change);
    const id = `${write.kind} ${write.key}`;
    if (write.after) this.#objects.set(id, write.after);
    else this.#objects.delete(id);
    return change;
  }
}

function collectionOf(kind: string): Collection {
  const found = COLLECTIONS.find((collection) => collection.kind === kind);
  if (found === undefined) throw new Error(`the API server for tests has no kind ${kind}`);
  return found;
}
