/** A relay with real sockets on loopback: endpoints have addresses of Pods, and programs of this machine answer for them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net, { type AddressInfo, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { NodePortRelay, type RelayOutcome } from '../../../src/agent/relay/relay.ts';
import { type RelaySockets, relaySockets } from '../../../src/agent/relay/sockets.ts';
import { type Address, endpointText, type Family } from '../../../src/base/address.ts';
import type { Backend, ServicePort } from '../../../src/proxy/model/service-port.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';

export const LOOPBACK = '127.0.0.1' as Address;

/** Milliseconds. */
export const RETRY = 30_000;

export interface PortOptions {
  readonly service?: string;
  readonly name?: string;
  readonly family?: Family;
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  /** Numbers of Pods. */
  readonly cluster?: readonly number[];
  readonly local?: readonly number[];
  /** Those that terminate, and still answer. */
  readonly terminating?: readonly number[];
  readonly policy?: 'Cluster' | 'Local';
  readonly affinitySeconds?: number;
}

/** The n-th Pod. */
export function backend(n: number, family: Family = 'IPv4'): Backend {
  const address = (family === 'IPv4' ? `10.0.0.${n}` : `fd00::${n}`) as Address;
  return { address, port: 80, text: endpointText(address, 80), hairpin: false };
}

/** As the model has it, where the relay looks. */
export function servicePort(nodePort: number, options: PortOptions = {}): ServicePort {
  const { service = 'default/web', name = '', family = 'IPv4', protocol = 'TCP', policy = 'Cluster' } = options;
  const { cluster = [], local = [], terminating = [], affinitySeconds = 0 } = options;
  const id = name === '' ? service : `${service}:${name}`;
  const backends = (list: readonly number[]) => list.map((n) => backend(n, family));
  return {
    ...{ key: `${id}/${protocol}/${family}`, id, service, family, protocol, affinitySeconds },
    frontends: [
      { role: 'cluster-ip', address: '10.96.0.10' as Address, port: 80, policy: 'Cluster', empty: undefined },
      { role: 'node-port', address: undefined, port: nodePort, policy, empty: undefined },
    ],
    cluster: backends(cluster),
    local: backends(local),
    alsoAnswering: backends(terminating).map(({ text }) => text),
  } as unknown as ServicePort;
}

export class RelayRig {
  readonly clock = new FakeClock();
  /** In order: each Pod that was connected to. */
  readonly connected: string[] = [];
  readonly failures: string[] = [];
  readonly recoveries: string[] = [];
  readonly troubles: string[] = [];
  /** What slices list though the model does not use it, as `ip:port`. */
  readonly alsoListed = new Set<string>();
  readonly relay: NodePortRelay;
  random = () => 0;
  /** How a Pod without a program is met: the port is closed, or nobody answers. */
  silent = new Set<string>();
  readonly #test: TestContext;
  readonly #pods = new Map<string, number>();

  constructor(test: TestContext, sockets: Partial<RelaySockets> = {}) {
    this.#test = test;
    this.relay = new NodePortRelay({
      sockets: { ...relaySockets, connect: ({ address, port }) => this.#connect(address, port), ...sockets },
      clock: this.clock,
      random: () => this.random(),
      listed: () => this.alsoListed,
      onFailure: ({ service, port }, address, cause) => this.failures.push(`${service} ${address} ${port} ${cause}`),
      onRecovery: ({ service }, address) => this.recoveries.push(`${service} ${address}`),
      onTrouble: (sentence) => this.troubles.push(sentence),
    });
    this.relay.listenAt([LOOPBACK], RETRY);
    test.after(() => this.relay.close());
  }

  /** A Pod's program. Its connections end with the test. */
  async pod(n: number, serve: (client: Socket) => void): Promise<Server> {
    const server = await serving(this.#test, serve);
    this.#pods.set(backend(n).text, (server.address() as AddressInfo).port);
    return server;
  }

  /** Pods that send their number and close. */
  async named(...numbers: number[]): Promise<void> {
    for (const n of numbers) await this.pod(n, (client) => client.end(String(n)));
  }

  /** The model's ServicePorts change to these; undefined removes one. */
  async becomes(...ports: readonly ServicePort[]): Promise<void> {
    this.relay.update(new Map(ports.map((port) => [port.key, port])));
    await this.relay.sync();
  }

  async isGone(key: string): Promise<void> {
    this.relay.update(new Map([[key, undefined]]));
    await this.relay.sync();
  }

  outcomes(): Partial<Record<RelayOutcome, number>> {
    return Object.fromEntries(this.relay.counts.outcomes);
  }

  async ended(outcome: RelayOutcome, count = 1): Promise<void> {
    await until(`${count} ${outcome}`, () => (this.outcomes()[outcome] ?? 0) >= count);
  }

  /** Connections at present. */
  get open(): number {
    return this.relay.counts.families.reduce((sum, { connections }) => sum + connections, 0);
  }

  #connect(address: Address, port: number): Socket {
    const text = endpointText(address, port);
    this.connected.push(text);
    // A socket that never connects stands for a Pod that does not answer.
    if (this.silent.has(text)) return new net.Socket();
    return relaySockets.connect({ address: LOOPBACK, port: this.#pods.get(text) ?? 1 });
  }
}

/** A server on a free port of loopback, which ends with the test. */
export async function serving(test: TestContext, serve: (client: Socket) => void): Promise<Server> {
  const sockets = new Set<Socket>();
  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    serve(client);
  });
  server.listen(0, LOOPBACK);
  await once(server, 'listening');
  test.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return server;
}

/** A port of loopback that nobody has. */
export async function freePort(address = '127.0.0.1'): Promise<number> {
  const server = net.createServer().listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** A client's connection, with all that came to it, and how it ended. */
export class Client {
  readonly socket: Socket;
  text = '';
  end: 'open' | 'ended' | 'reset' | 'refused' = 'open';

  constructor(port: number, host = '127.0.0.1') {
    this.socket = net.connect({ host, port, allowHalfOpen: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (piece) => {
      this.text += String(piece);
    });
    this.socket.on('end', () => {
      this.end = 'ended';
    });
    this.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      assert.ok(['ECONNRESET', 'ECONNREFUSED', 'EPIPE'].includes(code ?? ''), String(code));
      this.end = code === 'ECONNREFUSED' ? 'refused' : 'reset';
    });
  }

  async ends(how: Client['end']): Promise<void> {
    await until(`the client's connection is ${how}, not ${this.end}`, () => this.end === how);
  }

  async receives(text: string): Promise<void> {
    await until(`the client receives ${text}`, () => this.text.includes(text));
  }
}

/** All that a new connection receives until its end; undefined: it is refused. */
export async function answerAt(port: number, host?: string): Promise<string | undefined> {
  const client = new Client(port, host);
  await until('the connection ends', () => client.end !== 'open');
  client.socket.destroy();
  return client.end === 'refused' ? undefined : client.end === 'reset' ? 'reset' : client.text;
}
