/** One question of `/drained` that waits: how its target stands, what nodes must have for it, and how far the look at them is. Pure. */
import type { Drained, NodeBehind } from '../inspect/wire/drained.ts';
import { API_VERSION } from '../inspect/wire/envelope.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import { hasNeeded, lackOf, type Need, type TrackedNode, type TrackedNodes } from './tracked-node.ts';
import type { DrainTarget, TargetState, Versions } from './types.ts';
import type { WallClock } from './wall-clock.ts';

export class WaitingQuestion {
  readonly target: DrainTarget;
  readonly startedAt: number;
  readonly resolve: (drained: Drained) => void;
  readonly reject: (reason: unknown) => void;
  /** Ends its timer and its signal. */
  release: () => void = () => undefined;
  standing: TargetState;
  /** Why it is not even asked for at the nodes; undefined where `need` is there. */
  why = '';
  /** undefined while the target takes new connections. */
  need: Need | undefined;
  /** A node that lacks what is needed; those before it have it. */
  witness: TrackedNode | undefined;
  /** Nodes with serials up to this one have it, or were left out. */
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
    this.standing = { services: [], families: [], endpoints: [], takes: undefined };
  }

  /** The objects changed. `shortage`: another reason why it is not drained. */
  stand(objects: FleetObjects, standing: TargetState, shortage: string | undefined): void {
    const before = this.standing;
    this.standing = standing;
    const why = standing.takes ?? shortage;
    if (why !== undefined) {
      this.why = why;
      this.need = undefined;
      this.witness = undefined;
      return;
    }
    const known = {
      services: union(before.services, standing.services),
      families: union(before.families, standing.families),
    };
    const isOther =
      this.target.kind === 'terminating' && standing.endpoints.some((each) => !before.endpoints.includes(each));
    if (this.need !== undefined && !isOther) {
      // While no Service of it was known, more was asked of the nodes: that stays.
      const families = union(this.need.families, known.families);
      if (known.services.length > 0) this.need = { ...this.need, services: known.services, families };
      return;
    }
    const versions = objects.mustHave(standing.services);
    this.need = standing.services.length > 0 ? { versions, ...known } : this.#needOfUnknown(objects, versions);
    this.#passed = 0;
    this.#leftOut = [];
    this.witness = undefined;
  }

  /** No slice has it, and none is remembered. One may have had it before the fleet's first list, in a Service that cannot be named. */
  #needOfUnknown(objects: FleetObjects, versions: Versions): Need {
    const { target } = this;
    if (target.kind === 'address') {
      const family = target.address.includes(':') ? 'IPv6' : 'IPv4';
      return { versions, services: [], namespace: '', families: [family] };
    }
    const [namespace = ''] = (target.kind === 'pod' ? target.pod : target.service).split('/');
    return { versions, services: [], namespace, families: objects.families };
  }

  /** Whether every node that counts has what is needed, but for those that are left out. Each node is looked at once, but for the witness. */
  isDone(nodes: TrackedNodes): boolean {
    const { need } = this;
    if (need === undefined) return false;
    this.witness = nodes.firstBehind(need, this.#passed, (node) => this.#leftOut.push(node));
    this.#passed = this.witness === undefined ? nodes.last : this.witness.serial - 1;
    if (this.witness !== undefined) return false;
    // One that was left out may be back.
    this.#leftOut = this.#leftOut.filter((node) => node.counts && !hasNeeded(node, need));
    this.witness = this.#leftOut.find((node) => !node.isLeftOut);
    return this.witness === undefined;
  }
}

function union<T>(a: readonly T[], b: readonly T[]): readonly T[] {
  return a.length === 0 ? b : [...new Set([...a, ...b])].sort();
}

// The answer to a question of `/drained`. Pure.

/** Nodes that an answer names of each sort. */
const NAMED = 20;

/** What a node lacks, in the form of answers; undefined: nothing. */
export function nodeBehind(
  node: TrackedNode,
  need: Need,
  programming: Pick<ProgrammingLatency, 'behindSince'>,
  wallClock: WallClock,
): NodeBehind | undefined {
  const lack = lackOf(node, need, programming);
  if (lack === undefined) return undefined;
  const { why, since } = lack;
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

/** The target is drained where it takes no new connections and no node is a witness against it. */
export function drainAnswer(
  question: WaitingQuestion,
  { nodes, programming, wallClock, now }: DrainAnswerOptions,
): Drained {
  const { target, standing, need, witness, startedAt } = question;
  const behind: NodeBehind[] = [];
  const leftOut: NodeBehind[] = [];
  let programmed = 0;
  for (const node of need === undefined ? [] : nodes) {
    // Without a witness each node had it when it was looked at, also where its agent was started again since.
    const isAsked = need !== undefined && (witness !== undefined || node.isLeftOut);
    const lack = isAsked ? nodeBehind(node, need, programming, wallClock) : undefined;
    if (lack === undefined) programmed += 1;
    else if (node.isLeftOut) leftOut.push(lack);
    else behind.push(lack);
  }
  return {
    ...{ apiVersion: API_VERSION, kind: 'Drained' },
    drained: need !== undefined && witness === undefined,
    of: textOf(target),
    services: [...(need === undefined || need.services.length === 0 ? standing : need).services],
    why: need === undefined ? `${question.why}.` : witness === undefined ? '' : behindText(behind.length),
    nodes: {
      programmed,
      ...{ behind: behind.slice(0, NAMED), behindCount: behind.length },
      ...{ leftOut: leftOut.slice(0, NAMED), leftOutCount: leftOut.length },
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
