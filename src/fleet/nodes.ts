/**
 * The nodes whose kernels count, and how far each of them is. A node counts when its agent has an endpoint, or had one since the fleet
 * started, and its Node exists: its rules stand while its agent is away. Pure.
 */
import { type Address, addressOctets, addressOfBytes, type Cidr } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import { type AgentPlace, type Link, type NodeObject, TrackedNode, TrackedNodes } from './tracked-node.ts';
import { type FleetKind, Listeners } from './types.ts';

export type { AgentPlace, Link, NodeObject } from './tracked-node.ts';

/** Milliseconds between two events of an agent: at least so many, and so many for each agent, so that 1,000 events a second come in all. */
const MIN_PACE_MS = 100;
const PACE_OF_AGENT = 1;

/** What is known of a Node that could never be read. */
const UNREADABLE: NodeObject = { addresses: [], podCIDRs: [], isReady: true, readySince: 0 };

export interface FleetNodesOptions {
  readonly clock: Clock;
  readonly programming: ProgrammingLatency;
  /** Milliseconds for which a Node may be not ready before nobody waits for it. */
  readonly leaveOutAfter: number;
}

export class FleetNodes {
  readonly counted = new TrackedNodes();
  /** After each change of a node: the node. After the last of the first lists, and when versions went back: undefined. */
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
    return Math.max(MIN_PACE_MS, this.#agents * PACE_OF_AGENT);
  }

  /** The Node from whose address a request comes, by its own addresses and the first two of each range of its Pods; undefined: of none. */
  nodeOf(address: Address): string | undefined {
    return this.#addresses.nodeOf(address);
  }

  /** Names of Nodes that are ready and never had an agent since the fleet started: rules of one may stand there. */
  get withoutAgent(): readonly string[] {
    const names: string[] = [];
    for (const { name, facts, counts } of this.#nodes.values())
      if (facts?.isReady === true && !counts) names.push(name);
    return names;
  }

  /** A Node object changed; undefined: it was deleted; `unreadable`: it is there, and its facts are those of before, if any. */
  setNode(name: string, read: NodeObject | 'unreadable' | undefined): void {
    const { clock, leaveOutAfter } = this.#options;
    const node = this.#nodeOf(name);
    const facts = read === 'unreadable' ? (node.facts ?? UNREADABLE) : read;
    this.#addresses.replace(name, node.facts, facts);
    node.setFacts(facts, { clock, leaveOutAfter, onLeftOut: () => this.#changed(node) });
    this.#changed(node);
  }

  /** The endpoint of the agent on a node; undefined: it has none. */
  setAgent(name: string, place: AgentPlace | undefined): void {
    const node = this.#nodeOf(name);
    if ((node.place === undefined) !== (place === undefined)) this.#agents += place === undefined ? -1 : 1;
    node.setPlace(place);
    this.#changed(node);
  }

  /** The first list of a kind is complete. */
  synced(kind: 'nodes' | 'agents'): void {
    this.#synced.add(kind);
    if (this.isComplete) this.changes.tell(undefined);
  }

  /** The connection to the agent of a node; `open` before the first event of each stream. A node that is not known is passed over. */
  setLink(name: string, link: Link): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    node.setLink(link, this.#options.clock.now());
    this.changes.tell(node);
  }

  /** An event of the stream of the agent of a node. A node that is not known is passed over. */
  event(name: string, event: ProgrammedEvent): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    node.take(event, this.#options.clock.now(), this.#options.programming);
    this.changes.tell(node);
  }

  /** The API server's versions of a kind went back (KEP-5504): marks that were told before say nothing. */
  restored(kind: FleetKind): void {
    this.#options.programming.restored(kind);
    for (const node of this.#nodes.values()) node.agent.forget(kind);
    this.changes.tell(undefined);
  }

  #nodeOf(name: string): TrackedNode {
    let node = this.#nodes.get(name);
    if (node === undefined) {
      node = new TrackedNode(name, this.#options.clock.now());
      this.#nodes.set(name, node);
    }
    return node;
  }

  /** Keeps the lists by what the node is now. */
  #changed(node: TrackedNode): void {
    const { programming } = this.#options;
    this.counted.keep(node);
    if (node.counts && !node.isLeftOut) node.tracked ??= programming.track(node.name);
    else if (node.tracked !== undefined) {
      programming.drop(node.tracked);
      node.tracked = undefined;
    }
    if (node.facts === undefined && node.place === undefined) this.#nodes.delete(node.name);
    this.changes.tell(node);
  }
}

/** Which Node an address belongs to: by its own addresses, or by those that network plugins give it in the ranges of its Pods. Pure. */
interface AddressesOfNode {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
}

class NodesByAddress {
  readonly #own = new Map<Address, string>();
  /** The first two addresses of each range: those of a bridge, or of a tunnel's interface. Pods have the others. */
  readonly #inRanges = new Map<Address, string>();

  /** The Node of an address; undefined: it is of none. An own address counts before one in a range. */
  nodeOf(address: Address): string | undefined {
    return this.#own.get(address) ?? this.#inRanges.get(address);
  }

  replace(node: string, before: AddressesOfNode | undefined, now: AddressesOfNode | undefined): void {
    replaceIn(this.#own, node, { before: before?.addresses, now: now?.addresses });
    const [former, present] = [before, now].map((each) => each?.podCIDRs.flatMap(firstTwo));
    replaceIn(this.#inRanges, node, { before: former, now: present });
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
