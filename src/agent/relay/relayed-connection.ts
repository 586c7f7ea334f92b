/** One relayed connection: finds an endpoint that answers, and passes bytes and the ends of both directions on. */
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { type Backend, totalWeight } from '../../proxy/model/service-port.ts';

/** Limits for the first and the second endpoint to accept the connection, while another one can still be tried. */
const CONNECT_TIMEOUTS_MS: readonly number[] = [1000, 2000];
/** The limit for the last endpoint, as in kube-proxy. It is longer than the kernel's first two repetitions of a SYN (RFC 6298). */
const LAST_CONNECT_TIMEOUT_MS = 5000;
/** A side that does not take its last data is reset after this time, once the other side is gone. */
export const LINGER_MS = 60_000;
/** Limit of endpoints that a connection tries. */
export const MAX_TRIES = 3;

/**
 * The end of a connection, in this order: both directions ended properly; one side reset it; the endpoint or the port went away; no endpoint
 * accepted it; this process had no descriptor left.
 */
export type Result = 'completed' | 'reset' | 'endpoint lost' | 'unreachable' | 'no descriptor';

interface ConnectionParts {
  /** The socket of the client, paused. */
  readonly client: Socket;
  readonly clock: Pick<Clock, 'after'>;
  /** An endpoint that was not tried yet; undefined when there is none. */
  readonly next: (tried: ReadonlySet<string>) => ChosenEndpoint | undefined;
  readonly connect: (to: Backend) => Socket;
  /** Called once, when nothing of the connection is left. */
  readonly onEnd: (result: Result, cause: string) => void;
}

export class RelayedConnection {
  readonly #parts: ConnectionParts;
  readonly #tried = new Set<string>();
  #endpoint: Socket | undefined;
  #cancelWait: () => void = () => undefined;
  #result: Result | undefined;
  #cause = '';
  #isOver = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    parts.client.on('error', (error) => this.#abort('reset', error.message));
    parts.client.once('close', () => this.#closed());
  }

  /** The endpoint that it goes to, as `ip:port`; undefined while none is chosen. */
  get endpoint(): string | undefined {
    return [...this.#tried].at(-1);
  }

  /** Connect to an endpoint. */
  start(): void {
    const { next, connect, clock } = this.#parts;
    const chosen = this.#tried.size < MAX_TRIES ? next(this.#tried) : undefined;
    if (chosen === undefined) {
      this.#abort('unreachable', this.#cause === '' ? 'there is no endpoint' : this.#cause);
      return;
    }
    const { endpoint: to, hasOthers } = chosen;
    const timeout = (hasOthers ? CONNECT_TIMEOUTS_MS[this.#tried.size] : undefined) ?? LAST_CONNECT_TIMEOUT_MS;
    this.#tried.add(to.text);
    const socket = connect(to);
    this.#endpoint = socket;
    const fails = (error: Error) => {
      this.#cancelWait();
      socket.destroy();
      this.#failed(to, error);
    };
    this.#cancelWait = clock.after(timeout, () => fails(new Error(`no answer within ${timeout / 1000} s`)));
    socket.once('error', fails);
    socket.once('connect', () => {
      this.#cancelWait();
      socket.off('error', fails);
      this.#join(socket);
    });
  }

  /** End it for both sides: the endpoint or the port is gone. */
  abandon(): void {
    this.#abort('endpoint lost', 'the endpoint is gone');
  }

  #failed(to: Backend, error: Error): void {
    if (this.#result !== undefined) return;
    this.#endpoint = undefined;
    this.#cause = `${to.text}: ${error.message}`;
    const { code } = error as NodeJS.ErrnoException;
    // Another endpoint would need a descriptor as well.
    if (code === 'EMFILE' || code === 'ENFILE') this.#abort('no descriptor', `connect ${code}`);
    else this.start();
  }

  #join(endpoint: Socket): void {
    const { client } = this.#parts;
    endpoint.on('error', (error) => this.#abort('reset', error.message));
    endpoint.once('close', () => this.#closed());
    client.pipe(endpoint);
    endpoint.pipe(client);
  }

  #abort(result: Result, cause: string): void {
    // Both sides are on their way out.
    if (this.#result !== undefined) return;
    this.#cancelWait();
    this.#result = result;
    this.#cause = cause;
    for (const socket of [this.#parts.client, this.#endpoint]) if (socket !== undefined) reset(socket);
    this.#closed();
  }

  #closed(): void {
    const { client, onEnd } = this.#parts;
    if (this.#isOver || !client.destroyed || this.#endpoint?.destroyed === false) return;
    this.#isOver = true;
    onEnd(this.#result ?? 'completed', this.#cause);
  }
}

/** Tell the other end at once by RST. Where all data of this direction are already on their way, they and their end arrive first. */
function reset(socket: Socket): void {
  if (socket.destroyed) return;
  // The kernel would refuse the reset (uv_tcp_close_reset), and the end of the data is no secret.
  if (socket.connecting) socket.destroy();
  else if (socket.writableEnded && !socket.writableFinished)
    socket
      .unref()
      .setTimeout(LINGER_MS, () => socket.resetAndDestroy())
      .destroySoon();
  else socket.resetAndDestroy();
}

interface ChoiceParts {
  readonly clock: Pick<Clock, 'now'>;
  /** At least 0, less than 1. */
  readonly random: () => number;
}

/** The endpoints of a port, and its session affinity. */
interface Choices {
  readonly endpoints: readonly Backend[];
  /** 0 without session affinity. */
  readonly affinitySeconds: number;
}

interface ChosenEndpoint {
  readonly endpoint: Backend;
  /** True when another one could still be tried. */
  readonly hasOthers: boolean;
}

/**
 * Chooses the endpoint of a new connection: at random, by the weights, or with session affinity the one of the last connection. All clients have an address
 * of this node, so affinity to a client holds all of them to one endpoint (KEP-6032), until no connection has begun for the affinity time.
 */
export class Choice {
  readonly #parts: ChoiceParts;
  /** The last endpoint, as `ip:port`. */
  #last: string | undefined;
  #since = 0;

  constructor(parts: ChoiceParts) {
    this.#parts = parts;
  }

  /** An endpoint for a new connection that was not tried yet; undefined when there is none. */
  next({ endpoints, affinitySeconds }: Choices, tried: ReadonlySet<string>): ChosenEndpoint | undefined {
    const { clock, random } = this.#parts;
    const left = endpoints.filter(({ text }) => !tried.has(text));
    const now = clock.now();
    const isFresh = affinitySeconds > 0 && now - this.#since <= affinitySeconds * 1000;
    const last = isFresh ? left.find(({ text }) => text === this.#last) : undefined;
    const endpoint = last ?? drawn(left, random());
    if (endpoint === undefined) return undefined;
    this.#last = endpoint.text;
    this.#since = now;
    return { endpoint, hasOthers: left.length > 1 };
  }
}

/** `part`: at least 0, less than 1. undefined where there is none. */
function drawn(endpoints: readonly Backend[], part: number): Backend | undefined {
  let left = part * totalWeight(endpoints);
  for (const endpoint of endpoints) {
    left -= endpoint.weight ?? 1;
    if (left < 0) return endpoint;
  }
  return endpoints.at(-1);
}
