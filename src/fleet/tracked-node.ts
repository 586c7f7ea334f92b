/** One node of the fleet: its Node object, the address of its agent, the connection to it, and the state that the agent reports. Pure. */
import type { Address, Cidr, Family } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { nodeStates } from '../inspect/wire/fleet.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { hasReached } from '../proxy/model/resource-version.ts';
import type { NodeProgress, ProgrammingLatency } from './programming-latency.ts';
import { type FleetKind, NO_VERSIONS, type Versions } from './types.ts';

export type NodeState = (typeof nodeStates)[number];

/** The used part of a Node object. */
export interface NodeObject {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Its condition Ready is True. */
  readonly isReady: boolean;
  /** Time of the last change of that condition, in milliseconds since 1970; 0 when unknown. */
  readonly readySince: number;
}

/** The address at which an agent answers. */
export interface AgentAddress {
  readonly address: Address;
  readonly port: number;
}

/** The connection to an agent. `why` is a clause, such as an error. */
export type Link =
  | { readonly state: 'connecting' }
  | { readonly state: 'open' }
  | { readonly state: 'failed'; readonly why: string }
  /** It answered 404 at /programmed/live. */
  | { readonly state: 'too old' };

export class TrackedNode {
  readonly name: string;
  readonly agent = new AgentState();
  /** Grows from one node that begins to count to the next; 0 while it does not count. */
  serial = 0;
  facts: NodeObject | undefined;
  address: AgentAddress | undefined;
  link: Link = { state: 'connecting' };
  /** Time of the last change of the connection's state, in milliseconds of the clock. */
  linkSince: number;
  /** undefined while it does not count for latencies. */
  progress: NodeProgress | undefined;
  /** An agent has an endpoint here, or had one. */
  #hadAddress = false;
  /** The next event begins a stream. */
  #isFirst = true;
  /** Time of the last event. */
  #heardAt = Number.POSITIVE_INFINITY;
  readonly #readiness = new Readiness();

  /** `now`: milliseconds of the clock. */
  constructor(name: string, now: number) {
    this.name = name;
    this.linkSince = now;
  }

  /** Whether its kernel counts: an agent served it, and its Node exists. */
  get counts(): boolean {
    return this.facts !== undefined && this.#hadAddress;
  }

  /** Questions do not wait for a Node that has not been ready for a long time. */
  get isLeftOut(): boolean {
    return this.#readiness.isLeftOut;
  }

  setFacts(facts: NodeObject | undefined, leavingOut: LeavingOut): void {
    // A Node that was not ready when the fleet first saw it counts from the time in its condition.
    const isKnown = this.facts === undefined && facts !== undefined && facts.readySince !== 0;
    if (facts === undefined || facts.isReady) this.#readiness.ready();
    else this.#readiness.notReady(isKnown ? facts.readySince : undefined, leavingOut);
    this.facts = facts;
    // A new Node with the name of a deleted one is another Node.
    if (facts === undefined) this.#hadAddress = this.address !== undefined;
  }

  setAddress(address: AgentAddress | undefined): void {
    this.address = address;
    if (address !== undefined) this.#hadAddress = true;
  }

  setLink(link: Link, now: number): void {
    if (link.state === 'open') this.#isFirst = true;
    if (this.link.state !== link.state) this.linkSince = now;
    this.link = link;
  }

  /** Applies an event that arrived at `now`. */
  apply(event: ProgrammedEvent, now: number, programming: ProgrammingLatency): void {
    const before = this.agent.marks;
    this.agent.apply(event, now, this.#isFirst);
    // Without a stream the marks moved unseen, unless the agent itself was away.
    const isMeasured = !this.#isFirst || (this.agent.startedAt ?? 0) >= this.#heardAt;
    this.#isFirst = false;
    this.#heardAt = now;
    for (const [services, slices, age] of event.marks ?? []) {
      if (this.progress === undefined || (services === before.services && slices === before.slices)) continue;
      programming.advance(this.progress, { services, slices }, now - age, isMeasured);
    }
  }
}

interface LeavingOut {
  readonly clock: Clock;
  /** Milliseconds for which a Node may be not ready before questions stop waiting for it. */
  readonly leaveOutAfter: number;
  readonly onLeftOut: () => void;
}

/** Leaves a Node out when it has not been ready for a long time. */
class Readiness {
  #isLeftOut = false;
  /** Cancels the wait until the Node is left out; undefined while the Node is ready. */
  #cancel: (() => void) | undefined;

  get isLeftOut(): boolean {
    return this.#isLeftOut;
  }

  /** The Node is ready, or gone. */
  ready(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isLeftOut = false;
  }

  /** The Node is not ready. `since`: milliseconds since 1970, or undefined for now. */
  notReady(since: number | undefined, { clock, leaveOutAfter, onLeftOut }: LeavingOut): void {
    if (this.#cancel !== undefined) return;
    const left = leaveOutAfter - (since === undefined ? 0 : Math.max(0, clock.wall() - since));
    const leaveOut = () => {
      this.#isLeftOut = true;
      onLeftOut();
    };
    this.#isLeftOut = left <= 0;
    this.#cancel = left <= 0 ? () => undefined : clock.after(left, leaveOut);
  }
}

/** The nodes whose kernels count, in the order in which they began to count. */
export class TrackedNodes {
  #nodes: TrackedNode[] = [];
  #serials = 0;

  get all(): readonly TrackedNode[] {
    return this.#nodes;
  }

  /** The serial of the last node; 0 without nodes. */
  get last(): number {
    return this.#nodes.at(-1)?.serial ?? 0;
  }

  /** Adds the node at the end when it begins to count, and removes it when it no longer counts. */
  update(node: TrackedNode): void {
    if (node.counts && node.serial === 0) {
      this.#serials += 1;
      node.serial = this.#serials;
      this.#nodes.push(node);
    } else if (!node.counts && node.serial !== 0) {
      node.serial = 0;
      this.#nodes = this.#nodes.filter((each) => each !== node);
    }
  }

  /**
   * The first node after a serial that lacks what is needed, or undefined. Nodes that are left out are skipped; those of them that lack
   * something are passed to `leftOut`.
   */
  firstBehind(need: Need, after: number, leftOut: (node: TrackedNode) => void): TrackedNode | undefined {
    for (let i = this.#indexAfter(after); i < this.#nodes.length; i += 1) {
      const node = this.#nodes[i];
      if (node === undefined || hasNeeded(node, need)) continue;
      if (!node.isLeftOut) return node;
      leftOut(node);
    }
    return undefined;
  }

  #indexAfter(serial: number): number {
    let low = 0;
    let high = this.#nodes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#nodes[middle]?.serial ?? 0) > serial) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

export function hasNeeded({ agent }: TrackedNode, need: Need): boolean {
  return agent.hasMarks(need.versions) && agent.exception(need) === undefined;
}

/** undefined when the kernel has all that is needed. `since`: when the fleet saw the first change that the kernel lacks. */
export function lagOf(
  node: TrackedNode,
  need: Need,
  programming: Pick<ProgrammingLatency, 'behindSince'>,
): Lag | undefined {
  const { agent } = node;
  if (agent.hasMarks(need.versions)) return agent.exception(need);
  return { why: obstacleOf(node) ?? slownessOf(node), since: programming.behindSince(agent.marks) };
}

/** The reason why nothing newer comes from a node; undefined when it is connected and writes. */
export function obstacleOf({ address, link, agent }: TrackedNode): string | undefined {
  if (address === undefined) return 'its agent is gone, and the rules that it wrote still stand';
  switch (link.state) {
    case 'connecting':
      return 'the fleet has no connection to its agent yet';
    case 'failed':
      return `no connection to its agent: ${link.why}`;
    case 'too old':
      return 'its agent is too old: it has no /programmed/live';
    case 'open':
      return agent.stuck === undefined ? undefined : `its agent cannot write: ${agent.stuck.why}`;
  }
}

/** The reason why a node without an obstacle is behind. */
export function slownessOf({ agent }: TrackedNode): string {
  const { services, slices } = agent.marks;
  if (services === '' || slices === '') return 'its agent has written nothing since it started';
  return 'its agent has not written the change yet';
}

/** The versions that must be in a node's kernel. */
export interface Need {
  readonly versions: Versions;
  /** None of these may be behind. */
  readonly services: readonly ServiceKey[];
  /** No Service of this namespace may be behind; "" means of any namespace, undefined of none. */
  readonly namespace?: string | undefined;
  /** None of these may be unserved. */
  readonly families: readonly Family[];
}

/** The reason why a node lacks something; `since` in milliseconds of the clock, undefined when unknown. */
export interface Lag {
  readonly why: string;
  readonly since: number | undefined;
}

/** An agent names at most so many Services that are behind. When it names as many, there may be more. */
const MAX_BEHIND = 1000;

/** Limit for the Services that an agent names as behind. A right agent names at most 1,000, and a broken one must not fill the memory. */
export const MAX_NAMED = 2000;

/** The stream does not come from an agent, or breaks its form. The message is a clause. */
export class NotAnEvent extends Error {}

/** A restore of the API server's store that the fleet saw. */
export interface Restore {
  /** The newest version that it had read before. */
  readonly from: string;
  /** The version that it reads now, which is older. */
  readonly to: string;
  /** When it read `from`, in milliseconds of its clock. The restore came later. */
  readonly readAt: number;
  /** When it read `to`. */
  readonly seenAt: number;
}

/** Milliseconds after which no agent reads the store from before a restore any more: a lost connection is noticed within 45 s. */
const READS_OLD_STORE = 60_000;

/**
 * The mark of one kind. After a restore of the API server's store the fleet and the agent see it at different times, and the same version
 * means something else. An agent that has seen it begins its marks anew, lower than before. One that was behind has nothing to see: its mark
 * is one of the restored store as well, as far as anybody can know. One that came back when the restored store had reached its version sees
 * nothing either: a mark that grows later is one of the restored store.
 */
class KindMark {
  #told = '';
  /** When the marks began: with the first one, or with one that went back. */
  #since = Number.NEGATIVE_INFINITY;
  /** The last restore, while the mark is one of the store from before. */
  #restore: Restore | undefined;

  get mark(): string {
    return this.#restore === undefined ? this.#told : '';
  }

  tell(mark: string, now: number): void {
    const isAnew = this.#told === '' || !hasReached(mark, this.#told);
    const isLater = this.#restore !== undefined && now > this.#restore.seenAt + READS_OLD_STORE;
    const hasGrown = isLater && !hasReached(this.#told, mark);
    this.#told = mark;
    if (!isAnew && !hasGrown) return;
    this.#since = now;
    this.#restore = undefined;
  }

  /** A mark of the store from before counts no more, until the marks begin anew or grow long after it. */
  restored(restore: Restore): void {
    const { from, to, readAt } = restore;
    const hasSeenIt = this.#since > readAt && !hasReached(this.#told, from);
    if (!hasReached(to, this.#told) && !hasSeenIt) this.#restore = restore;
  }
}

/** The last state that an agent reported, put together from the events of its stream. */
export class AgentState {
  /** Up to which everything is in the kernel; "" where the agent has written nothing of this store. */
  marks = NO_VERSIONS;
  readonly #ofKinds: Readonly<Record<FleetKind, KindMark>> = { services: new KindMark(), slices: new KindMark() };
  /** When the agent started, in milliseconds of the fleet's clock; undefined when unknown. */
  startedAt: number | undefined;
  mode = '';
  version = '';
  stuck: Lag | undefined;
  readonly behind = new Map<ServiceKey, Lag>();
  unserved: readonly { readonly family: Family; readonly why: string }[] = [];
  health: NonNullable<ProgrammedEvent['health']> = { healthy: true, reasons: [] };
  counts: NonNullable<ProgrammedEvent['counts']> = { faults: 0, drift: 0, suspects: [] };

  /**
   * Applies an event that arrived at `now`. `isFirst`: it begins a stream, and resets what it does not name. Of its marks only the last
   * one counts here; the caller reads them one by one. Throws NotAnEvent, and changes nothing, when too many Services would be behind.
   */
  apply(event: ProgrammedEvent, now: number, isFirst: boolean): void {
    this.#mustHaveRoom(event, isFirst);
    if (isFirst) {
      this.behind.clear();
      this.unserved = [];
      this.stuck = undefined;
    }
    const { agent, marks, stuck, behind, unserved, health, counts } = event;
    if (agent !== undefined) {
      this.startedAt = now - agent.up;
      this.mode = agent.mode;
      this.version = agent.version;
    }
    const { services: ofServices, slices: ofSlices } = this.#ofKinds;
    for (const [services, slices] of marks ?? []) {
      ofServices.tell(services, now);
      ofSlices.tell(slices, now);
    }
    this.#setMarks();
    if (stuck !== undefined) this.stuck = stuck === null ? undefined : { why: stuck.why, since: now - stuck.age };
    for (const service of behind?.gone ?? []) this.behind.delete(service);
    for (const { service, why, age } of behind?.set ?? []) this.behind.set(service, { why, since: now - age });
    if (unserved !== undefined) this.unserved = unserved;
    if (health !== undefined) this.health = health;
    if (counts !== undefined) this.counts = counts;
  }

  #mustHaveRoom({ behind }: ProgrammedEvent, isFirst: boolean): void {
    if (behind === undefined) return;
    const gone = new Set(behind.gone);
    const named = new Set(behind.set?.map(({ service }) => service));
    let size = named.size;
    if (!isFirst) for (const service of this.behind.keys()) if (!gone.has(service) && !named.has(service)) size += 1;
    if (size > MAX_NAMED) throw new NotAnEvent(`it names more than ${MAX_NAMED} Services behind`);
  }

  /** The API server's versions of a kind went back. */
  restored(kind: FleetKind, restore: Restore): void {
    this.#ofKinds[kind].restored(restore);
    this.#setMarks();
  }

  #setMarks(): void {
    const { services, slices } = this.#ofKinds;
    if (services.mark === this.marks.services && slices.mark === this.marks.slices) return;
    this.marks = { services: services.mark, slices: slices.mark };
  }

  /** Whether the marks are as new as these versions; "" needs nothing of its kind. */
  hasMarks({ services, slices }: Versions): boolean {
    return isIn(services, this.marks.services) && isIn(slices, this.marks.slices);
  }

  /** A lag that the marks do not show: a Service that the kernel refuses, or a family that the agent does not write. */
  exception({ services, namespace, families }: Omit<Need, 'versions'>): Lag | undefined {
    for (const { family, why } of this.unserved) {
      if (families.includes(family)) return { why: `the agent writes no ${family}: ${why}`, since: undefined };
    }
    if (this.behind.size === 0) return undefined;
    for (const service of namespace === undefined ? services : this.behind.keys()) {
      const lag = this.behind.get(service);
      if (lag === undefined || !(namespace === undefined || isOf(service, namespace))) continue;
      return { why: `an older version of Service ${service} is in the kernel: ${lag.why}`, since: lag.since };
    }
    if (this.behind.size < MAX_BEHIND) return undefined;
    return {
      why: `older versions of ${MAX_BEHIND} Services or more are in the kernel, not all are named`,
      since: undefined,
    };
  }
}

function isIn(version: string, mark: string): boolean {
  return version === '' || hasReached(mark, version);
}

function isOf(service: ServiceKey, namespace: string): boolean {
  return namespace === '' || service.startsWith(`${namespace}/`);
}
