/** Passes TCP connections on to a port of the loopback, until it is frozen: then they stay open and nothing goes through, as when a cable is cut. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { inNamespace } from '../../kernel/namespace-sockets.ts';

export class TcpRelay {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();

  private constructor(target: number) {
    this.#server = net.createServer((near) => {
      const far = net.connect(target, '127.0.0.1');
      near.pipe(far).pipe(near);
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => this.#sockets.delete(socket));
      }
    });
  }

  static async to(target: number): Promise<TcpRelay> {
    const relay = new TcpRelay(target);
    await once(relay.#server.listen(0, '127.0.0.1'), 'listening');
    return relay;
  }

  /** Takes the connections to the same port in a network namespace. */
  static async from(namespace: string, target: number): Promise<TcpRelay> {
    const relay = new TcpRelay(target);
    await once(
      inNamespace(namespace, () => relay.#server.listen(target)),
      'listening',
    );
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Connections that are open, from clients. */
  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** Nothing goes through those that are open any more; new ones work. */
  freeze(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
