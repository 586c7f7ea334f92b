/** A real kube-apiserver with its etcd, on the loopback: for benchmarks and tests to which somebody gives the programs. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, realCommands, startChild } from '../../../../src/kernel/commands.ts';
import { KubeClient } from './kube-client.ts';

/** Paths of the programs of a real API server. */
export interface RealServer {
  readonly kubeApiserver: string;
  readonly etcd: string;
}

const TOKEN = 'of-the-tests';
/** Milliseconds. */
const PATIENCE = 120_000;
/** In memory where there is such a folder: etcd waits for the disk at each write, and tens of thousands of objects are made. */
const MEMORY = '/dev/shm';
const NEVER = new AbortController().signal;

export class RealApiServer {
  /** What all of it is written to; removed at the end. */
  readonly folder: string;
  readonly #port: number;
  readonly #children = new Set<Child>();
  readonly #log: string[] = [];
  #client: KubeClient | undefined;

  /** Resolves when it is ready. Stop it with `stop()`. */
  static async start(programs: RealServer): Promise<RealApiServer> {
    const folder = await mkdtemp(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'kube-apiserver-'));
    const server = new RealApiServer(folder, await freePort());
    try {
      await server.#start(programs);
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.#port = port;
  }

  get port(): number {
    return this.#port;
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error('kube-apiserver is not ready');
    return this.#client;
  }

  /** Path of a kubeconfig of an administrator. */
  get kubeconfig(): string {
    return join(this.folder, 'kubeconfig');
  }

  /** Starts a program that ends with the server at the latest. */
  run(file: string, ...args: readonly string[]): Child {
    const child = startChild({ file, args, onErrorLine: (line) => void this.#log.push(line) });
    this.#children.add(child);
    void child.ended.then((status) => {
      this.#children.delete(child);
      this.#log.push(`${file} ended with status ${status}`);
    });
    return child;
  }

  /** The last lines of what the programs said. */
  said(lines = 10): string {
    return this.#log.slice(-lines).join('\n');
  }

  /** At once: what the servers hold is thrown away. */
  async stop(): Promise<void> {
    this.#client?.close();
    const children = [...this.#children];
    for (const { pid } of children) if (pid !== undefined) process.kill(pid, 'SIGKILL');
    await Promise.all(children.map(({ ended }) => ended));
    await rm(this.folder, { recursive: true, force: true });
  }

  async #start({ kubeApiserver, etcd }: RealServer): Promise<void> {
    const key = join(this.folder, 'service-accounts.key');
    await realCommands.run({ file: 'openssl', args: ['genrsa', '-out', key, '2048'] }, NEVER);
    const tokens = join(this.folder, 'tokens.csv');
    await writeFile(tokens, `${TOKEN},admin,admin,system:masters\n`);
    await mkdir(join(this.folder, 'certificates'));
    const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
    this.run(
      ...[etcd, '--data-dir', join(this.folder, 'etcd'), '--log-level', 'error'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`],
      ...['--quota-backend-bytes', String(4 * 2 ** 30)],
    );
    this.run(
      ...[kubeApiserver, '--etcd-servers', client, '--service-cluster-ip-range', '10.96.0.0/12,fd00:96::/112'],
      ...['--bind-address', '127.0.0.1', '--secure-port', String(this.#port)],
      ...['--cert-dir', join(this.folder, 'certificates')],
      ...['--token-auth-file', tokens, '--authorization-mode', 'RBAC'],
      ...['--service-account-key-file', key, '--service-account-signing-key-file', key],
      ...['--service-account-issuer', 'https://kubernetes.default', '--disable-admission-plugins', 'ServiceAccount'],
      ...['--enable-priority-and-fairness=false', '--max-requests-inflight', '0'],
      ...['--max-mutating-requests-inflight', '0'],
    );
    this.#client = await this.#ready();
    await writeFile(this.kubeconfig, JSON.stringify(await this.#config()));
  }

  async #ready(): Promise<KubeClient> {
    const certificate = join(this.folder, 'certificates', 'apiserver.crt');
    for (const late = performance.now() + PATIENCE; performance.now() < late; await pause(200)) {
      const authority = await readFile(certificate, 'utf8').catch(() => undefined);
      if (authority === undefined) continue;
      const client = new KubeClient({ port: this.#port, token: TOKEN, authority });
      if ((await client.status('GET', '/readyz').catch(() => 0)) === 200) return client;
      client.close();
    }
    throw new Error(`kube-apiserver is not ready\n${this.said()}`);
  }

  /** JSON is YAML. */
  async #config(): Promise<object> {
    const authority = await readFile(join(this.folder, 'certificates', 'apiserver.crt'), 'base64');
    const server = `https://127.0.0.1:${this.#port}`;
    return {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': authority } }],
      users: [{ name: 'test', user: { token: TOKEN } }],
    };
  }
}

/** A port of the loopback that nobody has now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
}
