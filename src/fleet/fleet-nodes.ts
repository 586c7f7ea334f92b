/**
 * The nodes whose kernels count, and how far each of them is. A node counts when its agent has an endpoint, or had one since the fleet
 * started, and its Node exists: its rules stay in the kernel while its agent is away. Pure.
 */
import { type Address, addressOctets, addressOfBytes, type Cidr } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import {
  type AgentAddress,
  type Link,
  type NodeObject,
  type Restore,
  TrackedNode,
  TrackedNodes,
} from './tracked-node.ts';
import { type FleetKind, Listeners } from './types.ts';

export type { AgentAddress as AgentPlace, Link, NodeObject } from './tracked-node.ts';

/** Milliseconds between two events of an agent: at least, and for each agent, so that all agents send at most 1,000 events a second. */
const MIN_PACE_MS = 100;
const PACE_PER_AGENT_MS = 1;

/** The facts of a Node that could never be read. */
const UNREADABLE: NodeObject = { addresses: [], podCIDRs: [], isReady: true, readySince: 0 };

export interface FleetNodesOptions {
  readonly clock: Clock;
  readonly programming: ProgrammingLatency;
  /** Milliseconds for which a Node may be not ready before questions stop waiting for it: --leave-out-after of config/fleet-config.ts. */
  readonly leaveOutAfter: number;
}

export class FleetNodes {
  readonly tracked = new TrackedNodes();
  /** Emits a node after each change of it, and undefined after the last of the first lists and when versions went back. */
  readonly changes = new Listeners<[node: TrackedNode | undefined]>();
  readonly #options: FleetNodesOptions;
  readonly #nodes = new Map<string, TrackedNode>();
  readonly #addresses = new NodesByAddress();
  readonly #synced = new Set<'nodes' | 'agents'>();
  #agents = 0;

  constructor(options: FleetNodesOptions) {
    this.#options = options;
  }

  /** Whether the first lists of Nodes and of the agents' endpoints are complete. */
  get isComplete(): boolean {
    return this.#synced.size === 2;
  }

  /** Milliseconds for `pace=` of a stream. */
  get pace(): number {
    return Math.max(MIN_PACE_MS, this.#agents * PACE_PER_AGENT_MS);
  }

  /** The Node that an address belongs to: by its own addresses, or by the first two of each range of its Pods. */
  nodeOf(address: Address): string | undefined {
    return this.#addresses.nodeOf(address);
  }

  /** Ready Nodes that had no agent since the fleet started. Rules of an earlier agent may be there. */
  get withoutAgent(): readonly string[] {
    const names: string[] = [];
    for (const { name, facts, counts } of this.#nodes.values())
      if (facts?.isReady === true && !counts) names.push(name);
    return names;
  }

  /** A Node object changed. undefined: it was deleted. `unreadable`: it exists, and keeps its former facts, if any. */
  setNode(name: string, read: NodeObject | 'unreadable' | undefined): void {
    const { clock, leaveOutAfter } = this.#options;
    const node = this.#nodeOf(name);
    const facts = read === 'unreadable' ? (node.facts ?? UNREADABLE) : read;
    this.#addresses.replace(name, node.facts, facts);
    node.setFacts(facts, { clock, leaveOutAfter, onLeftOut: () => this.#changed(node) });
    this.#changed(node);
  }

  /** The address of the agent on a node changed; undefined: the agent has no endpoint. */
  setAgent(name: string, address: AgentAddress | undefined): void {
    const node = this.#nodeOf(name);
    if ((node.address === undefined) !== (address === undefined)) this.#agents += address === undefined ? -1 : 1;
    node.setAddress(address);
    this.#changed(node);
  }

  /** The first list of a kind is complete. */
  synced(kind: 'nodes' | 'agents'): void {
    this.#synced.add(kind);
    if (this.isComplete) this.changes.emit(undefined);
  }

  /** The connection to the agent of a node changed; `open` comes before the first event of each stream. Unknown nodes are ignored. */
  setLink(name: string, link: Link): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    node.setLink(link, this.#options.clock.now());
    this.changes.emit(node);
  }

  /** An event of the stream of a node's agent. Unknown nodes are ignored. */
  event(name: string, event: ProgrammedEvent): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    node.apply(event, this.#options.clock.now(), this.#options.programming);
    this.changes.emit(node);
  }

  /** The API server's versions of a kind went back (KEP-5504), so marks from before are invalid. */
  restored(kind: FleetKind, restore: Restore): void {
    this.#options.programming.restored(kind);
    for (const node of this.#nodes.values()) node.agent.restored(kind, restore);
    this.changes.emit(undefined);
  }

  #nodeOf(name: string): TrackedNode {
    let node = this.#nodes.get(name);
    if (node === undefined) {
      node = new TrackedNode(name, this.#options.clock.now());
      this.#nodes.set(name, node);
    }
    return node;
  }

  /** Updates the lists after a change of the node. */
  #changed(node: TrackedNode): void {
    const { programming } = this.#options;
    this.tracked.update(node);
    if (node.counts && !node.isLeftOut) node.progress ??= programming.track(node.name);
    else if (node.progress !== undefined) {
      programming.drop(node.progress);
      node.progress = undefined;
    }
    if (node.facts === undefined && node.address === undefined) this.#nodes.delete(node.name);
    this.changes.emit(node);
  }
}

type AddressesOfNode = Pick<NodeObject, 'addresses' | 'podCIDRs'>;

/** The Nodes by their own addresses, and by those that network plugins give them in the ranges of their Pods. */
class NodesByAddress {
  readonly #own = new Map<Address, string>();
  /** The first two addresses of each range are those of a bridge or a tunnel's interface. Pods have the others. */
  readonly #inRanges = new Map<Address, string>();

  /** An own address counts before one in a range. */
  nodeOf(address: Address): string | undefined {
    return this.#own.get(address) ?? this.#inRanges.get(address);
  }

  replace(node: string, before: AddressesOfNode | undefined, now: AddressesOfNode | undefined): void {
    replaceIn(this.#own, node, { before: before?.addresses, now: now?.addresses });
    const bridges = (of: AddressesOfNode | undefined) => of?.podCIDRs.flatMap(firstTwo);
    replaceIn(this.#inRanges, node, { before: bridges(before), now: bridges(now) });
  }
}

function replaceIn(
  nodes: Map<Address, string>,
  node: string,
  { before = [], now = [] }: Readonly<Record<'before' | 'now', readonly Address[] | undefined>>,
): void {
  for (const address of before) if (nodes.get(address) === node) nodes.delete(address);
  for (const address of now) nodes.set(address, node);
}

/** `10.244.1.0` and `10.244.1.1` of `10.244.1.0/24`. */
function firstTwo(range: Cidr): Address[] {
  const [text = '', length = ''] = range.split('/');
  const octets = addressOctets(text as Address).slice();
  for (let bit = Number(length); bit < octets.length * 8; bit += 1) {
    const at = Math.floor(bit / 8);
    octets[at] = (octets[at] ?? 0) & ~(0x80 >> (bit % 8));
  }
  const first = addressOfBytes(octets.slice());
  const last = octets.length - 1;
  octets[last] = (octets[last] ?? 0) | 1;
  return [first, addressOfBytes(octets)];
}
