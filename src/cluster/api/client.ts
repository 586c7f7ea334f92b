/** Client of the API server: gets, writes and watches, in protobuf or JSON, with one form of error. */
import { STATUS_CODES } from 'node:http';
import type { RequestOptions } from 'node:https';
import type { Readable } from 'node:stream';
import { breath } from '../../base/clock.ts';
import { ANSWER_TIMEOUT, type Incoming, type Outgoing } from './answer.ts';
import { BrokenStream, framesOf, linesOf } from './framing.ts';
import { ConnectionDead, PINGS, type PingTimes } from './http2.ts';
import { type KindReader, PROTOBUF, readStatusMessage } from './protobuf/kind.ts';
import { ProtobufUnreadable } from './protobuf/wire.ts';
import { tlsProblem } from './tls-problem.ts';
import { type Connect, connect as connectToServer, type Requests } from './transport.ts';

/** The API server refused a request, or gave no usable answer. */
export class ApiError extends Error {
  readonly code = 'API';
  /** HTTP status, or the code of a Status in a watch; 0 without an answer. */
  readonly status: number;
  /** Milliseconds of the server's Retry-After, at most an hour. */
  readonly retryAfter: number | undefined;
  /** The server did not answer, or an open connection died. */
  readonly lack: 'unreachable' | undefined;
  /** Machine-readable reasons of the Status, and of its causes. */
  readonly reasons: readonly string[];
  /** The resource that the Status names, such as `namespaces`. */
  readonly about: string | undefined;

  constructor(
    message: string,
    status: number,
    {
      retryAfter,
      lack,
      reasons = [],
      about,
    }: Pick<Partial<ApiError>, 'retryAfter' | 'lack' | 'reasons' | 'about'> = {},
  ) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
    this.lack = lack;
    this.reasons = reasons;
    this.about = about;
  }
}

/** The namespace is being deleted: nothing can be created in it (k8s.io/apiserver, plugin/namespace/lifecycle). */
export function isNamespaceTerminating(error: unknown): boolean {
  return error instanceof ApiError && error.reasons.includes('NamespaceTerminating');
}

/** The namespace is being deleted, or is gone. */
export function isNamespaceLeaving(error: unknown): boolean {
  if (isNamespaceTerminating(error)) return true;
  return error instanceof ApiError && error.reasons.includes('NotFound') && error.about === 'namespaces';
}

/** The protobuf answer cannot be decoded. A request for JSON may succeed. */
export class UnreadableAnswer extends ApiError {}

export type Query = Readonly<Record<string, string | undefined>>;

export interface ApiClient {
  /** URL of the server, for the log. */
  readonly server: string;
  /** Gets an object; with a reader for its kind a list, in protobuf where the server supports it, otherwise in JSON. Throws ApiError. */
  get(path: string, query: Query, signal: AbortSignal, protobuf?: KindReader): Promise<unknown>;
  /** Creates, replaces or deletes an object; returns the object as the server stored it. Throws ApiError. */
  write(request: WriteRequest, signal: AbortSignal): Promise<unknown>;
  /** The events of a watch. Ends when the server ends the watch; throws ApiError. */
  watch(path: string, query: Query, signal: AbortSignal, options?: WatchOptions): AsyncIterable<WatchEvent>;
}

interface WatchOptions {
  /** Requests protobuf; a server without it answers in JSON. */
  readonly protobuf?: KindReader | undefined;
  /** Called when the answer begins. */
  readonly onOpen?: () => void;
}

/** An event as it was received, not checked. */
export interface WatchEvent {
  readonly type?: unknown;
  readonly object?: unknown;
}

/** A client that owns its connections. */
export interface OpenClient extends ApiClient {
  /** Closes the connections; requests under way end. */
  close(): void;
}

export type WriteRequest =
  | { readonly method: 'POST' | 'PUT'; readonly path: string; readonly body: object }
  | { readonly method: 'DELETE'; readonly path: string; readonly body?: object };

export interface Credentials {
  readonly server: string;
  /** Sets headers, certificates and the proxy's agent of a request. Called for each request, so that a renewed token is used. */
  apply(options: RequestOptions): Promise<void>;
}

/** Limit of a Retry-After: a server that sends a day must not stop agent or controller for a day. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Milliseconds beyond its timeoutSeconds after which a watch is closed: a proxy in between keeps it open, and has lost the server. */
const OVERDUE_MS = 60_000;

interface ClientOptions {
  readonly userAgent: string;
  readonly connect?: Connect | undefined;
  readonly pings?: PingTimes;
  /** Milliseconds that a watch may last beyond its timeoutSeconds; set by tests alone. */
  readonly overdue?: number;
}

/** Connects with the first request; `close` ends the connections. */
export function apiClient(
  credentials: Credentials,
  { userAgent, connect = connectToServer, pings = PINGS, overdue = OVERDUE_MS }: ClientOptions,
): OpenClient {
  const { server } = credentials;
  const transport = connect(pings);
  const send = (input: RequestInput) => request({ credentials, transport, userAgent }, input);
  return {
    server,
    close: () => transport.close(),
    async write({ method, path, body }, signal) {
      const answer = await send({ method, path, query: {}, signal, ...(body ? { body: JSON.stringify(body) } : {}) });
      if (![200, 201, 202].includes(answer.status)) throw await statusError(answer, path);
      return parseJson(await wholeBody(answer, path), path);
    },
    async get(path, query, signal, protobuf) {
      const answer = await send({ path, query, signal, hasProtobuf: protobuf !== undefined });
      if (answer.status !== 200) throw await statusError(answer, path);
      const bytes = await wholeBody(answer, path);
      // Parsing a page blocks the event loop, so waiting work runs first.
      await breath();
      return protobuf !== undefined && isProtobuf(answer)
        ? readWith(() => protobuf.list(bytes), path)
        : parseJson(bytes, path);
    },
    async *watch(path, query, signal, { protobuf, onOpen } = {}) {
      const answer = await send({ path, query, signal, isWatch: true, hasProtobuf: protobuf !== undefined });
      if (answer.status !== 200) throw await statusError(answer, path);
      onOpen?.();
      const { body } = answer;
      const seconds = Number(query.timeoutSeconds ?? Number.NaN);
      const late = Number.isNaN(seconds) ? undefined : closeAfter(body, seconds * 1000 + overdue);
      try {
        if (protobuf !== undefined && isProtobuf(answer)) {
          const frames = framesOf(readPieces<Buffer>(answer));
          for await (const frame of frames) yield readWith(() => protobuf.event(frame), path);
        } else {
          body.setEncoding('utf8');
          for await (const line of linesOf(readPieces<string>(answer))) yield parseEvent(line, path);
        }
      } catch (error) {
        throw error instanceof BrokenStream ? new ApiError(`the watch of ${path} ${error.message}`, 0) : error;
      } finally {
        clearTimeout(late);
        body.destroy();
      }
    },
  };
}

function closeAfter(body: Readable, milliseconds: number): NodeJS.Timeout {
  const text = `the server did not end the watch within ${Math.round(milliseconds / 1000)} s`;
  return setTimeout(() => body.destroy(new Error(text)), milliseconds).unref();
}

/** Limit of bytes of an answer: the list of a large cluster without pages has some hundred million, and a string holds 536 million. */
export const MAX_ANSWER_BYTES = 500_000_000;

async function wholeBody(answer: Incoming, path: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of readPieces<Buffer>(answer, ANSWER_TIMEOUT)) {
    length += piece.length;
    if (length > MAX_ANSWER_BYTES) throw new ApiError(`${path}: the answer has more than ${MAX_ANSWER_BYTES} bytes`, 0);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function isProtobuf({ headers }: Incoming): boolean {
  return headers['content-type']?.split(';')[0]?.trim() === PROTOBUF;
}

interface RequestInput {
  readonly method?: string;
  readonly path: string;
  readonly query: Query;
  readonly signal: AbortSignal;
  readonly hasProtobuf?: boolean;
  /** JSON. */
  readonly body?: string;
  readonly isWatch?: boolean;
}

interface RequestSender {
  readonly credentials: Credentials;
  readonly transport: Requests;
  readonly userAgent: string;
}

/** Throws ApiError when the server does not answer, and the signal's reason after an abort. */
async function request(
  { credentials, transport, userAgent }: RequestSender,
  { method = 'GET', path, query, signal, hasProtobuf = false, body, isWatch = false }: RequestInput,
): Promise<Incoming> {
  const url = new URL(credentials.server.replace(/\/$/, '') + path);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
  const auth: RequestOptions = { headers: {} };
  await credentials.apply(auth);
  const headers: Record<string, string | number> = {
    accept: acceptOf({ hasProtobuf, isWatch }),
    'user-agent': userAgent,
  };
  // One name in two spellings would be two fields in HTTP/2.
  for (const [name, value] of Object.entries(auth.headers ?? {})) headers[name.toLowerCase()] = String(value);
  if (body !== undefined) {
    headers['content-type'] = JSON_TYPE;
    headers['content-length'] = Buffer.byteLength(body);
  }
  const outgoing: Outgoing = { method, url, headers, body, auth, isWatch, signal };
  try {
    return await transport.request(outgoing);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw noAnswer(url, error as Error);
  }
}

/** The pieces of a body, as text where an encoding is set. `silence`: limit of milliseconds between two pieces. Throws ApiError. */
async function* readPieces<T>({ body, isWhole }: Incoming, silence?: number): AsyncGenerator<T> {
  const text = `no data for ${(silence ?? 0) / 1000} s`;
  const late = silence === undefined ? undefined : setTimeout(() => body.destroy(new Error(text)), silence);
  try {
    for await (const piece of body) {
      late?.refresh();
      yield piece as T;
    }
    if (!isWhole()) throw new Error('the answer was cut off');
  } catch (error) {
    if (!(error instanceof Error) || error.name === 'AbortError') throw error;
    const lack = error instanceof ConnectionDead ? { lack: 'unreachable' as const } : {};
    throw new ApiError(`connection lost: ${error.message}`, 0, lack);
  } finally {
    clearTimeout(late);
  }
}

function noAnswer(url: URL, error: Error): ApiError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = tlsProblem(error) ?? (message || code);
  return new ApiError(`${url.origin} cannot be reached: ${why}`, 0, { lack: 'unreachable' });
}

/** Limit of bytes that are read of a failed answer; a Status is shorter. */
export const MAX_STATUS_BYTES = 10_000;

/** The message is that of the answer's Status; without one it is the HTTP status. */
async function statusError(answer: Incoming, path: string): Promise<ApiError> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of readPieces<Buffer>(answer, ANSWER_TIMEOUT)) {
      pieces.push(piece);
      length += piece.length;
      if (length > MAX_STATUS_BYTES) break;
    }
  } catch {
    // The body was cut off, so the HTTP status is the message.
  }
  const seconds = Number(answer.headers['retry-after']);
  const retryAfter = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : undefined;
  const { status } = answer;
  const {
    message = answer.statusText || (STATUS_CODES[status] ?? ''),
    reasons,
    about,
  } = readStatus(Buffer.concat(pieces), isProtobuf(answer));
  return new ApiError(`${path}: ${status} ${message}`, status, { retryAfter, reasons, about });
}

function readWith<T>(read: () => T, path: string): T {
  try {
    return read();
  } catch (error) {
    throw unreadable(error, path);
  }
}

/** Turns ProtobufUnreadable into UnreadableAnswer; returns any other error as it is. */
export function unreadable(error: unknown, path: string): unknown {
  if (!(error instanceof ProtobufUnreadable)) return error;
  return new UnreadableAnswer(`${path}: the protobuf answer cannot be read: ${error.message}`, 0);
}

/** Parses a line of a watch in JSON. Throws ApiError. */
export function parseEvent(line: string, path: string): WatchEvent {
  try {
    return fieldsOf(JSON.parse(line));
  } catch {
    throw new ApiError(`the watch of ${path} sent a line that is not JSON: ${line.slice(0, 100)}`, 0);
  }
}

function parseJson(bytes: Buffer, path: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw new ApiError(`${path}: the answer is not JSON: ${(error as Error).message}`, 0);
  }
}

const JSON_TYPE = 'application/json';

/**
 * `metadata.managedFields` is not used here, and can be half of an object. An API server with KEP-5958 (feature gate
 * ManagedFieldsOptOut, alpha in Kubernetes 1.38) leaves it out. Others ignore a parameter that they do not know.
 */
const DROP = 'drop=metadata.managedFields';

/** The last choice, for a server that accepts no type with an unknown parameter. */
const PLAIN_JSON = `${JSON_TYPE};q=0.5`;

/** The header `Accept`. kube-apiserver uses the first type that it supports. */
function acceptOf({ hasProtobuf, isWatch }: { hasProtobuf: boolean; isWatch: boolean }): string {
  const protobuf = `${PROTOBUF}${isWatch ? ';stream=watch' : ''};${DROP}`;
  return [...(hasProtobuf ? [protobuf] : []), `${JSON_TYPE};${DROP}`, PLAIN_JSON].join(', ');
}

/** A Status: the reason why the API server refused a request (k8s.io/apimachinery meta/v1). */
interface ApiStatus {
  readonly message: string | undefined;
  /** Machine-readable reasons of the Status, and of its causes. */
  readonly reasons: readonly string[];
  /** The resource that it names, such as `namespaces`. */
  readonly about: string | undefined;
}

const EMPTY_STATUS: ApiStatus = { message: undefined, reasons: [], about: undefined };

/** The Status of a body; an empty one for any other body, which a proxy in front of the API server sends. */
export function readStatus(body: Buffer, inProtobuf: boolean): ApiStatus {
  try {
    return statusOf(inProtobuf ? readStatusMessage(body) : JSON.parse(body.toString()));
  } catch {
    return EMPTY_STATUS;
  }
}

/** The Status in an unchecked value. */
export function statusOf(value: unknown): ApiStatus {
  const status = fieldsOf(value);
  const { causes, kind } = fieldsOf(status.details);
  const all = [status, ...(Array.isArray(causes) ? causes.map(fieldsOf) : [])];
  const { message } = status;
  return {
    message: typeof message === 'string' ? message : undefined,
    reasons: all.map(({ reason }) => reason).filter((reason) => typeof reason === 'string'),
    about: typeof kind === 'string' ? kind : undefined,
  };
}

/** The fields of an object; none of any other value. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
