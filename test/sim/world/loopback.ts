/**
 * TCP of a simulated node as the relay of node ports on loopback uses it: listening sockets on 127.0.0.1 and ::1, connections of programs of
 * the node to them, and connections to endpoints, which answer with their own address.
 */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { RelayListener, RelaySockets } from '../../../src/agent/relay/sockets.ts';
import { type Address, endpointText, type SocketAddress } from '../../../src/base/address.ts';
import type { SimProcess } from '../engine/process.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import { choose } from '../kernel/failures.ts';

/** Milliseconds until the other end hears of something. */
const DELAY_MS = 1;
const LISTEN_ERRORS = ['EADDRINUSE', 'EMFILE', 'EACCES'] as const;
const CONNECT_ERRORS = ['ECONNREFUSED', 'EHOSTUNREACH', 'EMFILE', 'ENETUNREACH'] as const;

interface Listener {
  readonly process: SimProcess;
  readonly onConnection: (client: Socket) => void;
}

export interface LoopbackOptions {
  readonly time: SimTime;
  /** Whether nothing answers at an address. */
  readonly isSilent: (address: Address) => boolean;
}

export class SimLoopback {
  readonly #options: LoopbackOptions;
  readonly #listeners = new Map<string, Listener>();

  constructor(options: LoopbackOptions) {
    this.#options = options;
  }

  /** `127.0.0.1:30080` of each listening socket. */
  get listening(): readonly string[] {
    return [...this.#listeners.keys()];
  }

  /** As a process uses it. */
  of(process: SimProcess): RelaySockets {
    return {
      listen: (at, onConnection) =>
        process.call<RelayListener>({
          what: `listen on ${endpointText(at.address, at.port)} for the relay`,
          effect: () => this.#listen(at, { process, onConnection }),
          undo: (listener) => listener.close(),
          fail: (variant) => {
            throw errorOf(choose(LISTEN_ERRORS, variant), 'listen');
          },
        }),
      connect: (to) => this.#connect(process, to),
    };
  }

  /**
   * A program of the node connects, and holds the connection for some milliseconds. Resolves with the endpoint that answers; undefined: none
   * does.
   */
  async ask(at: string, milliseconds: number): Promise<string | undefined> {
    const listener = this.#listeners.get(at);
    if (listener === undefined) return undefined;
    const { time } = this.#options;
    const [client, accepted] = pair(time);
    listener.process.run(() => {
      accepted.opened(listener.process);
      accepted.pause();
      listener.onConnection(accepted as unknown as Socket);
    });
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    client.on('error', () => resolve(undefined));
    client.on('close', () => resolve(undefined));
    client.once('data', (data: Buffer) => resolve(data.toString()));
    time.after(milliseconds, () => client.end(), NOBODY);
    return await promise;
  }

  #listen({ address, port }: SocketAddress, listener: Listener): RelayListener {
    const at = endpointText(address, port);
    if (this.#listeners.has(at)) throw errorOf('EADDRINUSE', 'listen');
    this.#listeners.set(at, listener);
    const forget = listener.process.opened(`the relay's socket ${at}`, () => this.#listeners.delete(at));
    return {
      close: () => {
        forget();
        if (this.#listeners.get(at) === listener) this.#listeners.delete(at);
      },
    };
  }

  #connect(process: SimProcess, { address, port }: SocketAddress): Socket {
    const { time, isSilent } = this.#options;
    const [near, far] = pair(time);
    near.connecting = true;
    far.on('error', () => undefined);
    near.opened(process);
    const fails = (code: string) => process.run(() => near.destroy(errorOf(code, 'connect')));
    // A socket that is closed connects no more.
    const closed = new AbortController();
    near.once('close', () => closed.abort());
    const call = {
      what: `relay to ${endpointText(address, port)}`,
      effect: () => undefined,
      fail: (variant: number) => choose(CONNECT_ERRORS, variant),
    };
    process.call<string | undefined>(call, closed.signal).then(
      (code) => {
        if (near.destroyed) return;
        if (code !== undefined) fails(code);
        else if (!isSilent(address)) {
          near.connecting = false;
          process.run(() => near.emit('connect'));
          far.write(endpointText(address, port));
          far.on('end', () => far.end());
          far.resume();
        }
      },
      () => undefined,
    );
    return near as unknown as Socket;
  }
}

/** One end of a connection: what is written here arrives at the other end. */
class SimSocket extends Duplex {
  connecting = false;
  peer: SimSocket | undefined;
  readonly #time: SimTime;

  constructor(time: SimTime) {
    super({ allowHalfOpen: true });
    this.#time = time;
  }

  /** Its process has it open until it is closed. */
  opened(process: SimProcess): void {
    this.once(
      'close',
      process.opened('a relayed connection', () => this.destroy()),
    );
  }

  override _read(): void {}

  override _write(data: Buffer, _: string, done: () => void): void {
    this.#tell((peer) => peer.push(data));
    done();
  }

  override _final(done: () => void): void {
    this.#tell((peer) => peer.push(null));
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.writableFinished) this.#tell((peer) => peer.destroy(errorOf('ECONNRESET', 'read')));
    done(error);
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  destroySoon(): void {
    this.destroy();
  }

  setTimeout(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  #tell(call: (peer: SimSocket) => void): void {
    const { peer } = this;
    if (peer === undefined) return;
    this.#time.after(DELAY_MS, () => (peer.destroyed ? undefined : call(peer)), NOBODY);
  }
}

function pair(time: SimTime): readonly [SimSocket, SimSocket] {
  const [a, b] = [new SimSocket(time), new SimSocket(time)];
  a.peer = b;
  b.peer = a;
  return [a, b];
}

function errorOf(code: string, syscall: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
}
