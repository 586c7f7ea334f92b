/**
 * The flight recorder: the changes of objects and the syncs that wrote them, in bounded memory. Each change has phrases for
 * people, and a delta that undoes it. So the objects at an earlier moment are the present ones with the later changes undone (`past.ts`).
 */
import type { Clock } from '../../base/clock.ts';
import type { ChangeLedger, ChangesAtEnd } from '../../proxy/ledger/change-ledger.ts';
import { ChangeNumbers, MAX_PENDING_BYTES } from '../../proxy/ledger/pending-changes.ts';
import type { SourceEvent } from '../../proxy/model/events.ts';
import type { NodeView, Service, Slice } from '../../proxy/model/objects.ts';
import { NOTHING_GROWS, type RampsMoment } from '../../proxy/model/ramps.ts';
import type { Plan } from '../../proxy/reconcile/step.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import { countText } from '../wire/format.ts';
import { phrasesOf } from './changes.ts';
import { type Change, deltaOf, reversed } from './delta.ts';
import { FlightLog } from './flight-log.ts';
import type { PresentObjects } from './past-objects.ts';
import {
  type ChangeEntry,
  isLong,
  type PlanRecord,
  planRecord,
  type SyncReason,
  type SyncRecord,
  syncRecord,
} from './records.ts';
import { SyncStatistics } from './statistics.ts';

/**
 * The recorder's limit of memory. It holds some 60,000 changes of slices of 10 endpoints, or 20,000 of 100, because they are compressed, and
 * is small beside the agent's own memory.
 */
export const MAX_RECORDER_BYTES = 8 * 1024 * 1024;

/** The input of one source of objects. */
export interface Tap {
  readonly objects: PresentObjects;
  readonly ledger: ChangeLedger;
  /** An event that changed an object. `before`: its earlier value, undefined for none. `number`: from the ledger. */
  event(event: SourceEvent, before: Service | Slice | NodeView | undefined, number: number): void;
}

interface RunningSync extends SyncReason {
  readonly at: number;
  readonly plans: (Plan | PlanRecord)[];
  readonly times: number[];
  readonly growing: RampsMoment;
}

export class Recorder {
  readonly log: FlightLog;
  readonly statistics = new SyncStatistics();
  readonly sinks: Sinks;
  readonly #clock: Clock;
  /** For the ledgers of all sources. */
  readonly numbers = new ChangeNumbers();
  #syncs = 0;
  #source: { readonly tap: Tap; isWritten: boolean } | undefined;
  #running: RunningSync | undefined;
  /** Of the last sync that was recorded. */
  #growing = NOTHING_GROWS;

  constructor(clock: Clock, maxBytes = MAX_RECORDER_BYTES) {
    this.#clock = clock;
    this.log = new FlightLog(maxBytes - this.statistics.maxBytes - MAX_PENDING_BYTES, clock.wall());
    this.sinks = new Sinks(() => {
      const source = this.#source;
      if (source === undefined || this.#running !== undefined) return undefined;
      return { objects: source.tap.objects, isWritten: source.isWritten };
    });
  }

  /** The objects of the source in use; undefined before the first sync. */
  get objects(): PresentObjects | undefined {
    return this.#source?.tap.objects;
  }

  /** The number of the oldest change that is not in the kernel; one more than the last change when all are. */
  get oldestPending(): number {
    return this.#source?.tap.ledger.pendingChanges.oldest(this.nextNumber) ?? this.nextNumber;
  }

  /** The number that the next change will have. */
  get nextNumber(): number {
    return this.numbers.last + 1;
  }

  /** Bytes that the recorder holds. */
  get bytes(): number {
    return this.log.bytes + this.statistics.bytes + (this.#source?.tap.ledger.pendingChanges.bytes ?? 0);
  }

  /** The input for a source with these objects, whose ledger takes its numbers from `numbers`. */
  tap(objects: PresentObjects, ledger: ChangeLedger): Tap {
    const tap: Tap = {
      objects,
      ledger,
      event: (event, before, number) => {
        if (this.#source?.tap === tap) this.#event(event, before, number);
      },
    };
    return tap;
  }

  /** The mode's clock. Its times during a sync are recorded, because the plans depend on them. */
  readonly modeTime = (): number => {
    const now = this.#clock.now();
    this.#running?.times.push(now);
    return now;
  };

  /**
   * A sync begins, which takes all changes until now. Called before `ChangeLedger.syncBegan`. With another tap than before, the
   * objects of its source replace the others.
   */
  syncBegan({ trigger, by }: SyncReason, tap: Tap): void {
    const at = this.#clock.wall();
    this.#running = undefined;
    if (this.#source?.tap !== tap) this.#use(tap, at);
    this.#running = { at, trigger, by, plans: [], times: [], growing: tap.objects.growing };
  }

  /** A plan of the current sync, before it is applied. */
  planned(plan: Plan): void {
    // The steps of a long plan are not needed any more, and hold all that they write.
    this.#running?.plans.push(isLong(plan) ? planRecord(plan) : plan);
  }

  /** The current sync has ended. An aborted sync has no report: the next `syncBegan` forgets it. */
  syncEnded(report: SyncReport, changes: ChangesAtEnd | undefined): void {
    const running = this.#running;
    if (running === undefined || changes === undefined) return;
    this.#running = undefined;
    const { hasWritten, without, upTo, count, services, written, oldest } = changes;
    const [now, endedAt] = [this.#clock.now(), this.#clock.wall()];
    if (hasWritten && this.#source !== undefined) this.#source.isWritten = true;
    for (const { receivedAt, service } of written) this.statistics.wrote(endedAt, now - receivedAt, service);
    const number = ++this.#syncs;
    const found = { upTo, hasWritten, without: [...without.keys()], oldest, changes: count, services };
    const { growing, ...facts } = running;
    const grown = growing === this.#growing ? {} : { growing };
    this.#growing = growing;
    const record = syncRecord(report, { ...facts, ...grown, ...found, number, endedAt });
    this.log.append(record);
    this.statistics.add(record);
    this.sinks.sync(record);
  }

  #use(tap: Tap, at: number): void {
    this.#source = { tap, isWritten: false };
    const number = this.numbers.next();
    this.log.append({ type: 'lists', number, at, service: '', version: '', what: listed(tap.objects) });
    this.sinks.restart();
  }

  #event(event: SourceEvent, before: Service | Slice | NodeView | undefined, number: number): void {
    const change = changeOf(event, before);
    if (change === undefined) return;
    const version = 'resourceVersion' in event ? (event.resourceVersion ?? '') : '';
    const head = { number, at: this.#clock.wall(), service: serviceOf(change), version };
    this.log.append({ type: 'change', ...head, what: phrasesOf(change), undo: deltaOf(reversed(change)) });
    this.sinks.change({ ...head, change });
  }
}

/** `10,000 Services` */
function listed(objects: PresentObjects): string[] {
  const lists = [countText(objects.serviceCount, 'Service'), countText(objects.slices.count, 'EndpointSlice')];
  return objects.node === undefined ? lists : [...lists, `Node ${objects.node.name}`];
}

/** undefined for an event of another kind. */
function changeOf(event: SourceEvent, before: Service | Slice | NodeView | undefined): Change | undefined {
  const { kind } = event;
  if (kind === 'service') {
    const from = before !== undefined && 'clusterIPs' in before ? before : undefined;
    return { kind: 'Service', key: event.key, from, to: event.service };
  }
  if (kind === 'slice') {
    const from = before !== undefined && 'endpoints' in before ? before : undefined;
    return { kind: 'EndpointSlice', key: event.key, from, to: event.slice };
  }
  if (kind !== 'node') return undefined;
  const from = before !== undefined && 'podCIDRs' in before ? before : undefined;
  return { kind: 'Node', key: event.key, from, to: event.node };
}

/** The Service that a change touches, "" for none. */
function serviceOf(change: Change): string {
  if (change.kind === 'Service') return change.key;
  return change.kind === 'EndpointSlice' ? ((change.to ?? change.from)?.service ?? '') : '';
}

// Sinks record more than fits into memory: files and streams.

/** A moment between two syncs. */
export interface RecordingStart {
  readonly objects: PresentObjects;
  /** The objects are in the kernel, except for changes that wait (`writtenState`). Otherwise the next sync writes all of them. */
  readonly isWritten: boolean;
}

export interface Sink {
  /** From now on all changes and syncs are passed on. Called again when another source replaces all objects. */
  begin(beginning: RecordingStart): void;
  change(entry: ChangeEntry): void;
  sync(record: SyncRecord): void;
}

class Sinks {
  readonly #sinks = new Map<Sink, 'waits' | 'begun'>();
  readonly #now: () => RecordingStart | undefined;

  /** `now`: undefined in a sync, and before the first one. */
  constructor(now: () => RecordingStart | undefined) {
    this.#now = now;
  }

  /** It begins at the next moment between two syncs. */
  add(sink: Sink): void {
    this.#sinks.set(sink, 'waits');
    this.#beginWaiting();
  }

  remove(sink: Sink): void {
    this.#sinks.delete(sink);
  }

  /** Another source has replaced all objects: each sink begins again. */
  restart(): void {
    for (const sink of this.#sinks.keys()) this.#sinks.set(sink, 'waits');
    this.#beginWaiting();
  }

  change(entry: ChangeEntry): void {
    for (const [sink, state] of this.#sinks) if (state === 'begun') sink.change(entry);
  }

  sync(record: SyncRecord): void {
    for (const [sink, state] of this.#sinks) if (state === 'begun') sink.sync(record);
    this.#beginWaiting();
  }

  #beginWaiting(): void {
    for (const [sink, state] of this.#sinks) {
      const beginning = state === 'waits' ? this.#now() : undefined;
      if (beginning === undefined) continue;
      this.#sinks.set(sink, 'begun');
      sink.begin(beginning);
    }
  }
}

/** The calls by which the agent reports to its recorder. */
export type RecorderHooks = Pick<Recorder, 'numbers' | 'tap' | 'syncBegan' | 'planned' | 'syncEnded' | 'modeTime'>;

/**
 * The recorder with a guard: a fault of the recorder must not touch the proxy that it records. After the first one, with which `onFault` is
 * called, nothing is recorded any more, because a history with a gap would be wrong.
 */
export function guarded(recorder: RecorderHooks, onFault: (error: unknown) => void): RecorderHooks {
  let isRecording = true;
  const safely = (record: () => void): void => {
    if (!isRecording) return;
    try {
      record();
    } catch (error) {
      isRecording = false;
      onFault(error);
    }
  };
  const taps = new WeakMap<Tap, Tap>();
  return {
    numbers: recorder.numbers,
    tap(objects, ledger) {
      const own = recorder.tap(objects, ledger);
      const tap: Tap = { objects, ledger, event: (event, ...more) => safely(() => own.event(event, ...more)) };
      taps.set(tap, own);
      return tap;
    },
    syncBegan: (reason, tap) => safely(() => recorder.syncBegan(reason, taps.get(tap) ?? tap)),
    planned: (plan) => safely(() => recorder.planned(plan)),
    syncEnded: (report, changes) => safely(() => recorder.syncEnded(report, changes)),
    modeTime: recorder.modeTime,
  };
}
