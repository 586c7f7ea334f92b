/**
 * A small network in namespaces of its own: a node with a bridge for its pods, other machines on its uplink.
 *
 *     pod-1 ─┐
 *     pod-2 ─┼─ bridge │ node │ uplink ─┬─ client (outside the cluster)
 *     pod-3 ─┘                          └─ another node, whose pods are reached through it
 *
 * Addresses are used inside these namespaces only. `remove` removes everything, also after a failure.
 */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';
import type { CommandRunner } from '../../kernel/commands.ts';
import { type Child, startChild } from '../../kernel/commands.ts';
import type { HostAnswer, HostCommand, HostRequest } from './host-process.ts';
import { LabNetwork, Namespaces } from './network.ts';

export { type Addresses, LAB, podAddress, remotePodAddress } from './network.ts';

/** A host runs this file, which starts quickly; in the single executable, a hidden command. */
const HOST_PROCESS = fileURLToPath(new URL('./host-process.ts', import.meta.url));
export const HOST_COMMAND = 'demo-host';
const ASK_TIMEOUT = 1500;

export interface LabOptions {
  readonly commands: CommandRunner;
  readonly pods: number;
  readonly remotePods: number;
  readonly signal: AbortSignal;
}

export class Lab {
  readonly #namespaces: Namespaces;
  readonly #hosts = new Map<string, Host>();

  private constructor({ commands, signal }: LabOptions) {
    this.#namespaces = new Namespaces(commands, signal);
  }

  /** Build a lab. When building fails, everything made so far is removed. */
  static async create(options: LabOptions): Promise<Lab> {
    const lab = new Lab(options);
    try {
      await new LabNetwork(lab.#namespaces).build(options);
      return lab;
    } catch (error) {
      await lab.remove();
      throw error;
    }
  }

  /** The full name of a namespace: `node`, `client`, `other`, `pod-1`… */
  namespace(name: string): string {
    return this.#namespaces.name(name);
  }

  /** Command and arguments that run something inside a namespace. */
  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return this.#namespaces.inside(name, file, args);
  }

  /** Run a command inside a namespace; resolves with its standard output. Throws when it fails. */
  async exec(name: string, file: string, ...args: string[]): Promise<string> {
    return await this.#namespaces.exec(name, file, ...args);
  }

  /** Let a host answer on a port, of one address or of all. */
  async serve(name: string, protocol: 'TCP' | 'UDP', port: number, address?: string): Promise<void> {
    await this.#command(name, { kind: 'serve', protocol, port, name, address });
  }

  /** Send a request from a host. */
  async ask(name: string, request: Partial<HostRequest> & Pick<HostRequest, 'address' | 'port'>): Promise<HostAnswer> {
    return await this.#command(name, { kind: 'ask', protocol: 'TCP', timeout: ASK_TIMEOUT, ...request });
  }

  /** Stop all hosts and delete all namespaces. */
  async remove(): Promise<void> {
    await Promise.all([...this.#hosts.values()].map((host) => host.stop()));
    await this.#namespaces.remove();
  }

  async #command(name: string, command: HostCommand): Promise<HostAnswer> {
    let host = this.#hosts.get(name);
    if (host === undefined) {
      host = new Host(this.inside(name, process.execPath, isSea() ? [HOST_COMMAND] : [HOST_PROCESS]));
      this.#hosts.set(name, host);
    }
    return await host.command(command);
  }
}

/** A process inside a namespace that carries out commands, seen from the lab. */
export class Host {
  readonly #child: Child;
  readonly #waiting = new Map<number, (answer: HostAnswer) => void>();
  readonly #errors: string[] = [];
  #next = 1;
  #end: HostAnswer | undefined;

  constructor({ file, args }: { file: string; args: readonly string[] }) {
    this.#child = startChild({
      file,
      args,
      onLine: (line) => this.#onAnswer(line),
      onErrorLine: (line) => this.#errors.push(line),
    });
    void this.#child.ended.then(() => {
      const end: HostAnswer = {
        outcome: 'error',
        error: ['the host process ended', ...this.#errors.slice(-10)].join('; '),
      };
      this.#end = end;
      for (const resolve of this.#waiting.values()) resolve(end);
    });
  }

  command(command: HostCommand): Promise<HostAnswer> {
    if (this.#end !== undefined) return Promise.resolve(this.#end);
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.send(JSON.stringify({ id, command }));
    });
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  #onAnswer(line: string): void {
    const { id, answer } = JSON.parse(line) as { id: number; answer: HostAnswer };
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
  }
}
