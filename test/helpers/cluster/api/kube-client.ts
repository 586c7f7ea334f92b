/** Requests to a real kube-apiserver on the loopback, many at a time over kept connections. */
import { Agent, request } from 'node:https';

export interface KubeClientOptions {
  readonly port: number;
  readonly token: string;
  /** The server's certificates (PEM). */
  readonly authority: string;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

export class KubeClient {
  readonly #options: KubeClientOptions;
  readonly #agent: Agent;

  constructor(options: KubeClientOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, ca: options.authority });
  }

  async status(method: string, path: string): Promise<number> {
    return (await this.#ask(method, path)).status;
  }

  /** Throws what the server said where it is no success. */
  async write(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, object?: object): Promise<void> {
    const { status, text } = await this.#ask(method, path, object && JSON.stringify(object));
    if (status < 200 || status > 299) throw new Error(`${method} ${path}: ${status} ${text}`);
  }

  /** An object or a list. Throws what the server said where it is no success. */
  async read(path: string): Promise<unknown> {
    const { status, text } = await this.#ask('GET', path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`);
    return JSON.parse(text);
  }

  close(): void {
    this.#agent.destroy();
  }

  #ask(method: string, path: string, body?: string): Promise<Answer> {
    const { port, token } = this.#options;
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const headers = { authorization: `Bearer ${token}`, 'content-type': type };
    return new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, method, path, headers, agent: this.#agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (piece: string) => {
          text += piece;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }
}
