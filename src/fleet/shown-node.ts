/** A node as the page of the fleet shows it. Pure. */
import type { FleetNode as ShownNode } from '../inspect/wire/fleet.ts';
import { obstacleOf, slownessOf } from './lacks.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import type { NodeState, TrackedNode } from './tracked-node.ts';

/** Milliseconds by which what is shown may be late beside the pace of the agents' events: most agents sync once a second. */
const MOMENT = 3000;

/** What is behind, and since when in milliseconds of the clock. */
interface Late {
  readonly why: string;
  readonly since: number;
}

export interface ShownAt {
  /** Milliseconds of the clock. */
  readonly now: number;
  /** Milliseconds between two events of an agent. */
  readonly pace: number;
  readonly programming: Pick<ProgrammingLatency, 'behindSince'>;
}

/** The state of a node, since when it is behind (0: it is not), and why. */
export function stateOf(
  node: TrackedNode,
  { now, pace, programming }: ShownAt,
): { readonly state: NodeState; readonly lag: number; readonly why: string } {
  const since = programming.behindSince(node.agent.marks);
  // Whole seconds, so that a node that stays behind is not another one four times a second.
  const lagOf = (at: number | undefined) => (at === undefined ? 0 : Math.max(0, Math.floor((now - at) / 1000) * 1000));
  const obstacle = obstacleOf(node) ?? '';
  if (node.isLeftOut) return { state: 'left out', lag: lagOf(since), why: 'its Node is not ready' };
  if (node.place === undefined) return { state: 'no agent', lag: lagOf(since), why: obstacle };
  if (node.link.state === 'too old') return { state: 'too old', lag: lagOf(since), why: obstacle };
  if (node.link.state !== 'open') return { state: 'no answer', lag: lagOf(since), why: obstacle };
  const late = lateOf(node, since, now - pace - MOMENT);
  return late === undefined
    ? { state: 'current', lag: 0, why: '' }
    : { state: 'behind', lag: lagOf(late.since), why: late.why };
}

/** Why it is behind; undefined: it lacks nothing that the fleet saw before `moment`. */
function lateOf(node: TrackedNode, since: number | undefined, moment: number): Late | undefined {
  const { agent } = node;
  if (agent.stuck !== undefined) {
    return { why: `its agent cannot write: ${agent.stuck.why}`, since: agent.stuck.since ?? moment };
  }
  if (agent.behind.size > 0) {
    const [[service, lack] = ['', undefined]] = agent.behind;
    const sinces = [...agent.behind.values()].map((each) => each.since ?? moment);
    const more = agent.behind.size === 1 ? '' : ` and ${agent.behind.size - 1} more`;
    return {
      why: `an older version of Service ${service}${more} is in the kernel: ${lack?.why ?? ''}`,
      since: Math.min(...sinces),
    };
  }
  if (agent.marks.slices === '' && node.linkSince < moment) {
    return { why: slownessOf(node), since: node.linkSince };
  }
  if (since === undefined || since >= moment) return undefined;
  return { why: slownessOf(node), since };
}

export function shownNode(node: TrackedNode, at: ShownAt): ShownNode {
  const { agent } = node;
  return {
    name: node.name,
    ...stateOf(node, at),
    mode: agent.mode,
    version: agent.version,
    healthy: agent.health.healthy,
    reasons: agent.health.reasons,
    drift: agent.counts.drift,
    faults: agent.counts.faults,
    behind: agent.behind.size,
  };
}
