/** What clients may write: creates, updates and deletes with the checks of the real server that matter to who writes. */
import type { Target } from './api-answers.ts';
import type { ApiObject, ApiStore, Change } from './api-store.ts';

/** What becomes of a write: an answer with the object, or a refusal in the words of a Status. */
export type WriteResult =
  | { readonly kind: 'done'; readonly status: number; readonly object: object; readonly change: Change | undefined }
  | { readonly kind: 'refused'; readonly status: number; readonly body: object };

export interface WriteInput {
  readonly method: string;
  readonly target: Target;
  readonly body: ApiObject | undefined;
}

/** Namespaces that go away take nothing new. */
export type IsLeaving = (namespace: string) => boolean;

export function write(store: ApiStore, { method, target, body }: WriteInput, isLeaving: IsLeaving): WriteResult {
  if (method === 'POST' && body !== undefined) return create(store, target, body, isLeaving);
  if (method === 'PUT' && body !== undefined && target.name !== undefined) return update(store, target, body);
  if (method === 'DELETE' && target.name !== undefined) return remove(store, target, body);
  return { kind: 'refused', status: 405, body: {} };
}

/** The answer to a create in a namespace that is being deleted, in the words of a real server. */
export function leavingStatus(resource: string, name: string | undefined, namespace: string) {
  const cause = {
    reason: 'NamespaceTerminating',
    message: `namespace ${namespace} is being terminated`,
    field: 'metadata.namespace',
  };
  const message = `${resource} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`;
  return { message, reason: 'Forbidden', details: { causes: [cause] } };
}

function create(
  store: ApiStore,
  { collection, namespace = '' }: Target,
  body: ApiObject,
  isLeaving: IsLeaving,
): WriteResult {
  const name = body.metadata.name ?? `${body.metadata.generateName}${Math.random().toString(36).slice(2, 7)}`;
  const key = `${namespace}/${name}`;
  if (isLeaving(namespace)) {
    return { kind: 'refused', status: 403, body: leavingStatus(collection.resource, name, namespace) };
  }
  if (store.get(collection.kind, key) !== undefined) {
    return {
      kind: 'refused',
      status: 409,
      body: { reason: 'AlreadyExists', message: `${collection.resource} "${name}" already exists` },
    };
  }
  const change = store.put({ ...body, kind: collection.kind, metadata: { ...body.metadata, name, namespace } });
  return { kind: 'done', status: 201, object: change.after as object, change };
}

function update(store: ApiStore, { collection, namespace, name }: Target, body: ApiObject): WriteResult {
  const key = `${namespace}/${name}`;
  const before = store.get(collection.kind, key);
  if (before === undefined) return notFound(collection.resource, name);
  const { resourceVersion } = body.metadata;
  if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
    const message = `Operation cannot be fulfilled on ${collection.resource} "${name}": the object has been modified; please apply your changes to the latest version and try again`;
    return { kind: 'refused', status: 409, body: { reason: 'Conflict', message } };
  }
  const change = store.put({ ...body, kind: collection.kind });
  return { kind: 'done', status: 200, object: change.after as object, change };
}

function remove(store: ApiStore, { collection, namespace, name }: Target, options: ApiObject | undefined): WriteResult {
  const key = `${namespace}/${name}`;
  const before = store.get(collection.kind, key);
  if (before === undefined) return notFound(collection.resource, name);
  const { preconditions } = (options ?? {}) as { preconditions?: { uid?: string; resourceVersion?: string } };
  const isOther = (field: 'uid' | 'resourceVersion') =>
    preconditions?.[field] !== undefined && preconditions[field] !== before.metadata[field];
  if (isOther('uid') || isOther('resourceVersion')) {
    return {
      kind: 'refused',
      status: 409,
      body: { reason: 'Conflict', message: 'Precondition failed: the object is another, or was changed' },
    };
  }
  const change = store.delete(collection.kind, key);
  return { kind: 'done', status: 200, object: { kind: 'Status', apiVersion: 'v1', status: 'Success' }, change };
}

function notFound(resource: string, name: string | undefined): WriteResult {
  return { kind: 'refused', status: 404, body: { message: `${resource} "${name}" not found` } };
}
