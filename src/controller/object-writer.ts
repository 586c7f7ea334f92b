/**
 * Writes slices and Endpoints, and stops at the first failure, which the queue retries. New slices of a Service are written together, then
 * changed ones in their order, and then unwanted ones are deleted together, so that no endpoint is ever missing.
 */
import { hash } from 'node:crypto';
import { type ApiClient, ApiError, isNamespaceTerminating } from '../cluster/api/client.ts';
import {
  type EndpointsObject,
  type ObjectKey,
  type SliceChanges,
  type SliceObject,
  triggerText,
} from '../cluster/producers/api-objects.ts';
import { TRIGGER_ANNOTATION } from '../proxy/model/labels.ts';
import type { Expectations } from './expectations.ts';
import { StaleCache } from './queue.ts';

export type Operation = 'create' | 'update' | 'delete';

export interface SliceWrite {
  readonly service: ObjectKey;
  readonly changes: SliceChanges;
  /** The trigger annotation, in milliseconds since 1970; 0 removes the annotation, undefined keeps it. */
  readonly triggeredAt: number | undefined;
  readonly signal: AbortSignal;
}

export interface SliceWriterOptions {
  readonly client: ApiClient;
  readonly expectations: Expectations;
  /** The resourceVersion up to which the cache shows slices. */
  readonly shown: () => string;
  /** Whether a slice of this `namespace/name` exists. */
  readonly isTaken: (key: ObjectKey) => boolean;
  readonly onWrite: (operation: Operation) => void;
}

export class SliceWriter {
  readonly #options: SliceWriterOptions;

  constructor(options: SliceWriterOptions) {
    this.#options = options;
  }

  /** Writes the slices of each family. A refused family does not stop the other. Rejects with the first error at the end. */
  async write(write: SliceWrite): Promise<void> {
    const { create, update, remove } = write.changes;
    const types = new Set([...create, ...update, ...remove].map(({ addressType }) => addressType));
    const errors: unknown[] = [];
    for (const type of types) {
      const of = (slices: readonly SliceObject[]) => slices.filter(({ addressType }) => addressType === type);
      const changes = { create: of(create), update: of(update), remove: of(remove) };
      await this.#writeFamily({ ...write, changes }).catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
  }

  async #writeFamily({ service, changes, triggeredAt, signal }: SliceWrite): Promise<void> {
    const named = new Set<string>();
    const bodies = changes.create.map((slice) => triggered(this.#named(slice, named), triggeredAt));
    try {
      await severalAtATime(bodies, (body) => this.#send('create', service, body, signal));
    } catch (error) {
      // The namespace is being deleted: the slices would be deleted as well.
      if (!isNamespaceTerminating(error)) throw error;
    }
    for (const slice of changes.update) await this.#send('update', service, triggered(slice, triggeredAt), signal);
    await severalAtATime(changes.remove, (slice) => this.#remove(service, slice, signal));
  }

  async #send(
    operation: 'create' | 'update',
    service: ObjectKey,
    slice: SliceObject,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, expectations, onWrite, shown } = this.#options;
    const request =
      operation === 'create'
        ? ({ method: 'POST', path: collection(slice), body: slice } as const)
        : ({ method: 'PUT', path: `${collection(slice)}/${slice.metadata.name}`, body: slice } as const);
    const written = (await client.write(request, signal)) as SliceObject;
    expectations.wrote(service, written, shown());
    onWrite(operation);
  }

  async #remove(service: ObjectKey, slice: SliceObject, signal: AbortSignal): Promise<void> {
    const { client, expectations, onWrite } = this.#options;
    expectations.deleting(service, slice);
    let wasThere = false;
    try {
      wasThere = await deleteExactly(client, { path: collection(slice), object: slice }, signal);
    } finally {
      if (!wasThere) expectations.notDeleted(service, slice);
    }
    if (wasThere) onWrite('delete');
  }

  /**
   * Names a slice after its owner. When the result of a create is unknown, the next attempt uses the same name, so that there are never two.
   * The name has the form of the API server's own names.
   */
  #named(slice: SliceObject, taken: Set<string>): SliceObject {
    const { generateName = '', namespace, ownerReferences } = slice.metadata;
    const owner = ownerReferences?.[0]?.uid ?? '';
    for (let n = 0; ; n++) {
      const name = `${generateName.slice(0, MAX_PREFIX_LENGTH)}${suffix(`${owner} ${slice.addressType} ${n}`)}`;
      const key = `${namespace}/${name}`;
      if (taken.has(key) || this.#options.isTaken(key)) continue;
      taken.add(key);
      return { ...slice, metadata: { ...slice.metadata, name } };
    }
  }
}

/** Writes of one Service that go on together. */
const WRITES_AT_A_TIME = 5;

/** Works on the items in their order, a few at a time. Nothing begins after a failure. Rejects with the first one when all work has ended. */
async function severalAtATime<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const errors: unknown[] = [];
  const rest = items.values();
  const take = async () => {
    for (const item of rest) {
      await work(item).catch((error: unknown) => errors.push(error));
      if (errors.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(WRITES_AT_A_TIME, items.length) }, take));
  if (errors.length > 0) throw errors[0];
}

/** The API server's letters for names: no vowels, and none that resemble others. */
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789';
const SUFFIX_LENGTH = 5;
/** The API server shortens prefixes to this length (k8s.io/apiserver, names/generate.go). */
const MAX_PREFIX_LENGTH = 63 - SUFFIX_LENGTH;

function suffix(of: string): string {
  const bytes = hash('sha256', of, 'buffer');
  return Array.from({ length: SUFFIX_LENGTH }, (_, i) => LETTERS[(bytes[i] as number) % LETTERS.length]).join('');
}

function triggered(slice: SliceObject, at: number | undefined): SliceObject {
  if (at === undefined) return slice;
  const { [TRIGGER_ANNOTATION]: _, ...others } = slice.metadata.annotations ?? {};
  const annotations = at > 0 ? { ...others, [TRIGGER_ANNOTATION]: triggerText(at) } : others;
  return { ...slice, metadata: { ...slice.metadata, annotations } };
}

function collection({ metadata }: SliceObject): string {
  return `/apis/discovery.k8s.io/v1/namespaces/${metadata.namespace}/endpointslices`;
}

/** Creates or replaces Endpoints. Returns them as the server stored them. Throws ApiError. */
export async function writeEndpoints(client: ApiClient, endpoints: EndpointsObject, signal: AbortSignal) {
  const { namespace, name, resourceVersion } = endpoints.metadata;
  const path = endpointsPath(namespace);
  const request =
    resourceVersion === undefined
      ? ({ method: 'POST', path, body: endpoints } as const)
      : ({ method: 'PUT', path: `${path}/${name}`, body: endpoints } as const);
  return (await client.write(request, signal)) as EndpointsObject;
}

/** Deletes Endpoints, if they still exist. Throws ApiError. */
export async function deleteEndpoints(
  client: ApiClient,
  endpoints: EndpointsObject,
  signal: AbortSignal,
): Promise<void> {
  const path = endpointsPath(endpoints.metadata.namespace);
  await deleteExactly(client, { path, object: endpoints }, signal);
}

/**
 * Deletes the object only in the version that was read (by uid and resourceVersion). Returns whether it existed. Throws ApiError, and
 * StaleCache when it has changed since.
 */
async function deleteExactly(
  client: ApiClient,
  { path, object }: { readonly path: string; readonly object: SliceObject | EndpointsObject },
  signal: AbortSignal,
): Promise<boolean> {
  const { name, uid, resourceVersion } = object.metadata;
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
  try {
    await client.write({ method: 'DELETE', path: `${path}/${name}`, body }, signal);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    // A precondition failed: the object was deleted or changed meanwhile. The watch shows it, and the key is worked on again.
    if (isConflict(error)) throw new StaleCache(`the cache does not show the present state of ${path}/${name}`);
    throw error;
  }
}

function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && error.reasons.includes('Conflict');
}

/**
 * Asks the API server whether an object is gone, before something is removed because of that: the cache may not show the object yet.
 * Throws StaleCache when it exists.
 */
export async function mustBeGone(
  client: ApiClient,
  kind: 'services' | 'endpoints',
  key: ObjectKey,
  signal: AbortSignal,
): Promise<void> {
  const [namespace = '', name = ''] = key.split('/');
  try {
    await client.get(`/api/v1/namespaces/${namespace}/${kind}/${name}`, {}, signal);
  } catch (error) {
    if (isGone(error)) return;
    throw error;
  }
  throw new StaleCache(`the cache does not show ${kind} ${key}`);
}

function endpointsPath(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/endpoints`;
}
