/** A small server in the place of the fleet: it answers what the test says, and keeps what it was asked. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Drained } from '../../../src/inspect/wire/drained.ts';
import { API_VERSION, problemOf } from '../../../src/inspect/wire/envelope.ts';

export const YES: Drained = {
  apiVersion: API_VERSION,
  kind: 'Drained',
  drained: true,
  of: 'Pod shop/web-1',
  services: ['shop/web'],
  why: '',
  nodes: { programmed: 3, behind: [], behindCount: 0, leftOut: [], leftOutCount: 0 },
  waited: 12,
};

export const NO: Drained = {
  ...YES,
  drained: false,
  why: '1 node still sends new connections to it',
  nodes: {
    programmed: 2,
    behind: [{ node: 'node-7', since: null, why: 'no answer: connect ECONNREFUSED' }],
    behindCount: 1,
    leftOut: [],
    leftOutCount: 0,
  },
};

/** How one question ends. */
export type Reply =
  | { readonly status: 200 | 504; readonly body: Drained }
  | { readonly status: number; readonly says: string }
  /** The connection ends without an answer. */
  | 'cut'
  /** Nothing is said. */
  | 'silent';

export class FakeFleet {
  /** Paths with their queries, and the header Authorization. */
  readonly asked: { readonly url: string; readonly token: string | undefined }[] = [];
  readonly #server: Server;
  #replies: Reply[];
  /** Called after each question. */
  readonly #onAsked = new Set<() => void>();

  private constructor(replies: readonly Reply[]) {
    this.#replies = [...replies];
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  /** The last of `replies` answers every later question too. */
  static async open(...replies: readonly Reply[]): Promise<FakeFleet> {
    const fleet = new FakeFleet(replies);
    await once(fleet.#server.listen(0, '127.0.0.1'), 'listening');
    return fleet;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
  }

  /** Resolves when so many questions were asked. */
  asks(count: number): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (this.asked.length < count) return;
        this.#onAsked.delete(look);
        resolve();
      };
      this.#onAsked.add(look);
      look();
    });
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #answer({ url = '', headers, socket }: IncomingMessage, response: ServerResponse): void {
    this.asked.push({ url, token: headers.authorization });
    for (const look of this.#onAsked) look();
    const [reply = 'cut'] = this.#replies;
    if (this.#replies.length > 1) this.#replies.shift();
    if (reply === 'silent') return;
    if (reply === 'cut') socket.destroy();
    else {
      const body = 'body' in reply ? reply.body : problemOf(reply.says);
      response.writeHead(reply.status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
    }
  }
}
