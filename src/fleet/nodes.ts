/**
 * The nodes whose kernels count, and how far each of them is. A node counts when its agent has an endpoint, or had one since the fleet
 * started, and its Node exists: its rules stand while its agent is away. Pure.
 */
import type { NodeBehind } from '../answers/drained.ts';
import type { ProgrammedEvent } from '../answers/programmed.ts';
import type { Clock } from '../host/clock.ts';
import type { Address } from '../model/address.ts';
import type { Need } from './agent-state.ts';
import { Moments } from './moments.ts';
import { type AgentPlace, FleetNode, type Link, type NodeFacts } from './node.ts';
import { NodeAddresses } from './node-addresses.ts';
import type { FleetKind } from './objects.ts';
import type { Programming } from './programming.ts';

/** Milliseconds between two events of an agent: at least so many, and so many for each agent, so that 1,000 events a second come in all. */
const LEAST_PACE = 100;
const PACE_OF_AGENT = 1;

export interface FleetNodesOptions {
  readonly clock: Clock;
  readonly programming: Programming;
  /** Milliseconds for which a Node may be not ready before nobody waits for it. */
  readonly leaveOutAfter: number;
}

export class FleetNodes {
  readonly moments: Moments;
  readonly #options: FleetNodesOptions;
  readonly #nodes = new Map<string, FleetNode>();
  /** Those that count, in the order of their serials. */
  #counted: FleetNode[] = [];
  readonly #addresses = new NodeAddresses();
  readonly #synced = new Set<'nodes' | 'agents'>();
  readonly #listeners: ((node: FleetNode | undefined) => void)[] = [];
  #serials = 0;
  #agents = 0;

  constructor(options: FleetNodesOptions) {
    this.#options = options;
    this.moments = new Moments(options.clock);
  }

  /** Called after each change of a node, and with undefined after the last of the first lists. */
  onChange(listener: (node: FleetNode | undefined) => void): void {
    this.#listeners.push(listener);
  }

  /** Whether the first lists of Nodes and of the agents' endpoints are complete. */
  get isComplete(): boolean {
    return this.#synced.size === 2;
  }

  /** The nodes that count; one that comes is behind those that are there. */
  get counted(): readonly FleetNode[] {
    return this.#counted;
  }

  /** Milliseconds for `pace=` of a stream. */
  get pace(): number {
    return Math.max(LEAST_PACE, this.#agents * PACE_OF_AGENT);
  }

  /** The Node from whose address a request comes, by its own addresses and the ranges of its Pods; undefined: of none. */
  nodeOf(address: Address): string | undefined {
    return this.#addresses.nodeOf(address);
  }

  /** A Node object changed; undefined: it was deleted. */
  setNode(name: string, facts: NodeFacts | undefined): void {
    const node = this.#nodeOf(name);
    this.#addresses.replace(name, node.facts, facts);
    this.#setReady(node, facts);
    node.facts = facts;
    // A Node that comes again under the name of one that was deleted is another.
    if (facts === undefined) node.hadPlace = node.place !== undefined;
    this.#changed(node);
  }

  /** The endpoint of the agent on a node; undefined: it has none. */
  setAgent(name: string, place: AgentPlace | undefined): void {
    const node = this.#nodeOf(name);
    if ((node.place === undefined) !== (place === undefined)) {
      this.#agents += place === undefined ? -1 : 1;
      node.placelessSince = this.#options.clock.now();
    }
    node.place = place;
    if (place !== undefined) node.hadPlace = true;
    this.#changed(node);
  }

  /** The first list of a kind is complete. */
  synced(kind: 'nodes' | 'agents'): void {
    this.#synced.add(kind);
    if (this.isComplete) this.#tell(undefined);
  }

  /** The connection to the agent of a node. A node that is not known is passed over. */
  setLink(name: string, link: Link): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    const now = this.#options.clock.now();
    if (node.link.state === 'open' && link.state !== 'open') node.lostAt = now;
    if (link.state === 'open') node.isFirst = true;
    if (node.link.state !== link.state) node.linkSince = now;
    node.link = link;
    this.#tell(node);
  }

  /** An event of the stream of the agent of a node. */
  event(name: string, event: ProgrammedEvent): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    const now = this.#options.clock.now();
    const { agent } = node;
    const { isFirst } = node;
    node.isFirst = false;
    const before = agent.marks;
    agent.take(event, now, isFirst);
    // While there was no stream, the marks moved unseen, unless it was the agent that was away.
    const isMeasured = !isFirst || (node.lostAt !== undefined && (agent.startedAt ?? 0) >= node.lostAt);
    for (const [services, slices, age] of event.marks ?? []) {
      if (services === before.services && slices === before.slices) continue;
      if (node.tracked === undefined) break;
      this.#options.programming.advance(node.tracked, { services, slices }, now - age, isMeasured);
    }
    this.#tell(node);
  }

  /** The API server's versions of a kind went back (KEP-5504): marks that were told before say nothing. */
  restored(kind: FleetKind): void {
    this.#options.programming.restored(kind);
    for (const node of this.#nodes.values()) node.agent.forget(kind);
    this.#tell(undefined);
  }

  /** Whether the kernel of a node has what is needed. Throws where no node that counts has the name. */
  isPast(name: string, need: Need): true | NodeBehind {
    const node = this.#nodes.get(name);
    if (node?.counts !== true) throw new Error(`no node that counts is named ${name}`);
    return this.behind(node, need) ?? true;
  }

  /** When the fleet saw the first change that a node lacks, in milliseconds of the clock; undefined: it lacks none. */
  behindSince(node: FleetNode): number | undefined {
    return this.#options.programming.behindSince(node.agent.marks);
  }

  /** `isPast` for a node that is at hand; undefined: it has what is needed. */
  behind(node: FleetNode, need: Need): NodeBehind | undefined {
    const lack = node.lack(need, () => this.behindSince(node));
    if (lack === undefined) return undefined;
    const { why, since } = lack;
    return { node: node.name, since: since === undefined ? null : this.moments.of(since), why };
  }

  /**
   * The first node after a serial that must be waited for; undefined: there is none. A node that is left out is not waited for, and told
   * to `leftOut` where it lacks what is needed.
   */
  firstBehind(need: Need, after: number, leftOut: (node: FleetNode) => void): FleetNode | undefined {
    for (let i = this.#indexAfter(after); i < this.#counted.length; i += 1) {
      const node = this.#counted[i];
      if (node === undefined || node.lack(need, () => undefined) === undefined) continue;
      if (!node.isLeftOut) return node;
      leftOut(node);
    }
    return undefined;
  }

  #indexAfter(serial: number): number {
    let low = 0;
    let high = this.#counted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#counted[middle]?.serial ?? 0) > serial) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #nodeOf(name: string): FleetNode {
    let node = this.#nodes.get(name);
    if (node === undefined) {
      node = new FleetNode(name, this.#options.clock.now());
      this.#nodes.set(name, node);
    }
    return node;
  }

  #setReady(node: FleetNode, facts: NodeFacts | undefined): void {
    const { clock, leaveOutAfter } = this.#options;
    if (facts === undefined || facts.isReady) {
      node.cancel();
      node.notReadySince = undefined;
      node.isLeftOut = false;
      return;
    }
    if (node.notReadySince !== undefined) return;
    const now = clock.now();
    const isFirst = node.facts === undefined && facts.readySince !== 0;
    node.notReadySince = isFirst ? now - Math.max(0, clock.wall() - facts.readySince) : now;
    const left = node.notReadySince + leaveOutAfter - now;
    const leaveOut = () => {
      node.isLeftOut = true;
      this.#changed(node);
    };
    if (left <= 0) node.isLeftOut = true;
    else node.cancel = clock.after(left, leaveOut);
  }

  /** Keeps the lists by what the node is now. */
  #changed(node: FleetNode): void {
    if (node.counts && node.serial === 0) {
      this.#serials += 1;
      node.serial = this.#serials;
      this.#counted.push(node);
    } else if (!node.counts && node.serial !== 0) {
      node.serial = 0;
      this.#counted = this.#counted.filter((each) => each !== node);
    }
    const isTracked = node.counts && !node.isLeftOut;
    if (isTracked) node.tracked ??= this.#options.programming.track(node.name);
    else if (node.tracked !== undefined) {
      this.#options.programming.drop(node.tracked);
      node.tracked = undefined;
    }
    if (node.facts === undefined && node.place === undefined) this.#nodes.delete(node.name);
    this.#tell(node);
  }

  #tell(node: FleetNode | undefined): void {
    for (const listener of this.#listeners) listener(node);
  }
}
