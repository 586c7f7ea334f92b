/**
 * A small network in namespaces of its own: a node with a bridge for its pods, other machines on its uplink.
 *
 *     pod-1 ─┐
 *     pod-2 ─┼─ bridge │ node │ uplink ─┬─ client (outside the cluster)
 *     pod-3 ─┘                          └─ another node, whose pods are reached through it
 *
 * Addresses are used inside these namespaces only. Everything is removed by `remove`, also after a failure.
 */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../host/child.ts';
import type { CommandRunner } from '../host/commands.ts';
import type { Answer, Ask, HostCommand } from './host-protocol.ts';

/** Started by its own file, which is quick; in the one executable by a command that no help shows. */
const HOST_PROCESS = fileURLToPath(new URL('./host-process.ts', import.meta.url));
export const HOST_COMMAND = 'demo-host';
const ASK_TIMEOUT = 1500;

/** One family's addresses; the second is the first with IPv6's prefix. */
export interface Addresses {
  readonly v4: string;
  readonly v6: string;
}

export const LAB = {
  podCidr: { v4: '10.244.1.0/24', v6: 'fd00:244:1::/64' },
  clusterCidr: { v4: '10.244.0.0/16', v6: 'fd00:244::/32' },
  node: { v4: '192.168.77.2', v6: 'fd00:77::2' },
  otherNode: { v4: '192.168.77.3', v6: 'fd00:77::3' },
  client: { v4: '192.168.77.100', v6: 'fd00:77::100' },
  bridge: { v4: '10.244.1.1', v6: 'fd00:244:1::1' },
} as const;

/** Address of the n-th pod of this node (from 1). */
export function podAddress(n: number): Addresses {
  return { v4: `10.244.1.${10 + n}`, v6: `fd00:244:1::${10 + n}` };
}

/** Address of the n-th pod of the other node. */
export function remotePodAddress(n: number): Addresses {
  return { v4: `10.244.2.${10 + n}`, v6: `fd00:244:2::${10 + n}` };
}

export interface LabOptions {
  readonly commands: CommandRunner;
  readonly pods: number;
  readonly remotePods: number;
  readonly signal: AbortSignal;
}

export class Lab {
  readonly #commands: CommandRunner;
  readonly #signal: AbortSignal;
  readonly #prefix = `sw${process.pid}-${Math.random().toString(36).slice(2, 6)}`;
  readonly #namespaces: string[] = [];
  readonly #hosts = new Map<string, Host>();

  private constructor({ commands, signal }: LabOptions) {
    this.#commands = commands;
    this.#signal = signal;
  }

  /** Build it. What was made is removed again when building fails. */
  static async create(options: LabOptions): Promise<Lab> {
    const lab = new Lab(options);
    try {
      await lab.#build(options);
      return lab;
    } catch (error) {
      await lab.remove();
      throw error;
    }
  }

  /** The full name of a namespace: `node`, `client`, `other`, `pod-1`… */
  namespace(name: string): string {
    return `${this.#prefix}-${name}`;
  }

  /** Command and arguments that run something inside a namespace. */
  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return { file: 'ip', args: ['netns', 'exec', this.namespace(name), file, ...args] };
  }

  /** Run a command inside a namespace; returns its standard output, throws when it fails. */
  async exec(name: string, file: string, ...args: string[]): Promise<string> {
    return await this.#run(this.inside(name, file, args));
  }

  /** Let a host answer on a port, of one address or of all. */
  async serve(name: string, protocol: 'TCP' | 'UDP', port: number, address?: string): Promise<void> {
    await this.#command(name, { kind: 'serve', protocol, port, name, address });
  }

  /** Ask from a host. */
  async ask(name: string, request: Partial<Ask> & Pick<Ask, 'address' | 'port'>): Promise<Answer> {
    return await this.#command(name, { kind: 'ask', protocol: 'TCP', timeout: ASK_TIMEOUT, ...request });
  }

  /** Stop all hosts and delete all namespaces. */
  async remove(): Promise<void> {
    await Promise.all([...this.#hosts.values()].map((host) => host.stop()));
    const never = new AbortController().signal;
    for (const name of this.#namespaces) {
      await this.#commands.run({ file: 'ip', args: ['netns', 'delete', name] }, never);
    }
    this.#namespaces.length = 0;
  }

  async #build({ pods, remotePods }: LabOptions): Promise<void> {
    for (const name of ['node', 'other', 'client']) await this.#addNamespace(name);
    await this.#addBridge('node', 'cni0');
    await this.#addBridge('client', 'lan0');
    await this.#plug('node', { peer: 'client', bridge: 'lan0', addresses: LAB.node, lengths: LENGTHS });
    await this.#plug('other', { peer: 'client', bridge: 'lan0', addresses: LAB.otherNode, lengths: LENGTHS });
    await this.#address('client', 'lan0', LAB.client, LENGTHS);
    await this.#address('node', 'cni0', LAB.bridge, LENGTHS);
    for (let n = 1; n <= pods; n++) await this.#addPod(n);
    for (let n = 1; n <= remotePods; n++) await this.#address('other', 'lo', remotePodAddress(n), HOST_LENGTHS);
    await this.#routes();
  }

  async #addNamespace(name: string): Promise<void> {
    await this.#ip('netns', 'add', this.namespace(name));
    this.#namespaces.push(this.namespace(name));
    await this.exec(name, 'sysctl', '-qw', 'net.ipv6.conf.all.accept_dad=0', 'net.ipv6.conf.default.accept_dad=0');
    // One refusal a second to each sender is the kernel's habit; here every packet's fate is to be seen.
    await this.exec(name, 'sysctl', '-qw', 'net.ipv4.icmp_ratelimit=0', 'net.ipv6.icmp.ratelimit=0');
    await this.exec(name, 'ip', 'link', 'set', 'lo', 'up');
  }

  async #addBridge(name: string, bridge: string): Promise<void> {
    await this.exec(name, 'ip', 'link', 'add', bridge, 'type', 'bridge');
    await this.exec(name, 'ip', 'link', 'set', bridge, 'up');
  }

  /** Connect a namespace's eth0 to a bridge in another. */
  async #plug(name: string, { peer, bridge, addresses, lengths }: PlugOptions): Promise<void> {
    const port = `to-${name}`;
    const there = this.namespace(peer);
    await this.exec(name, 'ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', port, 'netns', there);
    await this.exec(peer, 'ip', 'link', 'set', port, 'master', bridge, 'up');
    await this.exec(name, 'ip', 'link', 'set', 'eth0', 'up');
    await this.#address(name, 'eth0', addresses, lengths);
    // A packet may come back through the port that it came from: a pod reaches itself.
    await this.exec(peer, 'ip', 'link', 'set', port, 'type', 'bridge_slave', 'hairpin', 'on');
  }

  async #address(name: string, device: string, { v4, v6 }: Addresses, [short, long]: Lengths): Promise<void> {
    await this.exec(name, 'ip', 'address', 'add', `${v4}/${short}`, 'dev', device);
    await this.exec(name, 'ip', 'address', 'add', `${v6}/${long}`, 'dev', device, 'nodad');
  }

  async #addPod(n: number): Promise<void> {
    const name = `pod-${n}`;
    await this.#addNamespace(name);
    await this.#plug(name, { peer: 'node', bridge: 'cni0', addresses: podAddress(n), lengths: LENGTHS });
    await this.#defaultRoute(name, LAB.bridge);
  }

  async #routes(): Promise<void> {
    for (const name of ['node', 'other']) {
      await this.exec(name, 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
    }
    await this.#defaultRoute('node', LAB.client);
    // Pods of one node reach those of the other through it, as a cluster's network does.
    await this.#route('node', REMOTE_PODS, LAB.otherNode);
    await this.#route('other', LAB.podCidr, LAB.node);
    // Others know no pod, only the node: Service addresses are sent to it (as a load balancer's would be).
    await this.#defaultRoute('client', LAB.node);
    await this.#defaultRoute('other', LAB.node);
  }

  async #defaultRoute(name: string, via: Addresses): Promise<void> {
    await this.#route(name, { v4: '0.0.0.0/0', v6: '::/0' }, via);
  }

  async #route(name: string, { v4, v6 }: Addresses, via: Addresses): Promise<void> {
    await this.exec(name, 'ip', 'route', 'add', v4, 'via', via.v4);
    await this.exec(name, 'ip', '-6', 'route', 'add', v6, 'via', via.v6);
  }

  async #command(name: string, command: HostCommand): Promise<Answer> {
    let host = this.#hosts.get(name);
    if (host === undefined) {
      host = new Host(this.inside(name, process.execPath, isSea() ? [HOST_COMMAND] : [HOST_PROCESS]));
      this.#hosts.set(name, host);
    }
    return await host.command(command);
  }

  async #ip(...args: string[]): Promise<string> {
    return await this.#run({ file: 'ip', args });
  }

  async #run(command: { file: string; args: readonly string[] }): Promise<string> {
    const result = await this.#commands.run(command, this.#signal);
    if (result.exitCode === 0) return result.stdout;
    throw new Error(`${command.file} ${command.args.join(' ')}: ${result.stderr.trim()}`);
  }
}

const REMOTE_PODS: Addresses = { v4: '10.244.2.0/24', v6: 'fd00:244:2::/64' };
/** Prefix lengths of an IPv4 and an IPv6 address. */
type Lengths = readonly [number, number];
const LENGTHS: Lengths = [24, 64];
const HOST_LENGTHS: Lengths = [32, 128];

interface PlugOptions {
  readonly peer: string;
  readonly bridge: string;
  readonly addresses: Addresses;
  readonly lengths: Lengths;
}

/** A process inside a namespace that carries out commands. */
class Host {
  readonly #child: Child;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #said: string[] = [];
  #next = 1;
  #end: Answer | undefined;

  constructor({ file, args }: { file: string; args: readonly string[] }) {
    this.#child = startChild({
      file,
      args,
      onLine: (line) => this.#answered(line),
      onErrorLine: (line) => this.#said.push(line),
    });
    void this.#child.ended.then(() => {
      const end: Answer = { outcome: 'error', error: ['the host process ended', ...this.#said.slice(-10)].join('; ') };
      this.#end = end;
      for (const resolve of this.#waiting.values()) resolve(end);
    });
  }

  command(command: HostCommand): Promise<Answer> {
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

  #answered(line: string): void {
    const { id, answer } = JSON.parse(line) as { id: number; answer: Answer };
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
  }
}
