/** Whether a node's kernel has what is needed, and why it has not. Pure. */
import type { Lack, Need } from './agent-state.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import type { TrackedNode } from './tracked-node.ts';

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
