/** The last syncs, the last changes by other programs, and the latency of the last hour, for `status`. */
import { Latencies, type Latency } from './latency.ts';
import type { SyncRecord } from './records.ts';

const LAST_SYNCS = 20;
const LAST_DRIFTS = 50;
/** Bytes of a sync or a drift, at most: their lines are bounded (`sync-record.ts`). */
const BYTES = 8 * 1024;

export interface Drift {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly what: string;
}

export class SyncStatistics {
  readonly #latencies = new Latencies();
  #syncs: SyncRecord[] = [];
  #drifts: Drift[] = [];

  /** Bytes that are held at most. */
  get mostBytes(): number {
    return this.#latencies.bytes + (LAST_SYNCS + LAST_DRIFTS) * BYTES;
  }

  get bytes(): number {
    return this.#latencies.bytes + (this.#syncs.length + this.#drifts.length) * BYTES;
  }

  /** The latest first. */
  get lastSyncs(): readonly SyncRecord[] {
    return this.#syncs.toReversed();
  }

  /** The latest last. */
  get lastDrifts(): readonly Drift[] {
    return this.#drifts;
  }

  add(record: SyncRecord): void {
    this.#syncs = [...this.#syncs.slice(1 - LAST_SYNCS), record];
    const drifts = record.drift.map((what) => ({ at: record.at, what }));
    this.#drifts = [...this.#drifts, ...drifts].slice(-LAST_DRIFTS);
  }

  /** A change took these milliseconds from received to the end of the sync that wrote it. `at`: milliseconds since 1970. */
  wrote(at: number, latency: number): void {
    this.#latencies.add(at, latency);
  }

  /** Of the hour before `now`, in milliseconds since 1970; undefined without a change. */
  latency(now: number): Latency | undefined {
    return this.#latencies.summary(now);
  }
}
