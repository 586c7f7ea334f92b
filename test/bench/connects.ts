/** A client that connects again and again, and a sink that is all endpoints of a cluster at once. */
import { fileURLToPath } from 'node:url';
import { LAB, type Lab } from '../../src/cli/lab/lab.ts';
import { TARGET_PORT } from './cluster.ts';
import type { ConnectAnswer, ConnectCommand, SinkAnswer, SinkCommand } from './connects-protocol.ts';
import { InsideProcess } from './inside.ts';

const CLIENT = fileURLToPath(new URL('./connects-inside.ts', import.meta.url));
const SINK = fileURLToPath(new URL('./sink-inside.ts', import.meta.url));
const PODS = '10.128.0.0/9';
/** Milliseconds. */
const TIMEOUT = 900;

/** Connects, one connection at a time. */
export class Connector {
  readonly #process: InsideProcess<ConnectCommand, ConnectAnswer, never>;

  constructor(lab: Lab, namespace = 'client') {
    this.#process = new InsideProcess({ lab, namespace, program: CLIENT });
  }

  /** The least time until a packet that was lost is sent again is a second: `timeout` is a little less, in milliseconds. */
  async connect(command: Omit<ConnectCommand, 'timeout'> & { timeout?: number }): Promise<ConnectAnswer> {
    return await this.#process.ask({ timeout: TIMEOUT, ...command });
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}

/** Listens on one port of all pod addresses, which it makes local to its namespace. */
export class Sink {
  readonly #process: InsideProcess<SinkCommand, SinkAnswer, never>;

  /** Unless it is in the node itself, the node reaches it through the network. The namespace is `node` or `other`. */
  static async start(lab: Lab, namespace: 'node' | 'other' = 'other', port = TARGET_PORT): Promise<Sink> {
    await lab.exec(namespace, 'ip', 'route', 'replace', 'local', PODS, 'dev', 'lo');
    await lab.exec(namespace, 'sysctl', '-qw', 'net.core.somaxconn=65535', 'net.ipv4.tcp_max_syn_backlog=65535');
    if (namespace !== 'node') await lab.exec('node', 'ip', 'route', 'replace', PODS, 'via', LAB.otherNode.v4);
    const sink = new Sink(lab, namespace, port);
    await sink.#process.ask({ kind: 'ready' });
    return sink;
  }

  private constructor(lab: Lab, namespace: string, port: number) {
    this.#process = new InsideProcess({ lab, namespace, program: SINK, args: [`${port}`] });
  }

  /** Connections by endpoint since the last time this was asked. */
  async count(): Promise<SinkAnswer> {
    return await this.#process.ask({ kind: 'count' });
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}
