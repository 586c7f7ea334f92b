/** Requests to the API server, by the configuration that client-node loads: kubeconfig, in-cluster, `--master`. */

import http from 'node:http';
import https from 'node:https';
import { breath } from '../../host/clock.ts';
import { PROTOBUF, ProtobufUnreadable, readStatusMessage } from '../protobuf.ts';

/** What the API server answered instead of what was asked for. */
export class ApiError extends Error {
  readonly code = 'API';
  /** HTTP status, or the code of a Status in a watch; 0 when there was no answer. */
  readonly status: number;
  /** Milliseconds that the server asks to wait. */
  readonly retryAfter: number | undefined;
  /** Nobody answered; or somebody did, and then was silent for too long. */
  readonly lack: 'unreachable' | 'silent' | undefined;
  /** What a program can tell from the answer: its reason, and the reasons of its causes. */
  readonly reasons: readonly string[];

  constructor(
    message: string,
    status: number,
    { retryAfter, lack, reasons = [] }: Pick<Partial<ApiError>, 'retryAfter' | 'lack' | 'reasons'> = {},
  ) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
    this.lack = lack;
    this.reasons = reasons;
  }
}

/** The server has protobuf, and this answer in it cannot be read: JSON can be asked for. */
export class UnreadableAnswer extends ApiError {}

/** Reads an answer in protobuf: what its JSON would be. Throws ProtobufUnreadable. */
export type ProtobufReader = (bytes: Buffer) => unknown;

/** A connection stood, and nothing came. */
class Silence extends Error {}

export type Query = Readonly<Record<string, string | undefined>>;

export interface ApiClient {
  /** Where requests go, for the log. */
  readonly server: string;
  /** One answer: JSON, or in protobuf where the server has it and a reader is given. Throws ApiError. */
  get(path: string, query: Query, signal: AbortSignal, protobuf?: ProtobufReader): Promise<unknown>;
  /** Create, replace or delete an object; returns what the server made of it. Throws ApiError. */
  write(request: WriteRequest, signal: AbortSignal): Promise<unknown>;
  /** The lines of an answer that goes on; `onOpen` is called when it begins. Ends when the server ends it; throws ApiError. */
  lines(path: string, query: Query, signal: AbortSignal, onOpen?: () => void): AsyncIterable<string>;
}

export type WriteRequest =
  | { readonly method: 'POST' | 'PUT'; readonly path: string; readonly body: object }
  | { readonly method: 'DELETE'; readonly path: string; readonly body?: object };

/** Sets what authenticates a request: headers, certificates, the agent. client-node's KubeConfig does it for each request, so that a token that was renewed is used. */
export interface Credentials {
  readonly server: string;
  apply(options: https.RequestOptions): Promise<void>;
}

/** Milliseconds for an answer's headers, and between two pieces of an answer to a get. */
const ANSWER_TIMEOUT = 30_000;
/** Milliseconds until the kernel begins to probe a quiet connection: a peer that is gone is noticed within a minute. */
const KEEP_ALIVE = 20_000;

/** Milliseconds without a byte after which a watch is opened again: bookmarks come about once a minute. */
export const SILENCE = 90_000;

/** `silence`: milliseconds without a byte after which a watch is given up; bookmarks come about once a minute. */
export function apiClient(credentials: Credentials, silence: number): ApiClient {
  const { server } = credentials;
  const agents = keptAgents();
  /** On a connection that was used before, if there is one. */
  const reuse = async (asked: Omit<RequestInput, 'agents'>): Promise<http.IncomingMessage> => {
    try {
      return await request(credentials, { ...asked, agents });
    } catch (error) {
      // The server closed a connection that nobody used, just as it was used again: nothing came of it.
      if (error instanceof LostWhileIdle) return await request(credentials, { ...asked, agents });
      throw error;
    }
  };
  const open = async (path: string, query: Query, signal: AbortSignal): Promise<http.IncomingMessage> => {
    const answer = await request(credentials, { path, query, signal });
    if (answer.statusCode === 200) return answer;
    throw await statusError(answer, path);
  };
  return {
    server,
    async write({ method, path, body }, signal) {
      const answer = await reuse({ method, path, query: {}, signal, ...(body ? { body: JSON.stringify(body) } : {}) });
      if (![200, 201, 202].includes(answer.statusCode ?? 0)) throw await statusError(answer, path);
      return parseJson(await wholeBody(answer), path);
    },
    async get(path, query, signal, protobuf) {
      const accept = protobuf === undefined ? JSON_TYPE : `${PROTOBUF}, ${JSON_TYPE}`;
      const answer = await reuse({ path, query, signal, accept });
      if (answer.statusCode !== 200) throw await statusError(answer, path);
      const bytes = await wholeBody(answer);
      // Reading a page holds the event loop; let what waits go first.
      await breath();
      return protobuf !== undefined && isProtobuf(answer) ? readWith(protobuf, bytes, path) : parseJson(bytes, path);
    },
    async *lines(path, query, signal, onOpen) {
      const answer = await open(path, query, signal);
      onOpen?.();
      try {
        let rest = '';
        answer.setEncoding('utf8');
        for await (const piece of readPieces<string>(answer, silence)) {
          const lines = (rest + piece).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) if (line !== '') yield line;
        }
        if (rest !== '') throw new ApiError(`the watch of ${path} broke off within an event`, 0);
      } finally {
        answer.destroy();
      }
    },
  };
}

async function wholeBody(answer: http.IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of readPieces<Buffer>(answer, ANSWER_TIMEOUT)) pieces.push(piece);
  return Buffer.concat(pieces);
}

const JSON_TYPE = 'application/json';

function isProtobuf(answer: http.IncomingMessage): boolean {
  return answer.headers['content-type']?.split(';')[0]?.trim() === PROTOBUF;
}

/** Writes are many, and so are the pages of a list: their connections are used again. What authenticates a connection keeps it apart from others. */
interface Agents {
  readonly http: http.Agent;
  readonly https: https.Agent;
}

function keptAgents(): Agents {
  // A server closes what is unused for longer: Go's after 120 s at most, gateways often after 60.
  const options = { keepAlive: true, timeout: 30_000, scheduling: 'lifo' } as const;
  return { http: new http.Agent(options), https: new https.Agent(options) };
}

interface RequestInput {
  readonly method?: string;
  readonly path: string;
  readonly query: Query;
  readonly signal: AbortSignal;
  /** Kinds of content; JSON unless it says otherwise. */
  readonly accept?: string;
  /** JSON. */
  readonly body?: string;
  /** Whose connections are used again; without them, one for this request. */
  readonly agents?: Agents;
}

/** A connection that had been used before broke off before anything was answered. */
class LostWhileIdle extends ApiError {}

async function request(
  credentials: Credentials,
  { method = 'GET', path, query, signal, accept = JSON_TYPE, body, agents }: RequestInput,
): Promise<http.IncomingMessage> {
  const url = new URL(credentials.server.replace(/\/$/, '') + path);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
  const headers: Record<string, string | number> = { accept };
  if (body !== undefined) {
    headers['content-type'] = JSON_TYPE;
    headers['content-length'] = Buffer.byteLength(body);
  }
  const options: https.RequestOptions = { method, headers, signal };
  await credentials.apply(options);
  const isPlain = url.protocol === 'http:';
  const send = isPlain ? http.request : https.request;
  // An agent that is set leads through a proxy.
  if (agents !== undefined && options.agent === false) options.agent = isPlain ? agents.http : agents.https;
  return await new Promise((resolve, reject) => {
    const sent = send(url, options, (answer) => {
      clearTimeout(late);
      resolve(answer);
    });
    // A timer of our own: that of http begins only when the connection stands.
    const late = setTimeout(
      () => sent.destroy(new Error(`no answer within ${ANSWER_TIMEOUT / 1000} s`)),
      ANSWER_TIMEOUT,
    );
    sent.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE));
    sent.on('error', (error) => {
      clearTimeout(late);
      const { message, status, lack } = noAnswer(url, error);
      const wasIdle = sent.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      reject(signal.aborted ? signal.reason : new (wasIdle ? LostWhileIdle : ApiError)(message, status, { lack }));
    });
    sent.end(body);
  });
}

/** As the answer gives them out: text when an encoding was set. */
async function* readPieces<T>(answer: http.IncomingMessage, silence: number): AsyncGenerator<T> {
  answer.setTimeout(silence, () => answer.destroy(new Silence(`nothing was heard for ${silence / 1000} s`)));
  try {
    for await (const piece of answer) yield piece as T;
  } catch (error) {
    throw error instanceof Error && error.name !== 'AbortError'
      ? new ApiError(`connection lost: ${error.message}`, 0, error instanceof Silence ? { lack: 'silent' } : {})
      : error;
  }
}

function noAnswer(url: URL, error: Error): ApiError {
  const { code } = error as NodeJS.ErrnoException;
  return new ApiError(`${url.origin} cannot be reached: ${error.message || code}`, 0, { lack: 'unreachable' });
}

/** Bytes; more of what is no Status is not kept. */
const LONGEST_STATUS = 10_000;

/** A Status object says why; without one, the HTTP status must do. */
async function statusError(answer: http.IncomingMessage, path: string): Promise<ApiError> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of readPieces<Buffer>(answer, ANSWER_TIMEOUT)) {
      if (length < LONGEST_STATUS) pieces.push(piece);
      length += piece.length;
    }
  } catch {
    // The status is the message; a body that breaks off adds nothing to it.
  }
  const seconds = Number(answer.headers['retry-after']);
  const retryAfter = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
  const status = answer.statusCode ?? 0;
  const {
    message = answer.statusMessage ?? '',
    reason,
    details,
  } = readStatus(Buffer.concat(pieces), isProtobuf(answer));
  const reasons = [reason, ...(details?.causes ?? []).map((cause) => cause.reason)].filter((one) => one !== undefined);
  return new ApiError(`${path}: ${status} ${message}`, status, { retryAfter, reasons });
}

interface Status {
  readonly message?: string | undefined;
  readonly reason?: string | undefined;
  readonly details?: { readonly causes?: readonly { readonly reason?: string | undefined }[] };
}

function readStatus(body: Buffer, inProtobuf: boolean): Status {
  try {
    return inProtobuf ? readStatusMessage(body) : ((JSON.parse(body.toString()) as Status | null) ?? {});
  } catch {
    // Not a Status: some proxy between us and the API server answered.
    return {};
  }
}

function readWith(protobuf: ProtobufReader, bytes: Buffer, path: string): unknown {
  try {
    return protobuf(bytes);
  } catch (error) {
    if (!(error instanceof ProtobufUnreadable)) throw error;
    throw new UnreadableAnswer(`${path}: the answer in protobuf cannot be read: ${error.message}`, 0);
  }
}

function parseJson(bytes: Buffer, path: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw new ApiError(`${path}: the answer is not JSON: ${(error as Error).message}`, 0);
  }
}
