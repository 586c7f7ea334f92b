/** One question of `/drained` that waits: the state of its target, the versions that nodes must have for it, and its answer. Pure. */
import type { Drained, NodeBehind } from '../inspect/wire/drained.ts';
import { API_VERSION } from '../inspect/wire/envelope.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import { hasNeeded, lagOf, type Need, type TrackedNode, type TrackedNodes } from './tracked-node.ts';
import type { DrainTarget, TargetState, Versions } from './types.ts';
import type { WallClock } from './wall-clock.ts';

export class WaitingQuestion {
  readonly target: DrainTarget;
  readonly startedAt: number;
  readonly resolve: (drained: Drained) => void;
  readonly reject: (reason: unknown) => void;
  /** Ends its timer and its signal. */
  release: () => void = () => undefined;
  state: TargetState;
  /** The reason why no node is checked yet; without meaning once `need` is set. */
  why = '';
  /** undefined while the target takes new connections. */
  need: Need | undefined;
  /** The first node that lacks something of `need`. */
  blockingNode: TrackedNode | undefined;
  /** Nodes with serials up to this one have what is needed, or were left out. */
  #passed = 0;
  #leftOut: TrackedNode[] = [];

  constructor(
    target: DrainTarget,
    startedAt: number,
    { resolve, reject }: Pick<PromiseWithResolvers<Drained>, 'resolve' | 'reject'>,
  ) {
    this.target = target;
    this.startedAt = startedAt;
    this.resolve = resolve;
    this.reject = reject;
    this.state = { services: [], families: [], endpoints: [], takes: undefined };
  }

  /** After a change of objects. `shortage`: another reason why the target is not drained. */
  update(objects: FleetObjects, state: TargetState, shortage: string | undefined): void {
    const before = this.state;
    this.state = state;
    const why = state.takes ?? shortage;
    if (why !== undefined) {
      this.why = why;
      this.need = undefined;
      this.blockingNode = undefined;
      return;
    }
    const known = {
      services: union(before.services, state.services),
      families: union(before.families, state.families),
    };
    const had = new Set(before.endpoints);
    const isOther = this.target.kind === 'terminating' && state.endpoints.some((each) => !had.has(each));
    if (this.need !== undefined && !isOther) {
      // Without a known Service the nodes had to have more. That requirement stays.
      const families = union(this.need.families, known.families);
      if (known.services.length > 0) this.need = { ...this.need, services: known.services, families };
      return;
    }
    const versions = objects.mustHave(state.services);
    this.need = state.services.length > 0 ? { versions, ...known } : this.#needOfUnknown(objects, versions);
    this.#passed = 0;
    this.#leftOut = [];
    this.blockingNode = undefined;
  }

  /** For a target in no slice, and in none of the last minutes: a Service that cannot be named may have had it before the first list. */
  #needOfUnknown(objects: FleetObjects, versions: Versions): Need {
    const { target } = this;
    if (target.kind === 'address') {
      const family = target.address.includes(':') ? 'IPv6' : 'IPv4';
      return { versions, services: [], namespace: '', families: [family] };
    }
    const [namespace = ''] = (target.kind === 'pod' ? target.pod : target.service).split('/');
    return { versions, services: [], namespace, families: objects.families };
  }

  /** Whether every node that counts has what is needed, but for those that are left out. Each node is looked at once, but for the blocking node. */
  isDone(nodes: TrackedNodes): boolean {
    const { need } = this;
    if (need === undefined) return false;
    this.blockingNode = nodes.firstBehind(need, this.#passed, (node) => this.#leftOut.push(node));
    this.#passed = this.blockingNode === undefined ? nodes.last : this.blockingNode.serial - 1;
    if (this.blockingNode !== undefined) return false;
    // One that was left out may be back.
    this.#leftOut = this.#leftOut.filter((node) => node.counts && !hasNeeded(node, need));
    this.blockingNode = this.#leftOut.find((node) => !node.isLeftOut);
    return this.blockingNode === undefined;
  }
}

function union<T>(a: readonly T[], b: readonly T[]): readonly T[] {
  return a.length === 0 ? b : [...new Set([...a, ...b])].sort();
}

/** An answer names at most so many nodes that are behind, and so many that are left out. */
const MAX_NAMED_NODES = 20;

/** The lag of a node in the form of answers; undefined when the node has all that is needed. */
export function nodeBehind(
  node: TrackedNode,
  need: Need,
  programming: Pick<ProgrammingLatency, 'behindSince'>,
  wallClock: WallClock,
): NodeBehind | undefined {
  const lag = lagOf(node, need, programming);
  if (lag === undefined) return undefined;
  const { why, since } = lag;
  return { node: node.name, since: since === undefined ? null : wallClock.of(since), why };
}

interface DrainAnswerOptions {
  /** The nodes that count. */
  readonly nodes: readonly TrackedNode[];
  readonly programming: Pick<ProgrammingLatency, 'behindSince'>;
  readonly wallClock: WallClock;
  /** Milliseconds of the clock. */
  readonly now: number;
}

/** The target is drained when it takes no new connections and no node blocks it. */
export function drainAnswer(
  question: WaitingQuestion,
  { nodes, programming, wallClock, now }: DrainAnswerOptions,
): Drained {
  const { target, state, need, blockingNode, startedAt } = question;
  const behind: NodeBehind[] = [];
  const leftOut: NodeBehind[] = [];
  let programmed = 0;
  for (const node of need === undefined ? [] : nodes) {
    // Without a blocking node each node had the versions when it was checked, even if its agent was started again since.
    const isAsked = need !== undefined && (blockingNode !== undefined || node.isLeftOut);
    const lag = isAsked ? nodeBehind(node, need, programming, wallClock) : undefined;
    if (lag === undefined) programmed += 1;
    else if (node.isLeftOut) leftOut.push(lag);
    else behind.push(lag);
  }
  return {
    ...{ apiVersion: API_VERSION, kind: 'Drained' },
    drained: need !== undefined && blockingNode === undefined,
    of: textOf(target),
    services: [...(need === undefined || need.services.length === 0 ? state : need).services],
    why: need === undefined ? `${question.why}.` : blockingNode === undefined ? '' : behindText(behind.length),
    nodes: {
      programmed,
      ...{ behind: behind.slice(0, MAX_NAMED_NODES), behindCount: behind.length },
      ...{ leftOut: leftOut.slice(0, MAX_NAMED_NODES), leftOutCount: leftOut.length },
    },
    waited: now - startedAt,
  };
}

function behindText(count: number): string {
  return `${count === 1 ? '1 node' : `${count} nodes`} may still send new connections to it.`;
}

function textOf(target: DrainTarget): string {
  if (target.kind === 'pod') return `Pod ${target.pod}`;
  if (target.kind === 'address') return target.address;
  return `endpoints of Service ${target.service} on Node ${target.node}`;
}
