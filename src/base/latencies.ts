/** The latency of changes, from their cause to the kernel: a histogram for each slot of time, so that the size does not grow with the changes. */

/** Counters of a slot: each spans a fifth of a doubling, from 0.1 ms on. The last one counts everything above half an hour. */
const COUNTERS = 125;
const PER_DOUBLING = 5;
const MIN_LATENCY_MS = 0.1;
/** The upper end of each counter. */
const ENDS = Float64Array.from({ length: COUNTERS }, (_, i) => MIN_LATENCY_MS * 2 ** (i / PER_DOUBLING));
/** Slots of the hour that `status` shows, and their milliseconds. */
const MINUTES = { slots: 60, length: 60_000 } as const;

export interface Latency {
  /** The number of changes. */
  readonly changes: number;
  /** Milliseconds, accurate to a seventh. */
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
  /** The beginning of the first slot with a change, on the clock of `at`. */
  readonly since: number;
}

interface Slot {
  /** The number of the slot since the clock's beginning. */
  of: number;
  most: number;
  readonly counters: Uint32Array;
  /** The summary of this slot alone; undefined before it is made, and after a further change. */
  summary: Latency | undefined;
}

export class Latencies {
  readonly #length: number;
  readonly #slots: readonly Slot[];

  /** `length`: milliseconds of a slot. */
  constructor({ slots, length }: { readonly slots: number; readonly length: number } = MINUTES) {
    this.#length = length;
    this.#slots = Array.from({ length: slots }, () => ({
      of: Number.NEGATIVE_INFINITY,
      most: 0,
      counters: new Uint32Array(COUNTERS),
      summary: undefined,
    }));
  }

  /** The memory of the counters. */
  get bytes(): number {
    return this.#slots.length * COUNTERS * 4;
  }

  /** `at`: milliseconds of any clock. `latency`: milliseconds. `changes`: the number of changes with this latency. */
  add(at: number, latency: number, changes = 1): void {
    const of = Math.floor(at / this.#length);
    const { length } = this.#slots;
    const slot = this.#slots[((of % length) + length) % length];
    if (slot === undefined) return;
    if (slot.of !== of) {
      slot.of = of;
      slot.most = 0;
      slot.counters.fill(0);
    }
    slot.summary = undefined;
    slot.most = Math.max(slot.most, latency);
    const counter = counterOf(latency);
    slot.counters[counter] = (slot.counters[counter] ?? 0) + changes;
  }

  /** The summary of all slots until `now`; undefined where no change was counted. */
  summary(now: number): Latency | undefined {
    return this.#summaryOf(this.#recent(now));
  }

  /** The summaries of the slots until `now` that have a change, in order of time. `since` is the beginning of the slot. */
  bySlot(now: number): Latency[] {
    const recent = this.#recent(now).sort((a, b) => a.of - b.of);
    return recent.flatMap((slot) => {
      slot.summary ??= this.#summaryOf([slot]);
      return slot.summary ?? [];
    });
  }

  #recent(now: number): Slot[] {
    const first = Math.floor(now / this.#length) - this.#slots.length + 1;
    return this.#slots.filter(({ of }) => of >= first);
  }

  #summaryOf(slots: readonly Slot[]): Latency | undefined {
    const total = new Float64Array(COUNTERS);
    for (const { counters } of slots) for (const [i, count] of counters.entries()) total[i] = (total[i] ?? 0) + count;
    const changes = total.reduce((sum, count) => sum + count, 0);
    if (changes === 0) return undefined;
    const most = Math.max(...slots.map((slot) => slot.most));
    const at = (share: number) => Math.min(most, quantile(total, changes * share));
    const since = Math.min(...slots.map(({ of }) => of)) * this.#length;
    return { changes, p50: at(0.5), p99: at(0.99), most, since };
  }
}

/** The longest latency in milliseconds that falls into the counter below that of this latency. */
export function belowCounter(latency: number): number {
  const counter = counterOf(latency);
  return ENDS[counter - 1] ?? Number.NEGATIVE_INFINITY;
}

function counterOf(latency: number): number {
  if (latency <= MIN_LATENCY_MS) return 0;
  return Math.min(COUNTERS - 1, Math.ceil(Math.log2(latency / MIN_LATENCY_MS) * PER_DOUBLING));
}

/** The upper end of the counter that holds the value of this rank. */
function quantile(counters: Float64Array, rank: number): number {
  let seen = 0;
  const counter = counters.findIndex((count) => {
    seen += count;
    return seen >= rank;
  });
  return MIN_LATENCY_MS * 2 ** (counter / PER_DOUBLING);
}
