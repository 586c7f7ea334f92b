/** The objects at an earlier moment: the present ones, with the changes undone that were not in the kernel then. */

import { breath } from '../../base/clock.ts';
import { NOTHING_GROWS, type RampsMoment } from '../../proxy/model/ramps.ts';
import { momentOf } from '../wire/envelope.ts';
import { deltaOf, type HistoryDelta, reversed } from './delta.ts';
import type { FlightLog, Marked } from './flight-log.ts';
import { ObjectStore, type PresentObjects } from './past-objects.ts';
import type { Recorder } from './recorder.ts';
import type { ChangeHead, ChangeRecord, ListsRecord, LogRecord, SyncRecord } from './records.ts';

/** The history does not reach back to this moment. */
export class BeforeHistory extends Error {
  readonly code = 'BEFORE_HISTORY';
}

/** A history, and the objects after its last change; undefined before the first sync. The recorder has both. */
export interface FlightData {
  readonly log: Pick<FlightLog, 'blocks' | 'reachesBackTo'>;
  readonly objects: PresentObjects | undefined;
}

/** A change, with the sync that wrote it; undefined while it is not in the kernel. */
export interface WrittenChange {
  readonly record: ChangeRecord | ListsRecord;
  readonly sync: SyncRecord | undefined;
}

/** Blocks that are read before the event loop runs again: at most some 20 ms. */
const BLOCKS_AT_ONCE = 4;

/** Changes that are undone before the event loop runs again: some 10 ms. */
const CHANGES_AT_ONCE = 500;

/** `moment`: milliseconds since 1970. Throws BeforeHistory. */
export async function objectsAt(recorder: FlightData, moment: number): Promise<ObjectStore> {
  return (await historySince(recorder, moment)).objects;
}

/** A change with the delta that makes it again. */
export interface RedoneChange extends ChangeHead {
  readonly type: 'change';
  readonly delta: HistoryDelta;
}

/** The objects that were in the kernel at a moment, and the changes and syncs that followed. */
export interface HistorySince {
  readonly objects: ObjectStore;
  /** The changes that were not in the kernel then, and the syncs that ended later, in order. */
  readonly records: readonly (RedoneChange | SyncRecord)[];
}

/** `moment`: milliseconds since 1970. Throws BeforeHistory. */
export async function historySince(recorder: FlightData, moment: number): Promise<HistorySince> {
  const { objects } = recorder;
  const { reachesBackTo, blocks } = recorder.log;
  if (objects === undefined || moment < reachesBackTo) throw beforeHistory(reachesBackTo);
  // The objects and the newest block are of one moment: that block grows with the next change. All else is done in portions.
  const store = ObjectStore.copyOf(objects);
  const isEnough = enoughFor(moment);
  const found: (readonly LogRecord[])[] = [];
  for (const block of blocks) {
    const records = parse(block);
    found.push(records);
    if (isEnough(records)) break;
    if (found.length % BLOCKS_AT_ONCE === 0) await breath();
  }
  const records = found.reverse().flat();
  const redone = await undoInPortions(store, notWrittenAt(timeline(records), moment));
  store.growing = growingAt(records, moment) ?? (records.some(hasGrowing) ? NOTHING_GROWS : objects.growing);
  const later = records.flatMap((record) => {
    if (record.type === 'sync') return record.endedAt > moment ? record : [];
    return redone.get(record.number) ?? [];
  });
  return { objects: store, records: later };
}

/** The endpoints whose weights grew at a moment; undefined where no record up to then tells. */
function growingAt(records: readonly LogRecord[], moment: number): RampsMoment | undefined {
  return records.filter(hasGrowing).findLast(({ endedAt }) => endedAt <= moment)?.growing;
}

function hasGrowing(record: LogRecord): record is SyncRecord {
  return record.type === 'sync' && record.growing !== undefined;
}

/** `flag`: the agent's flag that keeps more of the history. */
export function beforeHistory(reachesBackTo: number, flag = '--record-dir'): BeforeHistory {
  return new BeforeHistory(`history reaches back to ${momentOf(reachesBackTo)}; ${flag} keeps more of it`);
}

/** The objects that are in the kernel now, and the changes that are not, the oldest first. */
export function writtenState(recorder: Recorder): { readonly written: ObjectStore; readonly pending: RedoneChange[] } {
  const { objects, oldestPending } = recorder;
  if (objects === undefined) throw new Error('no sync has taken any objects yet');
  const written = ObjectStore.copyOf(objects);
  const isEnough = (records: readonly LogRecord[]) => records.some((record) => isBefore(record, oldestPending));
  const changes = notWrittenAt(timeline(recordsBackTo(recorder, isEnough)), Number.POSITIVE_INFINITY);
  return { written, pending: undo(written, changes) };
}

/** `undo` in portions, between which the event loop runs. Returns the changes by their numbers. */
async function undoInPortions(
  objects: ObjectStore,
  changes: readonly ChangeRecord[],
): Promise<ReadonlyMap<number, RedoneChange>> {
  const redone = new Map<number, RedoneChange>();
  for (let end = changes.length; end > 0; end -= CHANGES_AT_ONCE) {
    const portion = undo(objects, changes.slice(Math.max(0, end - CHANGES_AT_ONCE), end));
    for (const change of portion) redone.set(change.number, change);
    await breath();
  }
  return redone;
}

/** Undoes changes in these objects. Returns them in the same order, with the deltas that make them again. */
function undo(objects: ObjectStore, changes: readonly ChangeRecord[]): RedoneChange[] {
  const redone = changes.toReversed().map(({ number, at, service, version, undo }): RedoneChange => {
    const delta = deltaOf(reversed(objects.apply(undo)));
    return { type: 'change', number, at, service, version, delta };
  });
  return redone.reverse();
}

/** Assigns to each change the sync that wrote it: the first one that took it and was not refused its Service. */
export function timeline(records: readonly LogRecord[]): WrittenChange[] {
  const changes: { record: ChangeRecord | ListsRecord; sync: SyncRecord | undefined }[] = [];
  let pending: typeof changes = [];
  for (const record of records) {
    if (record.type !== 'sync') {
      const change = { record, sync: undefined };
      changes.push(change);
      if (record.type === 'change' || record.wasWritten !== true) pending.push(change);
    } else if (record.hasWritten) {
      const without = new Set(record.without);
      const isLeft = ({ record: { number, service } }: WrittenChange) => number > record.upTo || without.has(service);
      for (const change of pending) if (!isLeft(change)) change.sync = record;
      pending = pending.filter(isLeft);
    }
  }
  return changes;
}

/** The changes to undo, the oldest first: those that were not in the kernel, and all later ones of the same objects. */
function notWrittenAt(changes: readonly WrittenChange[], moment: number): ChangeRecord[] {
  const found: ChangeRecord[] = [];
  const objects = new Set<string>();
  for (const { record, sync } of changes) {
    if (record.type === 'lists') continue;
    const object = `${record.undo.kind} ${record.undo.key}`;
    const isWritten = sync !== undefined && sync.endedAt <= moment;
    if (isWritten && !objects.has(object)) continue;
    objects.add(object);
    found.push(record);
  }
  return found;
}

/** Returns a test for blocks, from the newest on: whether the blocks until now have all records that the moment needs. */
function enoughFor(moment: number): (records: readonly LogRecord[]) => boolean {
  let oldest: number | undefined;
  return (records) => {
    for (const record of records.toReversed()) {
      if (oldest !== undefined && isBefore(record, oldest)) return true;
      const isDone = record.type === 'sync' && record.hasWritten && record.endedAt <= moment;
      if (isDone) oldest ??= record.oldest;
    }
    return false;
  };
}

/** Lists cannot be undone, so no record before them counts. */
function isBefore(record: LogRecord, number: number): boolean {
  return record.type === 'lists' || (record.type === 'change' && record.number < number);
}

/** The records from the newest block back to the first that is enough, the oldest first. */
function recordsBackTo(recorder: FlightData, isEnough: (records: readonly LogRecord[]) => boolean): LogRecord[] {
  const found: (readonly LogRecord[])[] = [];
  for (const block of recorder.log.blocks) {
    const records = parse(block);
    found.push(records);
    if (isEnough(records)) break;
  }
  return found.reverse().flat();
}

function parse(block: Marked<object>): readonly LogRecord[] {
  return block.lines().map((line): LogRecord => JSON.parse(line));
}
