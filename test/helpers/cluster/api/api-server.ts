/**
 * A small kube-apiserver over HTTP, for tests of what lists and watches. It behaves as the recorded answers of a real one
 * (test/data/apiserver) show: pages, page tokens that expire, watches with bookmarks, and versions that are
 * too old. A test moves it: puts and deletes objects, forgets history, closes or silences watches, refuses requests.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  NO_STREAMING,
  type StatusBody,
  sendJson,
  sendProtobuf,
  sendStatus,
  sendText,
  statusBody,
  type Target,
  targetOf,
} from './api-answers.ts';
import { makeCertificate } from './api-certificate.ts';
import { eventBytes, type Form, formOf, told, watchType } from './api-forms.ts';
import {
  asksForStream,
  bookmarkEvent,
  changeEvent,
  errorEvent,
  initialEvents,
  listPage,
  type Streaming,
  type ToldEvent,
  type Watched,
} from './api-lists.ts';
import { listBytes } from './api-protobuf.ts';
import { ApiReviews } from './api-reviews.ts';
import { SelectorInvalid, selects } from './api-selectors.ts';
import { type ApiObject, ApiStore, type Change, itemText } from './api-store.ts';
import { leavingStatus, write } from './api-writes.ts';

export type { ApiObject } from './api-store.ts';

export interface ApiServerOptions {
  /** HTTPS with a certificate of its own, which `kubeconfig()` names. Needs openssl. HTTP/2 for those who speak it, unless it has HTTP/1.1 alone. */
  readonly tls?: boolean | 'http/1.1';
  /** The bearer token that requests must carry; without it any request is admitted. */
  readonly token?: string;
  /** What comes before `/api` in paths, as behind a gateway: `/k8s/cluster-1`. */
  readonly prefix?: string;
  /** Leaves out managedFields for those who ask for it (KEP-5958), as Kubernetes 1.38 can. */
  readonly knowsDrop?: boolean;
  /** It has JSON alone when false. */
  readonly hasProtobuf?: boolean;
  /** Streaming lists are refused, as by the recorded server, unless it is said. */
  readonly streaming?: Streaming;
  /** Paths, or their ends, that this server does not have: `servicecidrs`. */
  readonly missing?: readonly string[];
}

/** One request that was made. */
export interface ApiRequest {
  readonly kind: 'list' | 'watch' | 'get' | 'write' | 'other';
  readonly method: string;
  readonly path: string;
  /** The query's parameters by name. */
  readonly query: Readonly<Record<string, string>>;
  readonly headers: http.IncomingHttpHeaders;
  /** `1.1` or `2.0` */
  readonly httpVersion: string;
}

/** Which requests `failNext` means. */
export interface FailFilter {
  readonly kind?: ApiRequest['kind'];
  /** The end of the path: `services`. */
  readonly resource?: string;
}

interface Failure extends FailFilter {
  left: number;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

interface Watch extends Watched {
  readonly wantsBookmarks: boolean;
  readonly form: Form;
  readonly response: http.ServerResponse;
  isSilent: boolean;
}

type Listener = http.Server | https.Server | http2.Http2SecureServer;

async function listenerFor({ tls }: ApiServerOptions, folder: string): Promise<Listener> {
  if (!tls) return http.createServer();
  const certificate = await makeCertificate(folder);
  if (tls === 'http/1.1') return https.createServer(certificate);
  return http2.createSecureServer({ ...certificate, allowHTTP1: true, maxSessionMemory: 1024 });
}

export class ApiServer {
  readonly #options: ApiServerOptions;
  readonly #server: Listener;
  readonly #sockets = new Set<Socket>();
  readonly #folder: string;
  readonly #store = new ApiStore();
  readonly #watches = new Set<Watch>();
  readonly #log: ApiRequest[] = [];
  /** Events that were created. */
  readonly events: ApiObject[] = [];
  /** Tokens, and who may get which path. */
  readonly reviews = new ApiReviews();
  /** Namespaces that go away: nothing can be created in them. */
  readonly leaving = new Set<string>();
  /** Namespaces that are gone: no event can be written there. */
  readonly gone = new Set<string>();
  /** Ends of paths that it does not have. */
  readonly missing: Set<string>;
  /** What is sent as protobuf is none. */
  garbleProtobuf = false;
  #failures: Failure[] = [];
  #expiring = 0;
  /** What happens to the next writes. */
  readonly #traps: WriteTrap[] = [];
  #onSliceWrite: (() => void) | undefined;

  /** Listen on a free port of the loopback. Stop it with `stop()`. */
  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const folder = await mkdtemp(join(tmpdir(), 'api-server-'));
    const server = await listenerFor(options, folder);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
    return new ApiServer(options, server, folder);
  }

  private constructor(options: ApiServerOptions, server: Listener, folder: string) {
    this.#options = options;
    this.#server = server;
    this.#folder = folder;
    this.missing = new Set(options.missing);
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    const answer = (request: http.IncomingMessage, response: http.ServerResponse) => this.#answer(request, response);
    // What HTTP/2 gives has the same form.
    server.on('request', answer as (...args: unknown[]) => void);
  }

  /** Called for requests that want another protocol than HTTP, with the connection and what came on it already. */
  onUpgrade(take: (request: http.IncomingMessage, socket: Duplex, head: Buffer) => void): void {
    this.#server.on('upgrade', take as (...args: unknown[]) => void);
  }

  /** What a client connects to, the prefix included. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `${this.#options.tls ? 'https' : 'http'}://127.0.0.1:${port}${this.#options.prefix ?? ''}`;
  }

  /** The resourceVersion of the newest write. */
  get version(): string {
    return String(this.#store.version);
  }

  /** Watches that are open. */
  get watches(): number {
    return this.#watches.size;
  }

  /** Connections that are open, used or not. */
  connections(): Promise<number> {
    return Promise.resolve(this.#sockets.size);
  }

  /** End every connection, and remove the kubeconfig. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cutConnections();
    await closed;
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Write a kubeconfig that leads here; returns its path. It goes away with the server. */
  async kubeconfig(): Promise<string> {
    const { tls, token } = this.#options;
    const authority = tls ? await readFile(join(this.#folder, 'tls.crt'), 'base64') : undefined;
    const file = join(this.#folder, 'kubeconfig');
    // JSON is YAML.
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'test',
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      clusters: [{ name: 'test', cluster: { server: this.url, 'certificate-authority-data': authority } }],
      users: [{ name: 'test', user: token === undefined ? {} : { token } }],
    };
    await writeFile(file, JSON.stringify(config));
    return file;
  }

  /**
   * Create or replace an object. Its kind tells where it belongs. Every put is a change. Returns its resourceVersion.
   * `beforeTelling` is called when all is ready to be sent to the watches.
   */
  put(object: object, beforeTelling?: () => void): string {
    const change = this.#store.put(object as ApiObject);
    if (beforeTelling !== undefined && change.after !== undefined) itemText(change.after);
    beforeTelling?.();
    this.#tell(change);
    return String(change.version);
  }

  /** `key` is `namespace/name`, or the name of a Node. Nothing happens when there is no such object. */
  delete(kind: string, key: string): void {
    const change = this.#store.delete(kind, key);
    if (change) this.#tell(change);
  }

  /** Forget history: a list's pages and watches from any version that was given out so far answer 410. Open watches go on. */
  compact(): void {
    this.#store.compact();
  }

  /** Something that nobody here watches was written: versions move on. */
  touch(): void {
    this.#store.touch();
  }

  /**
   * A minute is over: send a bookmark to each watch that wants them. As the real server, not before something of that kind
   * changed after the version at which the watch began.
   */
  bookmark(): void {
    for (const watch of this.#watches) {
      if (this.#store.lastChange(watch.collection.kind) <= watch.after) continue;
      if (watch.wantsBookmarks) send(watch, bookmarkEvent(watch, this.#store.version));
    }
  }

  /** Send something as it is to each watch: a text as a line, such as one that is not JSON, or bytes. */
  sendRaw(what: string | Uint8Array): void {
    const bytes = typeof what === 'string' ? `${what}\n` : what;
    for (const watch of this.#watches) if (!watch.isSilent) watch.response.write(bytes);
  }

  /** End every watch in order, as the server does when their time is up. */
  closeWatches(): void {
    for (const { response } of this.#watches) response.end();
    // What is told from now on is not for them: they hear it when they watch again.
    this.#watches.clear();
  }

  /** Cut every connection, as a server that crashes does. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The store is restored from a backup that was made at this version: what was written since never was. */
  restore(version: string): void {
    this.#store.rewind(Number(version));
    this.cutConnections();
  }

  /** Open watches stay open and never say anything again, as where something on the way swallows what is sent. New ones work. */
  silence(): void {
    for (const watch of this.#watches) watch.isSilent = true;
  }

  /** Answer the next `times` requests with an error; status 0 cuts the connection. The filter leaves other requests alone. */
  failNext(times: number, status: number, headers: Record<string, string> = {}, filter: FailFilter = {}): void {
    this.#failures.push({ ...filter, left: times, status, headers });
  }

  /** The next write that is done: its answer is lost with the connection, or what a test wants happens before it. */
  trapWrite(trap: WriteTrap): void {
    this.#traps.push(trap);
  }

  /** Call once when the next write of a slice arrives. */
  onSliceWrite(call: () => void): void {
    this.#onSliceWrite = call;
  }

  /** Objects of a kind as they are. */
  objects(kind: string): ApiObject[] {
    return [...this.#store.from(this.#store.version, kind)].map(([, object]) => object);
  }

  /** Fail no more. */
  recover(): void {
    this.#failures = [];
  }

  /** The next `times` requests for a further page find their token expired. */
  expireContinue(times = 1): void {
    this.#expiring = times;
  }

  /** What was asked for so far, in order; narrowed by kind of request and resource. */
  requests(filter: FailFilter = {}): readonly ApiRequest[] {
    return this.#log.filter((request) => isMeant(filter, request));
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://server');
    const prefix = this.#options.prefix ?? '';
    const target = url.pathname.startsWith(prefix) ? targetOf(url.pathname.slice(prefix.length)) : undefined;
    const entry = logEntry(request, url, target);
    this.#log.push(entry);
    const failure = this.#failures.find((one) => one.left > 0 && isMeant(one, entry));
    if (failure) {
      failure.left -= 1;
      if (failure.status === 0) request.socket.destroy();
      else sendStatus(response, failure.status, {}, failure.headers);
      return;
    }
    const { token } = this.#options;
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) sendStatus(response, 401);
    else if (request.method === 'POST' && url.pathname.endsWith('/events')) void this.#takeEvent(request, response);
    else if (request.method === 'POST' && url.pathname.endsWith('reviews'))
      void this.#review(url.pathname, request, response);
    else if (target === undefined || this.#lacks(url.pathname)) sendStatus(response, 404);
    else if (request.method !== 'GET') void this.#write(target, request, response);
    else this.#serve(entry.kind, target, { url, response });
  }

  #lacks(path: string): boolean {
    return [...this.missing].some((end) => path.endsWith(end));
  }

  async #write(target: Target, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    if (!request.complete) return;
    const body = text === '' ? undefined : (JSON.parse(text) as ApiObject);
    if (target.collection.kind === 'EndpointSlice') {
      this.#onSliceWrite?.();
      this.#onSliceWrite = undefined;
    }
    const trap = this.#traps.shift();
    trap?.before?.();
    const result = write(this.#store, { method: request.method ?? '', target, body }, (namespace) =>
      this.leaving.has(namespace),
    );
    if (result.kind === 'refused') {
      sendStatus(response, result.status, result.body);
      return;
    }
    if (trap?.tellsLate && result.change !== undefined) {
      const { change } = result;
      setTimeout(() => this.#tell(change), trap.tellsLate);
    } else if (result.change) this.#tell(result.change);
    if (trap?.losesAnswer) request.socket.destroy();
    else sendJson(response, result.status, result.object);
  }

  async #takeEvent(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    // kube-proxy's are protobuf, which nothing here reads.
    const isJson = request.headers['content-type']?.includes('json') ?? true;
    const event = isJson
      ? (JSON.parse(text) as ApiObject)
      : { kind: 'Event', apiVersion: 'events.k8s.io/v1', metadata: { name: 'unread' } };
    const namespace = event.metadata.namespace ?? '';
    if (this.leaving.has(namespace))
      sendStatus(response, 403, leavingStatus('events.events.k8s.io', event.metadata.name, namespace));
    else if (this.gone.has(namespace)) {
      const details = { name: namespace, kind: 'namespaces' };
      sendStatus(response, 404, { message: `namespaces "${namespace}" not found`, details });
    } else {
      if (isJson) this.events.push(event);
      sendJson(response, 201, event);
    }
  }

  async #review(path: string, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const answer = await this.reviews.answer(path, JSON.parse(await bodyOf(request)));
    if (answer === undefined || this.#lacks(path)) sendStatus(response, 404);
    else sendJson(response, 201, answer);
  }

  #serve(kind: ApiRequest['kind'], target: Target, at: { url: URL; response: http.ServerResponse }): void {
    const { url, response } = at;
    try {
      if (kind === 'get') this.#get(target, response);
      else if (kind === 'watch') this.#watch(target, url.searchParams, response);
      else this.#list(target, url.searchParams, response);
    } catch (error) {
      if (!(error instanceof SelectorInvalid)) throw error;
      sendStatus(response, 400, { message: error.message });
    }
  }

  #get({ collection, namespace, name }: Target, response: http.ServerResponse): void {
    const object = this.#store.get(collection.kind, namespace === undefined ? `${name}` : `${namespace}/${name}`);
    if (object) {
      sendJson(response, 200, object);
      return;
    }
    const group = collection.apiVersion.includes('/') ? collection.apiVersion.split('/')[0] : '';
    const resource = group ? `${collection.resource}.${group}` : collection.resource;
    sendStatus(response, 404, {
      message: `${resource} "${name}" not found`,
      details: { name, ...(group ? { group } : {}), kind: collection.resource },
    });
  }

  #list(target: Target, query: URLSearchParams, response: http.ServerResponse): void {
    const page = listPage(this.#store, target, query, () => {
      if (this.#expiring === 0) return false;
      this.#expiring -= 1;
      return true;
    });
    if (page.kind === 'refused') {
      sendStatus(response, page.status, page.body);
      return;
    }
    const { head } = page;
    const form = this.#formOf(target, response);
    const items = page.items.map((item) => told(item, form));
    const isSent =
      form.isProtobuf &&
      sendProtobuf(response, 200, {}, () => (this.garbleProtobuf ? [Buffer.from('k8s')] : listBytes(head, items)));
    if (isSent) return;
    sendText(response, 200, `${JSON.stringify(head).slice(0, -1)},"items":[${items.map(itemText).join(',')}]}`);
  }

  #formOf({ collection }: Target, { req }: http.ServerResponse): Form {
    const { knowsDrop, hasProtobuf = true } = this.#options;
    return formOf(hasProtobuf ? req.headers.accept : 'application/json', collection.kind, knowsDrop);
  }

  #watch(target: Target, query: URLSearchParams, response: http.ServerResponse): void {
    const { collection, namespace } = target;
    const selected = selects(query);
    const isStream = asksForStream(query);
    const version = Number(query.get('resourceVersion') ?? '');
    const form = this.#formOf(target, response);
    const watch: Watch = {
      collection,
      namespace,
      selected,
      response,
      form,
      wantsBookmarks: query.get('allowWatchBookmarks') === 'true' || query.get('allowWatchBookmarks') === '1',
      after: isStream ? this.#store.version : version,
      isSilent: false,
    };
    response.writeHead(200, watchType(form));
    response.flushHeaders();
    const problem = this.#watchProblem(query, version);
    if (problem) {
      send(watch, errorEvent(problem));
      response.end();
      return;
    }
    const hasEnd = isStream && this.#options.streaming === 'served';
    if (version === 0) for (const event of initialEvents(this.#store, watch, hasEnd)) send(watch, event);
    else for (const change of this.#store.changesSince(version)) send(watch, changeEvent(watch, change));
    this.#keep(watch, Number(query.get('timeoutSeconds') ?? 0));
  }

  #watchProblem(query: URLSearchParams, version: number): StatusBody | undefined {
    const { streaming = 'refused' } = this.#options;
    if (asksForStream(query) && streaming === 'refused') return statusBody(500, { message: NO_STREAMING });
    if (version === 0 || version >= this.#store.oldest) return undefined;
    return statusBody(410, { message: `too old resource version: ${version} (${this.#store.version})` });
  }

  #keep(watch: Watch, seconds: number): void {
    this.#watches.add(watch);
    const end = () => {
      this.#watches.delete(watch);
      watch.response.end();
    };
    const timer = seconds > 0 ? setTimeout(end, seconds * 1000).unref() : undefined;
    watch.response.on('close', () => {
      clearTimeout(timer);
      this.#watches.delete(watch);
    });
  }

  #tell(change: Change): void {
    for (const watch of this.#watches) send(watch, changeEvent(watch, change));
  }
}

/** What happens around a write. */
export interface WriteTrap {
  /** Called before it is done. */
  readonly before?: () => void;
  /** It is done, and who asked for it never hears of it. */
  readonly losesAnswer?: boolean;
  /** Milliseconds until watches hear of it. */
  readonly tellsLate?: number;
}

async function bodyOf(request: http.IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of request) text += String(piece);
  return text;
}

function send(watch: Watch, event: ToldEvent | undefined): void {
  if (event !== undefined && !watch.isSilent) watch.response.write(eventBytes(event, watch.form));
}

function isMeant({ kind, resource }: FailFilter, request: ApiRequest): boolean {
  return (kind === undefined || kind === request.kind) && request.path.endsWith(resource ?? '');
}

function logEntry(request: http.IncomingMessage, url: URL, target: Target | undefined): ApiRequest {
  const query = Object.fromEntries(url.searchParams);
  const isWatch = query.watch === '1' || query.watch === 'true';
  const known = target?.name !== undefined ? 'get' : isWatch ? 'watch' : 'list';
  const read = target === undefined ? 'other' : known;
  const kind = target !== undefined && request.method !== 'GET' ? 'write' : read;
  const { method = '', headers, httpVersion } = request;
  return { kind, method, path: url.pathname, query, headers, httpVersion };
}
