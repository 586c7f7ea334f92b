/** The network of the lab: its namespaces, addresses, bridges, links and routes. */
import type { CommandRunner } from '../../kernel/commands.ts';

/** The network namespaces of one lab. */
export class Namespaces {
  readonly #commands: CommandRunner;
  readonly #signal: AbortSignal;
  readonly #prefix = `sw${process.pid}-${Math.random().toString(36).slice(2, 6)}`;
  readonly #names: string[] = [];

  constructor(commands: CommandRunner, signal: AbortSignal) {
    this.#commands = commands;
    this.#signal = signal;
  }

  /** The full name of a namespace: `node`, `client`, `other`, `pod-1`… */
  name(name: string): string {
    return `${this.#prefix}-${name}`;
  }

  /** Command and arguments that run something inside a namespace. */
  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return { file: 'ip', args: ['netns', 'exec', this.name(name), file, ...args] };
  }

  async add(name: string): Promise<void> {
    await this.#run({ file: 'ip', args: ['netns', 'add', this.name(name)] });
    this.#names.push(this.name(name));
  }

  /** Run a command inside a namespace; resolves with its standard output. Throws when it fails. */
  async exec(name: string, file: string, ...args: string[]): Promise<string> {
    return await this.#run(this.inside(name, file, args));
  }

  /** Delete all of them, also after the lab's signal aborted. */
  async remove(): Promise<void> {
    const never = new AbortController().signal;
    for (const name of this.#names) {
      await this.#commands.run({ file: 'ip', args: ['netns', 'delete', name] }, never);
    }
    this.#names.length = 0;
  }

  async #run(command: { file: string; args: readonly string[] }): Promise<string> {
    const result = await this.#commands.run(command, this.#signal);
    if (result.exitCode === 0) return result.stdout;
    throw new Error(`${command.file} ${command.args.join(' ')}: ${result.stderr.trim()}`);
  }
}

/** An IPv4 address or prefix, with its IPv6 counterpart. */
export interface Addresses {
  readonly v4: string;
  readonly v6: string;
}

/** These addresses are used inside the namespaces only. */
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

export class LabNetwork {
  readonly #namespaces: Namespaces;

  constructor(namespaces: Namespaces) {
    this.#namespaces = namespaces;
  }

  async build({ pods, remotePods }: { readonly pods: number; readonly remotePods: number }): Promise<void> {
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
    await this.#namespaces.add(name);
    await this.#namespaces.exec(
      name,
      'sysctl',
      '-qw',
      'net.ipv6.conf.all.accept_dad=0',
      'net.ipv6.conf.default.accept_dad=0',
    );
    // By default the kernel sends one refusal a second to each sender, but the lab must see the outcome of every packet.
    await this.#namespaces.exec(name, 'sysctl', '-qw', 'net.ipv4.icmp_ratelimit=0', 'net.ipv6.icmp.ratelimit=0');
    await this.#namespaces.exec(name, 'ip', 'link', 'set', 'lo', 'up');
  }

  async #addBridge(name: string, bridge: string): Promise<void> {
    await this.#namespaces.exec(name, 'ip', 'link', 'add', bridge, 'type', 'bridge');
    await this.#namespaces.exec(name, 'ip', 'link', 'set', bridge, 'up');
  }

  /** Connect a namespace's eth0 to a bridge in another. */
  async #plug(name: string, { peer, bridge, addresses, lengths }: PlugOptions): Promise<void> {
    const port = `to-${name}`;
    const there = this.#namespaces.name(peer);
    await this.#namespaces.exec(
      name,
      'ip',
      'link',
      'add',
      'eth0',
      'type',
      'veth',
      'peer',
      'name',
      port,
      'netns',
      there,
    );
    await this.#namespaces.exec(peer, 'ip', 'link', 'set', port, 'master', bridge, 'up');
    await this.#namespaces.exec(name, 'ip', 'link', 'set', 'eth0', 'up');
    await this.#address(name, 'eth0', addresses, lengths);
    // Hairpin: a pod reaches itself through the port that its packet came from.
    await this.#namespaces.exec(peer, 'ip', 'link', 'set', port, 'type', 'bridge_slave', 'hairpin', 'on');
  }

  async #address(name: string, device: string, { v4, v6 }: Addresses, [short, long]: Lengths): Promise<void> {
    await this.#namespaces.exec(name, 'ip', 'address', 'add', `${v4}/${short}`, 'dev', device);
    await this.#namespaces.exec(name, 'ip', 'address', 'add', `${v6}/${long}`, 'dev', device, 'nodad');
  }

  async #addPod(n: number): Promise<void> {
    const name = `pod-${n}`;
    await this.#addNamespace(name);
    await this.#plug(name, { peer: 'node', bridge: 'cni0', addresses: podAddress(n), lengths: LENGTHS });
    await this.#defaultRoute(name, LAB.bridge);
  }

  async #routes(): Promise<void> {
    for (const name of ['node', 'other']) {
      await this.#namespaces.exec(name, 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
    }
    await this.#defaultRoute('node', LAB.client);
    // As in a cluster's network, pods of one node reach those of the other through that node.
    await this.#route('node', REMOTE_PODS, LAB.otherNode);
    await this.#route('other', LAB.podCidr, LAB.node);
    // Other machines know no pod, only the node: they send packets for Service addresses to it, as a load balancer does.
    await this.#defaultRoute('client', LAB.node);
    await this.#defaultRoute('other', LAB.node);
  }

  async #defaultRoute(name: string, via: Addresses): Promise<void> {
    await this.#route(name, { v4: '0.0.0.0/0', v6: '::/0' }, via);
  }

  async #route(name: string, { v4, v6 }: Addresses, via: Addresses): Promise<void> {
    await this.#namespaces.exec(name, 'ip', 'route', 'add', v4, 'via', via.v4);
    await this.#namespaces.exec(name, 'ip', '-6', 'route', 'add', v6, 'via', via.v6);
  }
}
