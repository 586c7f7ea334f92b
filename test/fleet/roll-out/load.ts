/** Short HTTP requests to a Service from several nodes, each on a connection of its own, at a steady pace. */
import { type Answer, ask } from '../../upstream/e2e/traffic.ts';

/** One request. Times are milliseconds of performance.now(). */
export interface Request {
  readonly from: string;
  readonly began: number;
  readonly answer: Answer;
}

export interface LoadOptions {
  /** Network namespaces of the clients, by a name for messages. */
  readonly clients: ReadonlyMap<string, string>;
  readonly address: string;
  readonly port: number;
  /** Requests a second, of all clients together. */
  readonly rate: number;
}

/** Milliseconds after which a client gives up. */
const PATIENCE = 3000;

export class Load {
  readonly requests: Request[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #timers: NodeJS.Timeout[];

  constructor({ clients, address, port, rate }: LoadOptions) {
    const pause = (1000 * clients.size) / rate;
    this.#timers = [...clients].map(([from, namespace]) =>
      setInterval(() => {
        const began = performance.now();
        const asked = ask(namespace, { address, port, timeout: PATIENCE }).then((answer) => {
          this.requests.push({ from, began, answer });
          this.#running.delete(asked);
        });
        this.#running.add(asked);
      }, pause),
    );
  }

  /** No more requests; resolves when the last one has ended. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#running);
  }

  get failed(): readonly Request[] {
    return this.requests.filter(({ answer }) => answer.outcome !== 'reply');
  }

  /** Requests that began after a moment and went to the Pod of this name. */
  after(moment: number, pod: string): readonly Request[] {
    return this.requests.filter(
      ({ began, answer }) => began > moment && answer.outcome === 'reply' && answer.text === pod,
    );
  }
}
