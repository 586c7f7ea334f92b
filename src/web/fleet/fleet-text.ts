/** Sentences, lists and signs of the fleet's page, and the look of a node in its map. Pure. */
import type { FleetLive, FleetNode } from '../../inspect/wire/fleet.ts';
import {
  clockTime,
  countText,
  listText,
  millisecondsText,
  numberText,
  timeBetween,
} from '../../inspect/wire/format.ts';
import type { SignKind } from '../page-text.ts';

export type NodeState = FleetNode['state'];

export const NODE_STATES: readonly NodeState[] = ['current', 'behind', 'no answer', 'no agent', 'too old', 'left out'];

/** A node that is behind for this time looks slow. */
const SLOW_MS = 1000;
/** A node that is behind for this time looks late. */
const LATE_MS = 10_000;

type Level = 'current' | 'unwell' | 'behind' | 'slow' | 'late' | 'no answer' | 'no agent' | 'too old' | 'left out';

/** Each level has its own shape beside its colour. */
export interface LevelStyle {
  readonly level: Level;
  readonly state: NodeState;
  /** The text in the key of the map. */
  readonly name: string;
  /** The name of a colour of the style sheet. */
  readonly colour: string;
  readonly isFilled: boolean;
  /** Lines in a box of 16 by 16, in the form of the attribute `d` of a path; "" for none. */
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
  return lag >= LATE_MS ? 'late' : lag >= SLOW_MS ? 'slow' : 'behind';
}

/** The lag of a node now. `passed`: milliseconds since the message that has its lag. */
export function lagOf({ lag }: Pick<FleetNode, 'lag'>, passed: number): number {
  return lag > 0 ? lag + Math.max(0, passed) : 0;
}

/** The number of nodes in each state. */
export function countsOf(nodes: readonly FleetNode[]): ReadonlyMap<NodeState, number> {
  const counts = new Map<NodeState, number>(NODE_STATES.map((state) => [state, 0]));
  for (const { state } of nodes) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}

/** A short lag is normal, because changes travel. `passed`: milliseconds since the message. */
export function signOfFleet(nodes: readonly FleetNode[], passed: number): SignKind {
  if (nodes.length === 0) return 'waiting';
  const isWell = (node: FleetNode) =>
    node.healthy && node.behind === 0 && (node.state === 'current' || isBrief(node, passed));
  if (nodes.every(isWell)) return 'ok';
  return nodes.some((node) => node.state === 'current' || isBrief(node, passed)) ? 'warn' : 'bad';
}

function isBrief(node: FleetNode, passed: number): boolean {
  return node.state === 'behind' && lagOf(node, passed) < LATE_MS;
}

export function signOfNode(state: NodeState, lag: number): SignKind {
  if (state === 'behind') return lag >= LATE_MS ? 'bad' : 'warn';
  const signs = { current: 'ok', 'no answer': 'bad', 'no agent': 'bad', 'too old': 'none', 'left out': 'off' } as const;
  return signs[state];
}

/** `behind for 3 s`, `no answer for 2 min`, `current` */
export function stateText(state: NodeState, lag: number): string {
  return lag > 0 ? `${state} for ${lagText(lag)}` : state;
}

/** `40 ms`, `3.1 s`, `2 min` */
export function lagText(lag: number): string {
  return lag < 60_000 ? millisecondsText(lag) : timeBetween(new Date(0).toISOString(), new Date(lag).toISOString());
}

/** The text of a cell for screen readers. */
export function nodeText(node: FleetNode, passed: number): string {
  const parts = [stateText(node.state, lagOf(node, passed)), node.why, ...(node.healthy ? [] : node.reasons)];
  return `${node.name}: ${parts.filter((part) => part !== '').join('; ')}`;
}

/** Nodes that are not current, those with the longest lag first. Agents that are too old, and nodes that are left out, come last. */
export function behindOf(nodes: readonly FleetNode[], passed: number): FleetNode[] {
  const rank = ({ state }: FleetNode) => (state === 'left out' ? 2 : state === 'too old' ? 1 : 0);
  return nodes
    .filter(({ state }) => state !== 'current')
    .sort((a, b) => rank(a) - rank(b) || lagOf(b, passed) - lagOf(a, passed));
}

/** The text for a fleet without nodes that are behind. */
export function noneBehindText(nodes: readonly FleetNode[]): string {
  return nodes.length === 0 ? 'No node is known yet.' : 'Every node has every change in its kernel.';
}

/** Nodes that are not healthy, or have refused Services, drift or faults; the worst first. */
export function troubledOf(nodes: readonly FleetNode[]): FleetNode[] {
  return nodes
    .filter(({ healthy, behind, faults, drift }) => !healthy || behind + faults + drift > 0)
    .sort(
      (a, b) =>
        Number(a.healthy) - Number(b.healthy) || b.behind - a.behind || b.drift - a.drift || b.faults - a.faults,
    );
}

/** The list of troubled nodes in one sentence. */
export function troubleText(nodes: readonly FleetNode[]): string {
  const sick = nodes.filter(({ healthy }) => !healthy).length;
  const part = (field: 'behind' | 'drift' | 'faults', words: (sum: number) => string) => {
    const having = nodes.filter((node) => node[field] > 0);
    const sum = having.reduce((before, node) => before + node[field], 0);
    return sum === 0 ? [] : [`${words(sum)} on ${countText(having.length, 'node')}`];
  };
  const parts = [
    ...(sick === 0 ? [] : [`${countText(sick, 'node')} not healthy`]),
    ...part('behind', (sum) => `${countText(sum, 'Service')} refused`),
    ...part('drift', (sum) => `${countText(sum, 'change')} by other programs`),
    ...part('faults', (sum) => countText(sum, 'fault of objects', 'faults of objects')),
  ];
  return parts.length === 0 ? 'No node reports a fault or a change by another program.' : `${listText(parts)}.`;
}

interface AgentKind {
  readonly mode: string;
  readonly version: string;
  readonly count: number;
}

/** The pairs of mode and version, the most frequent first. */
export function kindsOf(nodes: readonly FleetNode[]): AgentKind[] {
  const groups = Map.groupBy(nodes, ({ mode, version }) => JSON.stringify([mode, version]));
  return [...groups.values()]
    .map((group) => ({ mode: group[0]?.mode ?? '', version: group[0]?.version ?? '', count: group.length }))
    .sort((a, b) => b.count - a.count || (`${a.mode} ${a.version}` < `${b.mode} ${b.version}` ? -1 : 1));
}

/** The kinds that differ between nodes, or "". Unknown modes and versions do not count. */
export function mixedText(kinds: readonly AgentKind[]): string {
  const modes = new Set(kinds.map(({ mode }) => mode).filter((mode) => mode !== ''));
  const versions = new Set(kinds.map(({ version }) => version).filter((version) => version !== ''));
  const parts = [
    ...(modes.size > 1 ? [`${modes.size} modes`] : []),
    ...(versions.size > 1 ? [`${versions.size} versions`] : []),
  ];
  return listText(parts);
}

/** The chart in one sentence. `now`: a moment by the fleet's clock. */
export function programmingText(latency: FleetLive['latency'], now: string): string {
  if (latency === null || latency.count === 0) return 'No change came to a node in the last hour.';
  const { count, p50, p99, most, since } = latency;
  const from = `since ${clockTime(since, now).slice(0, -4)}`;
  const times = `half within ${millisecondsText(p50)}, 99 % within ${millisecondsText(p99)}, at most ${millisecondsText(most)}`;
  return `${numberText(count)} times a change came into the kernel of a node ${from}: ${times} after the fleet saw the change.`;
}

/** Both in milliseconds since 1970, by this browser's clock. */
export function fleetGoneText(heardAt: number, now: number): string {
  if (heardAt === 0) return 'The fleet does not answer.';
  const [at, to] = [new Date(heardAt).toISOString(), new Date(now).toISOString()];
  return `The connection to the fleet is lost: it was last heard at ${clockTime(at, at).slice(0, 8)}, ${timeBetween(at, to)} ago. You see the nodes as they were then. The nodes serve their Services without it.`;
}
