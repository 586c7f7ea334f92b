/** The ports of a simulated node: who listens, and how others ask. */
import type { AnswerSink } from '../../../src/fleet/agent-stream.ts';
import type { Answer, Handler, ListenOptions, OpenedServer, OpenServer } from '../../../src/serve/http.ts';
import type { SimProcess } from '../engine/process.ts';
import { choose } from '../kernel/failures.ts';
import { HEALTH_PORT } from './config-text.ts';

export interface Asking {
  readonly port: number;
  /** With the query. */
  readonly path: string;
  readonly method?: string;
  readonly host?: string;
  readonly body?: string;
  readonly remote?: string;
}

/** An answer as the client has it. */
export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Milliseconds of a piece from one node to another. */
const DELAY_MS = 1;
const REFUSALS = ['connect ECONNREFUSED', 'connect EHOSTUNREACH', 'read ECONNRESET'] as const;

interface Served {
  readonly gone: AbortController;
  readonly tell: (call: () => void) => void;
  readonly sink: AnswerSink;
}

interface Bound {
  readonly options: ListenOptions;
  readonly handler: Handler;
  readonly process: SimProcess;
  /** Requests that were not answered yet. */
  readonly clients: Set<AbortController>;
}

export class SimPorts {
  readonly #bound = new Set<Bound>();
  /** Ports of other programs. */
  readonly taken = new Set<number>();

  /** `ADDRESS:PORT` of each. */
  get open(): readonly string[] {
    return [...this.#bound].map(({ options }) => `${options.address}:${options.port}`);
  }

  /** As a process opens ports. */
  listen(process: SimProcess): OpenServer {
    return (options, handler) =>
      process.call<OpenedServer>({
        what: `listen on ${options.address}:${options.port}`,
        effect: () => this.#bind({ options, handler, process, clients: new Set() }),
        undo: (opened) => void opened.close(),
        fail: () => {
          throw inUse(options);
        },
      });
  }

  /** A client's request; undefined: nobody listens there. */
  async ask(asking: Asking): Promise<Answered | undefined> {
    const bound = [...this.#bound].find(({ options }) => options.port === asking.port);
    if (bound === undefined) return undefined;
    const { handler, process, options, clients } = bound;
    const [path = '/', query = ''] = asking.path.split('?', 2);
    const client = new AbortController();
    clients.add(client);
    const answer = await process.answer(
      async () =>
        await handler({
          method: asking.method ?? 'GET',
          path,
          query: new URLSearchParams(query),
          host: asking.host ?? `localhost:${asking.port}`,
          local: options.address,
          remote: asking.remote ?? '127.0.0.1',
          body: async () => asking.body ?? '',
          signal: client.signal,
        }),
    );
    const answered = { status: answer.status, headers: answer.headers ?? {}, body: await textOf(answer) };
    clients.delete(client);
    return answered;
  }

  /** A client's request for a stream, as another process of the cluster sends it. See `AskForStream`. */
  stream(client: SimProcess, path: string, sink: AnswerSink): { close(): void } {
    const gone = new AbortController();
    let isClosed = false;
    const tell = (call: () => void) =>
      client.time.after(DELAY_MS, () => (isClosed ? undefined : client.run(call)), client);
    const close = () => {
      isClosed = true;
      gone.abort();
    };
    const forget = client.opened('a stream of an agent', close);
    const serve = (): void => this.#serve(path, { gone, tell, sink });
    const refused = (cause: string) => void tell(() => sink.ended(cause));
    client
      .call({ what: `GET ${path}`, effect: serve, fail: (variant) => refused(choose(REFUSALS, variant)) })
      .catch((error: unknown) => refused(String(error)));
    return {
      close() {
        forget();
        close();
      },
    };
  }

  #serve(path: string, { gone, tell, sink }: Served): void {
    const bound = [...this.#bound].find(({ options }) => options.port === HEALTH_PORT);
    if (bound === undefined) {
      tell(() => sink.ended(REFUSALS[0]));
      return;
    }
    const { handler, process, options, clients } = bound;
    const [name = '/', query = ''] = path.split('?', 2);
    clients.add(gone);
    const forget = process.opened('a stream', () => tell(() => sink.ended('the connection broke')));
    const asked = {
      ...{ method: 'GET', path: name, query: new URLSearchParams(query), host: `localhost:${options.port}` },
      ...{ local: options.address, remote: '127.0.0.1', body: async () => '', signal: gone.signal },
    };
    void process.run(async () => {
      const answer = await handler(asked);
      tell(() => sink.head(answer.status, undefined));
      const pieces = typeof answer.body === 'string' || Buffer.isBuffer(answer.body) ? [answer.body] : answer.body;
      for await (const piece of pieces) tell(() => sink.data(Buffer.from(piece).toString('utf8')));
      clients.delete(gone);
      forget();
      tell(() => sink.ended('it ended the connection'));
    });
  }

  #bind(bound: Bound): OpenedServer {
    const { options, process, clients } = bound;
    const isTaken = [...this.#bound].some((other) => overlap(other.options, options)) || this.taken.has(options.port);
    if (isTaken) throw inUse(options);
    this.#bound.add(bound);
    const forget = process.opened(`port ${options.port}`, () => this.#bound.delete(bound));
    return {
      close: async () => {
        this.#bound.delete(bound);
        forget();
        for (const client of clients) process.run(() => client.abort());
      },
    };
  }
}

function overlap(a: ListenOptions, b: ListenOptions): boolean {
  return a.port === b.port && (a.address === b.address || isAny(a) || isAny(b));
}

function isAny({ address, isOneFamily }: ListenOptions): boolean {
  return isOneFamily !== true && (address === '0.0.0.0' || address === '::');
}

function inUse({ address, port }: ListenOptions): NodeJS.ErrnoException {
  const text = `EADDRINUSE: address already in use ${address}:${port}`;
  return Object.assign(new Error(`listen ${text}`), {
    code: 'EADDRINUSE',
    errno: -98,
    syscall: 'listen',
    address,
    port,
  });
}

async function textOf({ body }: Answer): Promise<string> {
  if (typeof body === 'string') return body;
  if (Buffer.isBuffer(body)) return body.toString('utf8');
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}
