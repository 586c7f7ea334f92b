/** One node of the fleet: its Node object, the place of its agent, the connection to it, and what the agent said. Pure. */
import type { Address, Cidr, Family } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { nodeStates } from '../inspect/wire/fleet.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { hasReached } from '../proxy/model/resource-version.ts';
import type { ProgrammingLatency, Tracked } from './programming-latency.ts';
import type { FleetKind, Versions } from './types.ts';

export type NodeState = (typeof nodeStates)[number];

/** The used part of a Node object. */
export interface NodeObject {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Its condition Ready is True. */
  readonly isReady: boolean;
  /** Time of the last change of that condition, in milliseconds since 1970; 0 when it is not known. */
  readonly readySince: number;
}

/** Where an agent answers. */
export interface AgentPlace {
  readonly address: Address;
  readonly port: number;
}

/** The connection to an agent. `why` is a sentence without its end, such as an error. */
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
  place: AgentPlace | undefined;
  link: Link = { state: 'connecting' };
  /** Since when the connection is in that state, in milliseconds of the clock. */
  linkSince: number;
  /** undefined while it does not count for latencies. */
  tracked: Tracked | undefined;
  /** It has an agent's endpoint, or had one. */
  #hadPlace = false;
  /** The next event begins a stream. */
  #isFirst = true;
  /** Of the last event. */
  #heardAt = Number.POSITIVE_INFINITY;
  readonly #readiness = new Readiness();

  /** `now`: milliseconds of the clock. */
  constructor(name: string, now: number) {
    this.name = name;
    this.linkSince = now;
  }

  /** Whether its kernel counts: an agent served it, and its Node exists. */
  get counts(): boolean {
    return this.facts !== undefined && this.#hadPlace;
  }

  /** Its Node has been not ready for so long that nobody waits for it. */
  get isLeftOut(): boolean {
    return this.#readiness.isLeftOut;
  }

  setFacts(facts: NodeObject | undefined, leavingOut: LeavingOut): void {
    // The time counts from the Node's own where it was not ready already when the fleet first saw it.
    const isKnown = this.facts === undefined && facts !== undefined && facts.readySince !== 0;
    if (facts === undefined || facts.isReady) this.#readiness.ready();
    else this.#readiness.notReady(isKnown ? facts.readySince : undefined, leavingOut);
    this.facts = facts;
    // A Node that comes again under the name of one that was deleted is another.
    if (facts === undefined) this.#hadPlace = this.place !== undefined;
  }

  setPlace(place: AgentPlace | undefined): void {
    this.place = place;
    if (place !== undefined) this.#hadPlace = true;
  }

  setLink(link: Link, now: number): void {
    if (link.state === 'open') this.#isFirst = true;
    if (this.link.state !== link.state) this.linkSince = now;
    this.link = link;
  }

  /** An event that arrived at `now`. */
  take(event: ProgrammedEvent, now: number, programming: ProgrammingLatency): void {
    const before = this.agent.marks;
    this.agent.take(event, now, this.#isFirst);
    // While there was no stream, the marks moved unseen, unless it was the agent that was away.
    const isMeasured = !this.#isFirst || (this.agent.startedAt ?? 0) >= this.#heardAt;
    this.#isFirst = false;
    this.#heardAt = now;
    for (const [services, slices, age] of event.marks ?? []) {
      if (this.tracked === undefined || (services === before.services && slices === before.slices)) continue;
      programming.advance(this.tracked, { services, slices }, now - age, isMeasured);
    }
  }
}

/** Whether a Node has been not ready for so long that nobody waits for it. Pure. */
interface LeavingOut {
  readonly clock: Clock;
  /** Milliseconds for which a Node may be not ready before nobody waits for it. */
  readonly leaveOutAfter: number;
  readonly onLeftOut: () => void;
}

class Readiness {
  #isLeftOut = false;
  /** Ends the wait until it is left out; undefined: the Node is ready. */
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

  /** The Node is not ready; `since` in milliseconds since 1970, undefined: from now on. */
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

// The nodes whose kernels count, in the order in which they came to count. Pure.

export class TrackedNodes {
  #nodes: TrackedNode[] = [];
  #serials = 0;

  get all(): readonly TrackedNode[] {
    return this.#nodes;
  }

  /** The serial of the last; 0: there is none. */
  get last(): number {
    return this.#nodes.at(-1)?.serial ?? 0;
  }

  /** The node counts, or counts no more. One that comes is behind those that are there. */
  keep(node: TrackedNode): void {
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
   * The first node after a serial that must be waited for; undefined: there is none. A node that is left out is not waited for, and told
   * to `leftOut` where it lacks what is needed.
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

// Whether a node's kernel has what is needed, and why it has not. Pure.

export function hasNeeded({ agent }: TrackedNode, need: Need): boolean {
  return agent.hasMarks(need.versions) && agent.exception(need) === undefined;
}

/** What a kernel lacks; undefined: it has all that is needed. `since`: when the fleet saw the first change that it lacks. */
export function lackOf(
  node: TrackedNode,
  need: Need,
  programming: Pick<ProgrammingLatency, 'behindSince'>,
): Lack | undefined {
  const { agent } = node;
  if (agent.hasMarks(need.versions)) return agent.exception(need);
  return { why: obstacleOf(node) ?? slownessOf(node), since: programming.behindSince(agent.marks) };
}

/** Why nothing newer comes from a node; undefined: it is connected and writes. */
export function obstacleOf({ place, link, agent }: TrackedNode): string | undefined {
  if (place === undefined) return 'its agent is gone, and the rules that it wrote still stand';
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

/** Why a node is behind where nothing hinders it. */
export function slownessOf({ agent }: TrackedNode): string {
  const { services, slices } = agent.marks;
  if (services === '' || slices === '') return 'its agent has written nothing since it started';
  return 'its agent has not written the change yet';
}

// What an agent said last of itself, put together from the events of its stream. Pure.

/** What must be in a node's kernel. */
export interface Need {
  readonly versions: Versions;
  /** None of these may be behind. */
  readonly services: readonly ServiceKey[];
  /** No Service of this namespace may be behind, or none at all where it is ""; undefined: `services` are all. */
  readonly namespace?: string | undefined;
  /** None of these may be unserved. */
  readonly families: readonly Family[];
}

/** Why a node has not what is needed; `since` in milliseconds of the clock, undefined where that is not known. */
interface Lack {
  readonly why: string;
  readonly since: number | undefined;
}

/** An agent names at most so many Services that are behind: where it names as many, there may be more. */
const MAX_BEHIND = 1000;

/** Services that an agent may name as behind: it names at most 1,000 of itself, and a broken one must not fill the memory. */
export const MAX_NAMED = 2000;

/** The stream is not one of an agent, or breaks its form. The message is a clause. */
export class NotAnEvent extends Error {}

const NOTHING: Versions = { services: '', slices: '' };

export class AgentState {
  marks = NOTHING;
  /** When the agent started, in milliseconds of the fleet's clock; undefined: not known. */
  startedAt: number | undefined;
  mode = '';
  version = '';
  stuck: Lack | undefined;
  readonly behind = new Map<ServiceKey, Lack>();
  unserved: readonly { readonly family: Family; readonly why: string }[] = [];
  health: NonNullable<ProgrammedEvent['health']> = { healthy: true, reasons: [] };
  counts: NonNullable<ProgrammedEvent['counts']> = { faults: 0, drift: 0, suspects: [] };

  /**
   * Takes an event that arrived at `now`. `isFirst`: it begins a stream, and what it does not name is not so. The marks are the caller's
   * to read one by one; here the last one counts. Throws NotAnEvent, and takes nothing, where too many
   * Services would be behind.
   */
  take(event: ProgrammedEvent, now: number, isFirst: boolean): void {
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
    const last = marks?.at(-1);
    if (last !== undefined) this.marks = { services: last[0], slices: last[1] };
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

  /** The API server's versions of a kind went back: a mark that was told before says nothing. */
  forget(kind: FleetKind): void {
    this.marks = { ...this.marks, [kind]: '' };
  }

  /** Whether the marks are as new as what is needed. Nothing is needed of a kind whose version is "". */
  hasMarks({ services, slices }: Versions): boolean {
    return isIn(services, this.marks.services) && isIn(slices, this.marks.slices);
  }

  /** What lies outside the marks: a Service that the kernel refuses, or a family of which nothing is written. */
  exception({ services, namespace, families }: Omit<Need, 'versions'>): Lack | undefined {
    for (const { family, why } of this.unserved) {
      if (families.includes(family)) return { why: `the agent writes no ${family}: ${why}`, since: undefined };
    }
    if (this.behind.size === 0) return undefined;
    for (const service of namespace === undefined ? services : this.behind.keys()) {
      const lack = this.behind.get(service);
      if (lack === undefined || !(namespace === undefined || isOf(service, namespace))) continue;
      return { why: `an older version of Service ${service} is in the kernel: ${lack.why}`, since: lack.since };
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
