/** Writes slices and Endpoints, one after another; stops at the first that fails, which the queue tries again. */
import { createHash } from 'node:crypto';
import { type ApiClient, ApiError } from '../api/client.ts';
import { TRIGGER_ANNOTATION } from '../model/labels.ts';
import {
  type EndpointsObject,
  type ObjectKey,
  type SliceChanges,
  type SliceObject,
  triggerText,
} from '../producers/objects.ts';
import type { Expectations } from './expectations.ts';
import { StaleCache } from './workers.ts';

export type Operation = 'create' | 'update' | 'delete';

export interface SliceWrite {
  readonly service: ObjectKey;
  readonly changes: SliceChanges;
  /** For the annotation; milliseconds since 1970, 0 for none. undefined: it stays as it is. */
  readonly triggeredAt: number | undefined;
  readonly signal: AbortSignal;
}

export interface SliceWriterOptions {
  readonly client: ApiClient;
  readonly expectations: Expectations;
  /** Whether there is an object of this `namespace/name`. */
  readonly isTaken: (key: ObjectKey) => boolean;
  readonly onWrite: (operation: Operation) => void;
}

export class SliceWriter {
  readonly #options: SliceWriterOptions;

  constructor(options: SliceWriterOptions) {
    this.#options = options;
  }

  /** A family that is refused does not keep the other: throws the error of the first when both were tried. */
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
    for (const slice of changes.create) {
      const body = triggered(this.#named(slice, named), triggeredAt);
      try {
        await this.#send('create', service, body, signal);
      } catch (error) {
        // What cannot be created because its namespace goes away would go as well.
        if (isNamespaceLeaving(error)) break;
        throw error;
      }
    }
    for (const slice of changes.update) await this.#send('update', service, triggered(slice, triggeredAt), signal);
    for (const slice of changes.remove) await this.#remove(service, slice, signal);
  }

  async #send(
    operation: 'create' | 'update',
    service: ObjectKey,
    slice: SliceObject,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, expectations, onWrite } = this.#options;
    const request =
      operation === 'create'
        ? ({ method: 'POST', path: collection(slice), body: slice } as const)
        : ({ method: 'PUT', path: `${collection(slice)}/${slice.metadata.name}`, body: slice } as const);
    const written = (await client.write(request, signal)) as SliceObject;
    expectations.wrote(service, written);
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
   * With a name that follows from its owner: when nobody knows whether a create came through, the next try asks for the
   * same name, and there are never two. In form it is one of the API server's own.
   */
  #named(slice: SliceObject, taken: Set<string>): SliceObject {
    const { generateName = '', namespace, ownerReferences } = slice.metadata;
    const owner = ownerReferences?.[0]?.uid ?? '';
    for (let n = 0; ; n++) {
      const name = `${generateName.slice(0, LONGEST_PREFIX)}${suffix(`${owner} ${slice.addressType} ${n}`)}`;
      const key = `${namespace}/${name}`;
      if (taken.has(key) || this.#options.isTaken(key)) continue;
      taken.add(key);
      return { ...slice, metadata: { ...slice.metadata, name } };
    }
  }
}

/** Letters of names that the API server makes: no vowels, nothing that looks like something else. */
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789';
const SUFFIX_LENGTH = 5;
/** As the API server shortens it (names/generate.go). */
const LONGEST_PREFIX = 63 - SUFFIX_LENGTH;

function suffix(of: string): string {
  const bytes = createHash('sha256').update(of).digest();
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

/** Writes Endpoints; returns what the server made of them. Throws ApiError. */
export async function writeEndpoints(client: ApiClient, endpoints: EndpointsObject, signal: AbortSignal) {
  const { namespace, name, resourceVersion } = endpoints.metadata;
  const path = endpointsPath(namespace);
  const request =
    resourceVersion === undefined
      ? ({ method: 'POST', path, body: endpoints } as const)
      : ({ method: 'PUT', path: `${path}/${name}`, body: endpoints } as const);
  return (await client.write(request, signal)) as EndpointsObject;
}

/** Nothing happens when they are gone. Throws ApiError. */
export async function deleteEndpoints(
  client: ApiClient,
  endpoints: EndpointsObject,
  signal: AbortSignal,
): Promise<void> {
  const path = endpointsPath(endpoints.metadata.namespace);
  await deleteExactly(client, { path, object: endpoints }, signal);
}

/** Delete this object as it was seen, and no other that got its name or its content meanwhile; returns whether it was there. Throws ApiError. */
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
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  }
}

/**
 * Before something is removed because an object is not there (any more): ask the API server itself, for the cache may not
 * have heard of it yet. Throws StaleCache when it is there.
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
    if (error instanceof ApiError && error.status === 404) return;
    throw error;
  }
  throw new StaleCache(`the cache does not show ${kind} ${key}`);
}

function endpointsPath(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/endpoints`;
}

/** The namespace goes away: nothing new can be in it. */
export function isNamespaceLeaving(error: unknown): boolean {
  return error instanceof ApiError && error.reasons.includes('NamespaceTerminating');
}
