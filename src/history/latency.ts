/** How long changes took to the kernel, of the last hour: a histogram for each minute, so that its size does not follow the changes. */

/** Counters of a minute: each spans a fifth of a doubling, from 0.1 ms on. The last one has everything above half an hour. */
const COUNTERS = 125;
const PER_DOUBLING = 5;
const LEAST = 0.1;
const MINUTES = 60;
const MINUTE = 60_000;

export interface Latency {
  /** Changes that were counted. */
  readonly changes: number;
  /** Milliseconds, to a seventh. */
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
  /** The time of the first minute with a change; in the form of `at`. */
  readonly since: number;
}

interface Minute {
  /** Minutes since the clock's beginning. */
  of: number;
  most: number;
  readonly counters: Uint32Array;
}

export class Latencies {
  readonly #minutes: Minute[] = Array.from({ length: MINUTES }, () => ({
    of: Number.NEGATIVE_INFINITY,
    most: 0,
    counters: new Uint32Array(COUNTERS),
  }));

  /** Bytes that are held. */
  get bytes(): number {
    return MINUTES * COUNTERS * 4;
  }

  /** `at`: milliseconds of any clock; `latency`: milliseconds. */
  add(at: number, latency: number): void {
    const of = Math.floor(at / MINUTE);
    const minute = this.#minutes[((of % MINUTES) + MINUTES) % MINUTES];
    if (minute === undefined) return;
    if (minute.of !== of) {
      minute.of = of;
      minute.most = 0;
      minute.counters.fill(0);
    }
    minute.most = Math.max(minute.most, latency);
    const counter = counterOf(latency);
    minute.counters[counter] = (minute.counters[counter] ?? 0) + 1;
  }

  /** undefined: there was no change in the hour before `now`. */
  summary(now: number): Latency | undefined {
    const first = Math.floor(now / MINUTE) - MINUTES + 1;
    const recent = this.#minutes.filter(({ of }) => of >= first);
    const total = new Float64Array(COUNTERS);
    for (const { counters } of recent) for (const [i, count] of counters.entries()) total[i] = (total[i] ?? 0) + count;
    const changes = total.reduce((sum, count) => sum + count, 0);
    if (changes === 0) return undefined;
    const most = Math.max(...recent.map((minute) => minute.most));
    const at = (share: number) => Math.min(most, quantile(total, changes * share));
    const since = Math.min(...recent.map(({ of }) => of)) * MINUTE;
    return { changes, p50: at(0.5), p99: at(0.99), most, since };
  }
}

function counterOf(latency: number): number {
  if (latency <= LEAST) return 0;
  return Math.min(COUNTERS - 1, Math.ceil(Math.log2(latency / LEAST) * PER_DOUBLING));
}

/** The upper end of the counter that holds the value of this rank. */
function quantile(counters: Float64Array, rank: number): number {
  let seen = 0;
  const counter = counters.findIndex((count) => {
    seen += count;
    return seen >= rank;
  });
  return LEAST * 2 ** (counter / PER_DOUBLING);
}
