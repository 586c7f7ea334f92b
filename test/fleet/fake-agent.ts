/** An agent's stream on a real socket, which does what a test wants. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Address } from '../../src/base/address.ts';
import type { ProgrammedEvent } from '../../src/inspect/wire/programmed.ts';

export interface FakeAgentOptions {
  readonly node: string;
  /** Of its Services and slices. */
  readonly marks?: readonly [string, string];
  /** The token that it wants. */
  readonly token?: string;
  /** Listen at this port again. */
  readonly port?: number;
  /** Answers in place of the stream. */
  readonly answer?: http.RequestListener;
}

export class FakeAgent {
  readonly #server: http.Server;
  readonly #options: FakeAgentOptions;
  readonly #streams = new Set<http.ServerResponse>();
  /** Marks that a new stream begins with. */
  #marks: readonly [string, string];
  /** It takes connections, and says nothing at all. */
  isStopped = false;
  /** Paths with queries that were asked for. */
  readonly asked: string[] = [];

  static async start(options: FakeAgentOptions): Promise<FakeAgent> {
    const agent = new FakeAgent(options);
    await new Promise<void>((resolve) => agent.#server.listen(options.port ?? 0, '127.0.0.1', resolve));
    return agent;
  }

  private constructor(options: FakeAgentOptions) {
    this.#options = options;
    this.#marks = options.marks ?? ['0', '0'];
    this.#server = http.createServer((request, response) => this.#answer(request, response));
  }

  get at(): { readonly address: Address; readonly port: number } {
    return { address: '127.0.0.1' as Address, port: (this.#server.address() as AddressInfo).port };
  }

  /** Streams that are open. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Everything up to these versions is in its kernel. */
  programmed(services: string, slices: string): void {
    this.#marks = [services, slices];
    this.send({ marks: [[services, slices, 0]] });
  }

  send(event: ProgrammedEvent): void {
    this.sendText(`data: ${JSON.stringify(event)}\n\n`);
  }

  sendText(text: string): void {
    if (!this.isStopped) for (const stream of this.#streams) stream.write(text);
  }

  /** End all streams in order, as an agent that stops. */
  endStreams(): void {
    for (const stream of this.#streams) stream.end();
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    this.asked.push(request.url ?? '');
    const { token, answer, node } = this.#options;
    if (this.isStopped) return;
    if (answer !== undefined) {
      answer(request, response);
      return;
    }
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(401).end(JSON.stringify({ kind: 'Problem', message: 'the token is not valid' }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.#streams.add(response);
    response.on('close', () => this.#streams.delete(response));
    response.write(`data: ${JSON.stringify(firstEvent(node, this.#marks))}\n\n`);
  }
}

/** The first event of a stream: it has every field. */
export function firstEvent(node: string, [services, slices]: readonly [string, string]): ProgrammedEvent {
  return {
    agent: { node, mode: 'nftables', version: '1.0.0', up: 5000 },
    marks: [[services, slices, 1000]],
    stuck: null,
    behind: { set: [], gone: [] },
    unserved: [],
    health: { healthy: true, reasons: [] },
    counts: { faults: 0, drift: 0, suspects: [] },
  };
}
