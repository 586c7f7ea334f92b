/** The last syncs, the last changes by other programs, and latencies: for `status`, and for the live page. */

import { Latencies, type Latency } from '../../base/latencies.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { cutText } from '../wire/format.ts';
import type { RecordedSync } from '../wire/history.ts';
import { type DriftSeen, recordedSync, type SyncRecord } from './records.ts';

const LAST_SYNCS = 20;
const LAST_DRIFTS = 50;
/** The limit of bytes for a sync or a drift, whose texts are bounded (`records.ts`). */
const BYTES = 8 * 1024;
/** The live page shows the syncs of these milliseconds, up to a limit, and latencies in slots. */
export const RECENT = 15 * 60_000;
export const MAX_RECENT = 200;
const SLOTS = { slots: 60, length: 15_000 } as const;
/** A recent sync keeps its first names and lines, cut to a number of characters. */
const MAX_NAMES = 3;
const MAX_LINES = 3;
const MAX_CHARACTERS = 200;
/** Bytes of a recent sync, and of each of its drifts, without the texts. */
const PLAIN_BYTES = 256;
/** The limit for all recent syncs together. */
const MAX_RECENT_BYTES = 160 * 1024;

/** A change that came into the kernel. */
export interface LastWritten {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** From its receipt to the end of the sync that wrote it. */
  readonly milliseconds: number;
  /** The Service that it touched; "" for none. */
  readonly service: ServiceKey | '';
}

interface RecentSync {
  readonly at: number;
  readonly sync: RecordedSync;
  readonly bytes: number;
}

export class SyncStatistics {
  readonly #latencies = new Latencies();
  readonly #slots = new Latencies(SLOTS);
  #syncs: SyncRecord[] = [];
  #recent: RecentSync[] = [];
  #recentBytes = 0;
  #drifts: DriftSeen[] = [];
  #lastWritten: LastWritten | undefined;

  /** The limit of `bytes`. */
  get maxBytes(): number {
    return this.#latencyBytes + (LAST_SYNCS + LAST_DRIFTS) * BYTES + MAX_RECENT_BYTES;
  }

  get bytes(): number {
    return this.#latencyBytes + (this.#syncs.length + this.#drifts.length) * BYTES + this.#recentBytes;
  }

  /** The latest first. */
  get lastSyncs(): readonly SyncRecord[] {
    return this.#syncs.toReversed();
  }

  /** The latest last. */
  get lastDrifts(): readonly DriftSeen[] {
    return this.#drifts;
  }

  /** undefined until the first change came into the kernel. */
  get lastWritten(): LastWritten | undefined {
    return this.#lastWritten;
  }

  /** The syncs of the last 15 minutes, at most 200, the latest last, shortened. Each call returns the same objects. */
  recentSyncs(now: number): RecordedSync[] {
    return this.#recent.filter(({ at }) => at > now - RECENT).map(({ sync }) => sync);
  }

  add(record: SyncRecord): void {
    this.#syncs = [...this.#syncs.slice(1 - LAST_SYNCS), record];
    const { at, by } = record;
    const drifts = record.drift.map((drift) => ({ ...drift, at, by }));
    this.#drifts = [...this.#drifts, ...drifts].slice(-LAST_DRIFTS);
    this.#keep(shortened(recordedSync(record)), record.at);
  }

  /** A change took these milliseconds from its receipt to the end of the sync that wrote it. `at`: milliseconds since 1970. */
  wrote(at: number, milliseconds: number, service: ServiceKey | ''): void {
    this.#latencies.add(at, milliseconds);
    this.#slots.add(at, milliseconds);
    this.#lastWritten = { at, milliseconds, service };
  }

  /** The latency of the hour before `now`, in milliseconds since 1970; undefined without a change. */
  latency(now: number): Latency | undefined {
    return this.#latencies.summary(now);
  }

  /** The latency of the 15 minutes before `now`, by slots of 15 s; slots without a change are left out. `since` is the beginning of a slot. */
  latencySlots(now: number): Latency[] {
    return this.#slots.bySlot(now);
  }

  #keep(sync: RecordedSync, at: number): void {
    const bytes = bytesOf(sync);
    this.#recent.push({ at, sync, bytes });
    this.#recentBytes += bytes;
    while (this.#recent.length > MAX_RECENT || this.#recentBytes > MAX_RECENT_BYTES) {
      this.#recentBytes -= this.#recent.shift()?.bytes ?? 0;
    }
  }

  get #latencyBytes(): number {
    return this.#latencies.bytes + this.#slots.bytes;
  }
}

function shortened(sync: RecordedSync): RecordedSync {
  const { services, drift, failed } = sync;
  const lines = (all: readonly string[]) => all.slice(0, MAX_LINES).map((line) => cutText(line, MAX_CHARACTERS));
  const first = drift.slice(0, MAX_LINES).map((each) => ({ ...each, name: cutText(each.name, MAX_CHARACTERS) }));
  return { ...sync, services: services.slice(0, MAX_NAMES), drift: first, failed: lines(failed) };
}

function bytesOf({ services, drift, failed, trigger, by }: RecordedSync): number {
  const names = drift.flatMap(({ table, name, target }) => [table, name, target]);
  return (
    PLAIN_BYTES +
    drift.length * PLAIN_BYTES +
    [trigger, by, ...services, ...names, ...failed].reduce((sum, { length }) => sum + 2 * length, 0)
  );
}
