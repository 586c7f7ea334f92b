/** Paths, page tokens and answers of the API, in the words of a real server. */
import http from 'node:http';
import { NotProtobuf, PROTOBUF_TYPE, statusBytes } from './api-protobuf.ts';
import { COLLECTIONS, type Collection } from './api-store.ts';

/** Where a path leads. */
export interface Target {
  readonly collection: Collection;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

export const JSON_TYPE = { 'content-type': 'application/json' };

// Both texts are those of the recorded answers.
export const CONTINUE_EXPIRED =
  'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.';
export const NO_STREAMING =
  'a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled';

export interface StatusBody {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly [field: string]: unknown;
}

const REASONS: Readonly<Record<number, readonly [reason: string, message: string]>> = {
  400: ['BadRequest', 'the server rejected our request'],
  401: ['Unauthorized', 'Unauthorized'],
  403: ['Forbidden', 'forbidden: the user may not do this'],
  404: ['NotFound', 'the server could not find the requested resource'],
  405: ['MethodNotAllowed', 'the server does not allow this method on the requested resource'],
  409: ['Conflict', 'the object has been modified'],
  410: ['Expired', 'The resourceVersion for the provided list is too old.'],
  429: ['TooManyRequests', 'Too many requests, please try again later.'],
  500: ['InternalError', 'Internal error occurred'],
  503: ['ServiceUnavailable', 'the server is currently unable to handle the request'],
  504: ['Timeout', 'request did not complete within the allotted timeout'],
};

/** A Status object, as every error of the API is told. */
export function statusBody(code: number, more: object = {}): StatusBody {
  const [reason = 'Unknown', message = http.STATUS_CODES[code]] = REASONS[code] ?? [];
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, ...more, code };
}

export function sendStatus(
  response: http.ServerResponse,
  status: number,
  more: object = {},
  headers: object = {},
): void {
  const body = statusBody(status, more);
  if (!takesProtobuf(response) || !sendProtobuf(response, status, headers, () => statusBytes(body)))
    sendJson(response, status, body, headers);
}

/** Whether who asked prefers protobuf, as Kubernetes' own clients do: what they name first is what they get. */
export function takesProtobuf({ req }: http.ServerResponse): boolean {
  return req.headers.accept?.startsWith(PROTOBUF_TYPE['content-type']) ?? false;
}

/** Returns whether it could: objects that a real server would refuse can be told in JSON alone. */
export function sendProtobuf(
  response: http.ServerResponse,
  status: number,
  headers: object,
  pieces: () => readonly Uint8Array[],
): boolean {
  try {
    const all = pieces();
    const length = all.reduce((sum, piece) => sum + piece.length, 0);
    response.writeHead(status, { ...PROTOBUF_TYPE, 'content-length': length, ...headers });
    // One write of many, without a copy of all.
    response.cork();
    for (const piece of all) response.write(piece);
    response.uncork();
    response.end();
    return true;
  } catch (error) {
    if (error instanceof NotProtobuf) return false;
    throw error;
  }
}

export function sendJson(response: http.ServerResponse, status: number, body: object, headers: object = {}): void {
  sendText(response, status, JSON.stringify(body), headers);
}

/** `text` is JSON. */
export function sendText(response: http.ServerResponse, status: number, text: string, headers: object = {}): void {
  response.writeHead(status, { ...JSON_TYPE, ...headers });
  response.end(text);
}

export function targetOf(path: string): Target | undefined {
  for (const collection of COLLECTIONS) {
    const { apiVersion, olderVersion = apiVersion } = collection;
    const group = apiVersion.includes('/') ? `/apis/(?:${apiVersion}|${olderVersion})` : '/api/v1';
    const within = collection.isNamespaced ? '(?:/namespaces/([^/]+))?' : '()';
    const match = new RegExp(`^${group}${within}/${collection.resource}(?:/([^/]+))?$`).exec(path);
    if (match) return { collection, namespace: match[1] || undefined, name: match[2] };
  }
  return undefined;
}

/** As the real server writes them: where the last page ended, base64url. */
export function pageToken(version: number, last: string): string {
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: version, start: `${last}\0` })).toString('base64url');
}

export function readPageToken(token: string): { rv: number; start: string } | undefined {
  try {
    const { rv, start } = JSON.parse(Buffer.from(token, 'base64url').toString());
    return typeof rv === 'number' && typeof start === 'string' ? { rv, start } : undefined;
  } catch {
    return undefined;
  }
}
