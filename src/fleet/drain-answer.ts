/** The answer to a question of `/drained`. Pure. */
import type { Drained, NodeBehind } from '../inspect/wire/drained.ts';
import { API_VERSION } from '../inspect/wire/envelope.ts';
import type { Need } from './agent-state.ts';
import { lackOf } from './lacks.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import type { TrackedNode } from './tracked-node.ts';
import type { DrainTarget } from './types.ts';
import type { WaitingQuestion } from './waiting-question.ts';
import type { WallClock } from './wall-clock.ts';

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

export interface DrainAnswerOptions {
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
