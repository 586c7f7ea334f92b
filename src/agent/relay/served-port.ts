/** One node port on one loopback address: its listening socket, and its connections. */
import type { Socket } from 'node:net';
import type { Address } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import { Choice } from './choice.ts';
import type { RelayPort } from './node-ports.ts';
import { RelayedConnection, type Result } from './relayed-connection.ts';
import type { RelayListener, RelaySockets } from './sockets.ts';

export interface ServedPortParts {
  readonly sockets: RelaySockets;
  readonly clock: Clock;
  readonly random: () => number;
  /** Whether there may be another connection, of so many of this port. */
  readonly admits: (ofPort: number) => boolean;
  /** A connection ended. */
  readonly onEnd: (result: Result, cause: string) => void;
  /** The kernel gives no connection. */
  readonly onAcceptFailure: (cause: string) => void;
}

export class ServedPort {
  readonly address: Address;
  /** The cause for which it does not listen, though it should. */
  failure: string | undefined;
  readonly #parts: ServedPortParts;
  readonly #choice: Choice;
  readonly #connections = new Set<RelayedConnection>();
  #port: RelayPort;
  #listener: RelayListener | undefined;

  constructor(address: Address, port: RelayPort, parts: ServedPortParts) {
    this.address = address;
    this.#port = port;
    this.#parts = parts;
    this.#choice = new Choice(parts);
  }

  get port(): RelayPort {
    return this.#port;
  }

  get isListening(): boolean {
    return this.#listener !== undefined;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Serve by these endpoints from now on. Without any, connections are refused. Rejects when the port cannot be had. */
  async use(port: RelayPort): Promise<void> {
    this.#port = port;
    if (port.endpoints.length === 0) {
      this.failure = undefined;
      this.#stopListening();
    } else if (this.#listener === undefined) {
      const { address } = this;
      this.#listener = await this.#parts.sockets.listen(
        { address, port: port.port },
        (client) => this.#take(client),
        (error) => this.#parts.onAcceptFailure(error.message),
      );
    }
  }

  /** End the connections to endpoints that are gone. `listed`: the endpoints that the Service's slices have at all. */
  abandonLost(listed: () => ReadonlySet<string>): void {
    const { lasting } = this.#port;
    const left = [...this.#connections].filter(({ endpoint }) => endpoint !== undefined && !lasting.includes(endpoint));
    if (left.length === 0) return;
    const known = listed();
    for (const connection of left) if (!known.has(connection.endpoint ?? '')) connection.abandon();
  }

  /** End everything. */
  close(): void {
    this.#stopListening();
    for (const connection of [...this.#connections]) connection.abandon();
  }

  #stopListening(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  #take(client: Socket): void {
    const { admits, sockets, clock, onEnd } = this.#parts;
    if (!admits(this.#connections.size)) {
      client.on('error', () => undefined);
      client.resetAndDestroy();
      return;
    }
    const connection = new RelayedConnection({
      client,
      clock,
      next: (tried) => this.#choice.next(this.#port, tried),
      connect: (to) => sockets.connect(to),
      onEnd: (result, cause) => {
        this.#connections.delete(connection);
        onEnd(result, cause);
      },
    });
    this.#connections.add(connection);
    connection.start();
  }
}
