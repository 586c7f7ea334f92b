/** Makes the events of the agent's stream (`programmedEventSchema`): the whole state, or the changes since a former state. Pure. */
import type { ProgrammedEvent } from '../../inspect/wire/programmed.ts';
import type { Lag, MarkHistory, Moved } from '../../proxy/ledger/marks.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';

/** The state at a moment. Values that did not change are identical, and maps are never modified, so that `===` finds changes. */
export interface ProgrammedSnapshot {
  readonly agent: Omit<NonNullable<ProgrammedEvent['agent']>, 'up'>;
  /** Start of the agent on the clock of the marks. */
  readonly startedAt: number;
  readonly history: MarkHistory;
  /** The number of the latest marks, and the marks. */
  readonly number: number;
  readonly latest: Moved | undefined;
  readonly stuck: Lag | undefined;
  readonly behind: ReadonlyMap<ServiceKey, Lag>;
  readonly unserved: NonNullable<ProgrammedEvent['unserved']>;
  readonly health: NonNullable<ProgrammedEvent['health']>;
  readonly counts: NonNullable<ProgrammedEvent['counts']>;
}

/** Limit of marks in an event. Of more marks some are left out, and then changes seem to reach the kernel a little later than they did. */
export const MAX_MARKS = 100;
/** Limit of characters of a reason. */
const MAX_REASON_LENGTH = 300;

/** The event with the whole state. `now` is on the clock of the marks. */
export function wholeEvent(snapshot: ProgrammedSnapshot, now: number): ProgrammedEvent {
  const { agent, startedAt, latest, stuck, behind, unserved, health, counts } = snapshot;
  return {
    agent: { ...agent, up: ageOf(startedAt, now) },
    marks: latest === undefined ? [['', '', 0]] : [markOf(latest, now)],
    stuck: stuckOf(stuck, now),
    behind: { set: [...behind].map((one) => behindOf(one, now)), gone: [] },
    unserved,
    health,
    counts,
  };
}

/** The event with the changes since `before`; undefined without a change. */
export function changedEvent(
  before: ProgrammedSnapshot,
  snapshot: ProgrammedSnapshot,
  now: number,
): ProgrammedEvent | undefined {
  const { agent, startedAt, stuck, behind, unserved, health, counts } = snapshot;
  const marks = marksSince(before, snapshot, now);
  const event: ProgrammedEvent = {
    ...(isSame(agent, before.agent) ? {} : { agent: { ...agent, up: ageOf(startedAt, now) } }),
    ...(marks.length === 0 ? {} : { marks }),
    ...(stuck === before.stuck ? {} : { stuck: stuckOf(stuck, now) }),
    ...(behind === before.behind ? {} : { behind: behindSince(before.behind, behind, now) }),
    ...(isSame(unserved, before.unserved) ? {} : { unserved }),
    ...(isSame(health, before.health) ? {} : { health }),
    ...(isSame(counts, before.counts) ? {} : { counts }),
  };
  return Object.keys(event).length === 0 ? undefined : event;
}

function marksSince(
  before: ProgrammedSnapshot,
  { history, latest, number }: ProgrammedSnapshot,
  now: number,
): NonNullable<ProgrammedEvent['marks']> {
  if (latest === before.latest) return [];
  // Marks of another source are invalid, and this one has none yet.
  if (latest === undefined) return [['', '', 0]];
  const moves = history === before.history ? history.since(Math.min(before.number, number - 1)) : [latest];
  const each = Math.ceil(moves.length / MAX_MARKS);
  const last = moves.length - 1;
  return moves.filter((_, i) => (last - i) % each === 0).map((moved) => markOf(moved, now));
}

function behindSince(
  before: ProgrammedSnapshot['behind'],
  behind: ProgrammedSnapshot['behind'],
  now: number,
): NonNullable<ProgrammedEvent['behind']> {
  return {
    set: [...behind].filter(([service, lag]) => before.get(service) !== lag).map((one) => behindOf(one, now)),
    gone: [...before.keys()].filter((service) => !behind.has(service)),
  };
}

function markOf({ services, slices, at }: Moved, now: number): [string, string, number] {
  return [services, slices, ageOf(at, now)];
}

function stuckOf(stuck: Lag | undefined, now: number): NonNullable<ProgrammedEvent['stuck']> | null {
  return stuck === undefined ? null : { why: cut(stuck.why), age: ageOf(stuck.since, now) };
}

function behindOf([service, { why, since }]: readonly [ServiceKey, Lag], now: number) {
  return { service, why: cut(why), age: ageOf(since, now) };
}

/** The age, rounded to a tenth of a millisecond. */
function ageOf(at: number, now: number): number {
  return Math.round(Math.max(0, now - at) * 10) / 10;
}

function cut(text: string): string {
  return text.length <= MAX_REASON_LENGTH ? text : `${text.slice(0, MAX_REASON_LENGTH - 1)}…`;
}

/** Plain data whose fields are in the same order. */
function isSame(a: object, b: object): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
