/** How a node looks in the map: a level has a form of its own beside its colour. Pure. */
import type { FleetNode } from '../../inspect/wire/fleet.ts';

export type NodeState = FleetNode['state'];

export const NODE_STATES: readonly NodeState[] = ['current', 'behind', 'no answer', 'no agent', 'too old', 'left out'];

/** Milliseconds behind, from which a node looks slow, and late. */
const SLOW = 1000;
export const LATE = 10_000;

export type Level =
  | 'current'
  | 'unwell'
  | 'behind'
  | 'slow'
  | 'late'
  | 'no answer'
  | 'no agent'
  | 'too old'
  | 'left out';

export interface LevelStyle {
  readonly level: Level;
  readonly state: NodeState;
  /** In the key of the map. */
  readonly name: string;
  /** A colour of the style sheet. */
  readonly colour: string;
  readonly isFilled: boolean;
  /** Lines in a box of 16 by 16, as the attribute `d` of a path has them; "": none. */
  readonly mark: string;
}

const look = (
  level: Level,
  state: NodeState,
  name: string,
  colour: string,
  mark: string,
  isFilled = true,
): LevelStyle => ({
  ...{ level, state, name, colour, mark, isFilled },
});

export const LOOKS: readonly LevelStyle[] = [
  look('current', 'current', 'current', '--cell-current', ''),
  look('unwell', 'current', 'current, not healthy', '--cell-current', 'M5 8a3 3 0 1 0 6 0a3 3 0 1 0-6 0'),
  look('behind', 'behind', 'behind for less than 1 s', '--cell-behind', 'M4 8H12'),
  look('slow', 'behind', 'behind for 1 s or longer', '--cell-slow', 'M4 6H12M4 10H12'),
  look('late', 'behind', 'behind for 10 s or longer', '--cell-late', 'M4 4.5H12M4 8H12M4 11.5H12'),
  look('no answer', 'no answer', 'no answer', '--cell-late', 'M4.5 4.5 11.5 11.5M11.5 4.5 4.5 11.5'),
  look('no agent', 'no agent', 'no agent', '--cell-late', 'M8 4.5V11.5M4.5 8H11.5', false),
  look('too old', 'too old', 'too old', '--cell-quiet', 'M4.5 11.5 11.5 4.5'),
  look('left out', 'left out', 'left out', '--cell-quiet', 'M4.5 11.5 11.5 4.5', false),
];

const BY_LEVEL = new Map(LOOKS.map((each) => [each.level, each]));

/** `lag`: milliseconds, now. */
export function lookOf(node: Pick<FleetNode, 'state' | 'healthy'>, lag: number): LevelStyle {
  const found = BY_LEVEL.get(levelOf(node, lag));
  if (found === undefined) throw new Error(`no look for a node that is ${node.state}`);
  return found;
}

function levelOf({ state, healthy }: Pick<FleetNode, 'state' | 'healthy'>, lag: number): Level {
  if (state === 'current') return healthy ? 'current' : 'unwell';
  if (state !== 'behind') return state;
  return lag >= LATE ? 'late' : lag >= SLOW ? 'slow' : 'behind';
}

/** Milliseconds since when a node is behind, some milliseconds after the message that says so. */
export function lagOf({ lag }: Pick<FleetNode, 'lag'>, passed: number): number {
  return lag > 0 ? lag + Math.max(0, passed) : 0;
}
