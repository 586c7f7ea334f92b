/** The difference between two messages of the fleet's `/live`, and how a reader applies it. Pure. */
import type { FleetLive, FleetNode } from './fleet.ts';

/** Milliseconds that the page of the fleet looks back. */
export const FLEET_RECENT = 3_600_000;
/** Milliseconds by which the growth of a lag may differ from the time that passed. */
const LAG_TOLERANCE_MS = 50;

export type FleetLiveDelta = Partial<FleetLive>;

/**
 * The fields that differ; of `nodes` and `minutes` the entries that are new or changed, and in `gone` the names of nodes that are no
 * longer there. A node that is behind, and of which only the lag grew with the time, is left out, because a reader extrapolates it.
 */
export function fleetDelta(before: FleetLive, now: FleetLive): FleetLiveDelta {
  const { nodes, gone: _, minutes, ...fields } = now;
  const passed = passedBetween(before, now);
  const known = new Map(before.nodes.map((node) => [node.name, node]));
  const changed = nodes.filter((node) => !isSameNode(known.get(node.name), node, passed));
  for (const { name } of nodes) known.delete(name);
  const slots = new Map(before.minutes.map((minute) => [minute.at, minute]));
  const newMinutes = minutes.filter((minute) => !isSame(minute, slots.get(minute.at)));
  return {
    ...Object.fromEntries(Object.entries(fields).filter(([name, value]) => !isSame(value, Reflect.get(before, name)))),
    ...(changed.length === 0 ? {} : { nodes: changed }),
    ...(known.size === 0 ? {} : { gone: [...known.keys()] }),
    ...(newMinutes.length === 0 ? {} : { minutes: newMinutes }),
  };
}

/** The message after a change: nodes by name, lags extrapolated. Minutes older than an hour are dropped. */
export function withFleetDelta(before: FleetLive, delta: FleetLiveDelta): FleetLive {
  const now = { ...before, ...delta };
  const since = Date.parse(now.at) - FLEET_RECENT;
  const minutes = new Map([...before.minutes, ...(delta.minutes ?? [])].map((minute) => [minute.at, minute]));
  return {
    ...now,
    nodes: nodesAfter(before, delta, passedBetween(before, now)),
    gone: [],
    minutes: [...minutes.values()].filter(({ at }) => Date.parse(at) > since).sort((a, b) => compare(a.at, b.at)),
  };
}

function nodesAfter(before: FleetLive, delta: FleetLiveDelta, passed: number): FleetNode[] {
  const changed = new Map((delta.nodes ?? []).map((node) => [node.name, node]));
  const gone = new Set(delta.gone ?? []);
  const stay = before.nodes.filter(({ name }) => changed.has(name) || !gone.has(name));
  const nodes = stay.map((node) => {
    const newer = changed.get(node.name);
    changed.delete(node.name);
    return newer ?? (node.lag > 0 ? { ...node, lag: node.lag + passed } : node);
  });
  if (changed.size === 0) return nodes;
  return [...nodes, ...changed.values()].sort((a, b) => compare(a.name, b.name));
}

/** Fields that are compared as they are. */
const PLAIN = ['state', 'why', 'mode', 'version', 'healthy', 'drift', 'faults', 'behind'] as const;

/** 5,000 of them are compared several times a second. */
function isSameNode(before: FleetNode | undefined, now: FleetNode, passed: number): boolean {
  if (before === undefined || !isSameLag(before.lag, now.lag, passed)) return false;
  if (before === now) return true;
  return PLAIN.every((field) => before[field] === now[field]) && isSame(before.reasons, now.reasons);
}

function isSameLag(before: number, now: number, passed: number): boolean {
  if (before === 0 || now === 0) return before === now;
  return Math.abs(now - before - passed) <= LAG_TOLERANCE_MS;
}

function passedBetween(before: FleetLive, now: FleetLive): number {
  return Math.max(0, Date.parse(now.at) - Date.parse(before.at));
}

function isSame(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
