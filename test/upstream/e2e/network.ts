/**
 * The network of a small cluster in network namespaces of its own: nodes on one link with a machine outside, and pods behind their nodes.
 *
 *     pod ─┐                          ┌─ node-2 ─ pods
 *     pod ─┴─ node-1 ── link ── outside
 *                                     └─ node-3 ─ pods
 *
 * A pod has a link of its own to its node, and the node a route to its address: all that pods send each other goes through the node's
 * rules. Addresses are used inside these namespaces only.
 */
import { Namespaces } from '../../../src/cli/lab/network.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

/** An address of each family. */
export interface Addresses {
  readonly v4: string;
  readonly v6: string;
}

export const POD_RANGES = '10.244.0.0/16,fd00:244::/32';
export const OUTSIDE = 'outside';
export const OUTSIDE_ADDRESSES: Addresses = { v4: '192.168.77.100', v6: 'fd00:77::100' };
/** The gateway of pods in IPv6, on each link to a node. In IPv4 it is the node's own address. */
const GATEWAY = 'fe80::1';
const UPLINK = 'eth0';

export interface NetworkNode {
  readonly name: string;
  /** From 1. */
  readonly number: number;
  readonly addresses: Addresses;
  readonly podRanges: Addresses;
}

export function nodeOf(number: number): NetworkNode {
  return {
    name: `node-${number}`,
    number,
    addresses: { v4: `192.168.77.${number}`, v6: `fd00:77::${number}` },
    podRanges: { v4: `10.244.${number * 16}.0/20`, v6: `fd00:244:${number}::/64` },
  };
}

/** A namespace for a pod, connected to its node. */
interface Slot {
  readonly namespace: string;
  readonly device: string;
}

/** A pod's place in the network. */
export interface Place extends Slot {
  readonly node: NetworkNode;
  readonly addresses: Addresses;
}

export class Network {
  readonly nodes: readonly NetworkNode[];
  readonly #namespaces = new Namespaces(shellCommands, NEVER);
  readonly #free = new Map<number, Slot[]>();
  #slots = 0;
  #addresses = 0;

  static async build(nodes: number): Promise<Network> {
    const network = new Network(nodes);
    try {
      await network.#build();
      return network;
    } catch (error) {
      await network.remove();
      throw error;
    }
  }

  private constructor(nodes: number) {
    this.nodes = Array.from({ length: nodes }, (_, index) => nodeOf(index + 1));
  }

  /** The full name of a namespace: `node-1`, `outside`. */
  namespace(name: string): string {
    return this.#namespaces.name(name);
  }

  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return this.#namespaces.inside(name, file, args);
  }

  /** Run a command in a namespace; resolves with its standard output. Throws when it fails. */
  exec(name: string, file: string, ...args: string[]): Promise<string> {
    return this.#namespaces.exec(name, file, ...args);
  }

  async remove(): Promise<void> {
    await this.#namespaces.remove();
  }

  /** Connect a new pod: nobody had its addresses before. */
  async connect(node: NetworkNode): Promise<Place> {
    const slot = this.#free.get(node.number)?.shift() ?? (await this.#newSlot(node));
    const n = ++this.#addresses;
    const addresses = {
      v4: `10.244.${node.number * 16 + (n >> 8)}.${n & 255}`,
      v6: `fd00:244:${node.number}::${n.toString(16)}`,
    };
    await this.#ip(slot.namespace, [
      `address add ${addresses.v4}/32 dev ${UPLINK}`,
      `address add ${addresses.v6}/128 dev ${UPLINK} nodad`,
      `route replace default via ${node.addresses.v4} dev ${UPLINK} onlink`,
      `route replace ::/0 via ${GATEWAY} dev ${UPLINK}`,
    ]);
    await this.#ip(node.name, this.#podRoutes(slot, addresses, 'add'));
    return { ...slot, node, addresses };
  }

  /** Its addresses lead nowhere from now on. */
  async disconnect(place: Place): Promise<void> {
    const { namespace, device, node, addresses } = place;
    await this.#ip(node.name, this.#podRoutes(place, addresses, 'delete'));
    await this.#ip(namespace, [
      `address delete ${addresses.v4}/32 dev ${UPLINK}`,
      `address delete ${addresses.v6}/128 dev ${UPLINK}`,
    ]);
    this.#free.set(node.number, [...(this.#free.get(node.number) ?? []), { namespace, device }]);
  }

  /** Commands of `ip`, in one process. */
  async #ip(name: string, lines: readonly string[]): Promise<void> {
    const args = ['-n', this.#namespaces.name(name), '-batch', '-'];
    const { exitCode, stderr } = await shellCommands.run({ file: 'ip', args, input: () => lines }, NEVER);
    if (exitCode !== 0) throw new Error(`ip in ${name}: ${stderr.trim()}\n${lines.join('\n')}`);
  }

  #podRoutes({ device }: Slot, { v4, v6 }: Addresses, verb: 'add' | 'delete'): string[] {
    return [`route ${verb} ${v4}/32 dev ${device}`, `route ${verb} ${v6}/128 dev ${device}`];
  }

  async #build(): Promise<void> {
    await this.#addNamespace(OUTSIDE);
    await this.#ip(OUTSIDE, [
      'link add lan type bridge',
      'link set lan up',
      `address add ${OUTSIDE_ADDRESSES.v4}/24 dev lan`,
      `address add ${OUTSIDE_ADDRESSES.v6}/64 dev lan nodad`,
    ]);
    for (const node of this.nodes) await this.#addNode(node);
    const [first] = this.nodes;
    // The outside knows no pod, only nodes: it sends packets for addresses of load balancers to the first.
    await this.#ip(OUTSIDE, [
      `route add default via ${first?.addresses.v4}`,
      `route add ::/0 via ${first?.addresses.v6}`,
    ]);
  }

  async #addNode({ name, addresses, number }: NetworkNode): Promise<void> {
    await this.#addNamespace(name);
    const others = this.nodes.filter((node) => node.number !== number);
    await this.#ip(name, [
      `link add ${UPLINK} type veth peer name to-${name} netns ${this.#namespaces.name(OUTSIDE)}`,
      `link set ${UPLINK} up`,
      `address add ${addresses.v4}/24 dev ${UPLINK}`,
      `address add ${addresses.v6}/64 dev ${UPLINK} nodad`,
      `route add default via ${OUTSIDE_ADDRESSES.v4}`,
      `route add ::/0 via ${OUTSIDE_ADDRESSES.v6}`,
      ...others.flatMap((node) => [
        `route add ${node.podRanges.v4} via ${node.addresses.v4}`,
        `route add ${node.podRanges.v6} via ${node.addresses.v6}`,
      ]),
    ]);
    await this.#ip(OUTSIDE, [`link set to-${name} master lan up`]);
    await this.#set(name, { 'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 1 });
    await this.#set(name, { 'net.ipv4.conf.all.send_redirects': 0, 'net.ipv4.conf.default.send_redirects': 0 });
  }

  async #newSlot(node: NetworkNode): Promise<Slot> {
    const slot = { namespace: `pod-${++this.#slots}`, device: `pod${this.#slots}` };
    await this.#addNamespace(slot.namespace);
    await this.#ip(slot.namespace, [
      `link add ${UPLINK} type veth peer name ${slot.device} netns ${this.#namespaces.name(node.name)}`,
      `link set ${UPLINK} up`,
    ]);
    await this.#ip(node.name, [`link set ${slot.device} up`, `address add ${GATEWAY}/64 dev ${slot.device} nodad`]);
    return slot;
  }

  async #addNamespace(name: string): Promise<void> {
    await this.#namespaces.add(name);
    await this.#ip(name, ['link set lo up']);
    await this.#set(name, { 'net.ipv6.conf.all.accept_dad': 0, 'net.ipv6.conf.default.accept_dad': 0 });
    // The kernel sends one refusal a second to each sender; a test must see the fate of every packet.
    await this.#set(name, { 'net.ipv4.icmp_ratelimit': 0, 'net.ipv6.icmp.ratelimit': 0 });
  }

  async #set(name: string, settings: Readonly<Record<string, number>>): Promise<void> {
    await this.exec(name, 'sysctl', '-qw', ...Object.entries(settings).map(([key, value]) => `${key}=${value}`));
  }
}
