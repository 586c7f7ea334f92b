/**
 * How long changes take from the moment that the fleet sees them to the moment that nodes have them in their kernels: the SLO of network
 * programming (https://github.com/kubernetes/community/blob/master/sig-scalability/slos/network_programming_latency.md). Pure.
 */
import type { Clock } from '../base/clock.ts';
import { belowCounter, Latencies, type Latency } from '../base/latencies.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { FleetKind, Versions } from './types.ts';

/** Upper ends of the metric's buckets in seconds. */
const PROGRAMMING_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600];

/** Counts since the start, in the form of a Prometheus histogram; the sum is in seconds. */
export interface Histogram {
  /** Each with all that took no longer. */
  readonly buckets: readonly { readonly seconds: number; readonly count: number }[];
  readonly count: number;
  readonly sum: number;
}

/** The place of a node in the changes of both kinds. */
export type Tracked = Readonly<Record<FleetKind, LogReader>>;

const KINDS: readonly FleetKind[] = ['services', 'slices'];

export class ProgrammingLatency {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  readonly #logs: Record<FleetKind, ChangeLog>;
  readonly #tracked = new Set<Tracked>();
  readonly #pairs = new Latencies();
  readonly #each = new Counts();
  readonly #last = new Counts();
  readonly #slowest = new SlowestServices();

  /** `most`: changes of a kind that are kept. Times are milliseconds of the clock. */
  constructor(clock: Pick<Clock, 'now' | 'wall'>, most?: number) {
    this.#clock = clock;
    this.#logs = { services: new ChangeLog(most), slices: new ChangeLog(most) };
  }

  /** The fleet saw a change of an object. */
  seen(kind: FleetKind, version: string, service: ServiceKey): void {
    const number = numberOf(version);
    if (number !== undefined) this.#logs[kind].add(number, service, this.#clock.now());
  }

  /** A node counts: for changes that are seen from now on. */
  track(name: string): Tracked {
    const tracked = { services: { name, at: 0 }, slices: { name, at: 0 } };
    for (const kind of KINDS) this.#logs[kind].enter(tracked[kind]);
    this.#tracked.add(tracked);
    return tracked;
  }

  /** A node counts no longer. */
  drop(tracked: Tracked): void {
    if (!this.#tracked.delete(tracked)) return;
    for (const kind of KINDS) this.#passed(this.#logs[kind].leave(tracked[kind]));
  }

  /** The node has all up to these marks since `programmedAt`. `isMeasured`: nothing else said so before, so the times count. */
  advance(tracked: Tracked, marks: Versions, programmedAt: number, isMeasured: boolean): void {
    for (const kind of KINDS) {
      const version = numberOf(marks[kind]);
      if (version === undefined) continue;
      const log = this.#logs[kind];
      const took = (index: number) => Math.max(0, programmedAt - log.seenAt(index));
      const count = isMeasured ? (from: number, to: number) => this.#count(from, to, took) : undefined;
      this.#passed(log.advance(tracked[kind], version, programmedAt, count));
    }
  }

  /** When the fleet saw the first change that these marks lack; undefined: they lack none. */
  behindSince(marks: Versions): number | undefined {
    const since = KINDS.map((kind) => this.#logs[kind].firstAfter(numberOf(marks[kind]) ?? -1));
    const [first = Number.POSITIVE_INFINITY, second = Number.POSITIVE_INFINITY] = since;
    const least = Math.min(first, second);
    return Number.isFinite(least) ? least : undefined;
  }

  /** The versions of a kind went back: changes of it are counted anew. */
  restored(kind: FleetKind): void {
    this.#logs[kind].clear([...this.#tracked].map((tracked) => tracked[kind]));
  }

  /** Of the last hour, each change counted once for each node; undefined: there was none. */
  summary(): Latency | undefined {
    return this.#pairs.summary(this.#clock.wall());
  }

  /** The same by minutes, the latest last; `since` is the beginning of the minute, in milliseconds since 1970 as that of `summary`. */
  minutes(): readonly Latency[] {
    return this.#pairs.bySlot(this.#clock.wall());
  }

  /** Services whose changes took longest to the last node in the last hour, the slowest first; at most 20. */
  slowest(): readonly SlowService[] {
    return this.#slowest.slowest(this.#clock.now());
  }

  /** Each change counted once for each node; `ofLastNode`: once, when the last node has it. */
  histogram(ofLastNode = false): Histogram {
    return (ofLastNode ? this.#last : this.#each).histogram();
  }

  /** `took`: milliseconds of each change. Those that were seen later took less, so changes of one counter follow each other. */
  #count(from: number, to: number, took: (index: number) => number): void {
    const now = this.#clock.wall();
    for (let i = from; i < to; ) {
      const first = i;
      const most = took(i);
      const below = Math.max(belowCounter(most), this.#each.below(most));
      let sum = 0;
      for (let next = most; i < to && (i === first || next > below); next = i < to ? took(i) : 0) {
        sum += next;
        i += 1;
      }
      this.#pairs.add(now, most, i - first);
      this.#each.add(most, i - first, sum);
    }
  }

  #passed(passed: readonly Passed[]): void {
    for (const { service, seenAt, programmedAt, node } of passed) {
      const milliseconds = Math.max(0, programmedAt - seenAt);
      this.#last.add(milliseconds, 1, milliseconds);
      this.#slowest.add({ service, milliseconds, at: programmedAt, node });
    }
  }
}

/** undefined for "" and for what is no number (KEP-5504). */
function numberOf(version: string): number | undefined {
  const number = version === '' ? Number.NaN : Number(version);
  return Number.isNaN(number) ? undefined : number;
}

/** Counters of a histogram. */
class Counts {
  readonly #counters = PROGRAMMING_BUCKETS.map(() => 0);
  #count = 0;
  #sum = 0;

  /** Milliseconds of the next lower bucket's end. */
  below(milliseconds: number): number {
    const index = this.#bucketOf(milliseconds);
    const lower = PROGRAMMING_BUCKETS[(index === -1 ? PROGRAMMING_BUCKETS.length : index) - 1];
    return lower === undefined ? Number.NEGATIVE_INFINITY : lower * 1000;
  }

  /** `count` changes of one bucket took `sum` milliseconds together. */
  add(milliseconds: number, count: number, sum: number): void {
    const index = this.#bucketOf(milliseconds);
    if (index !== -1) this.#counters[index] = (this.#counters[index] ?? 0) + count;
    this.#count += count;
    this.#sum += sum / 1000;
  }

  histogram(): Histogram {
    let count = 0;
    const buckets = PROGRAMMING_BUCKETS.map((seconds, i) => {
      count += this.#counters[i] ?? 0;
      return { seconds, count };
    });
    return { buckets, count: this.#count, sum: this.#sum };
  }

  #bucketOf(milliseconds: number): number {
    return PROGRAMMING_BUCKETS.findIndex((seconds) => milliseconds <= seconds * 1000);
  }
}

/** Services whose changes took longest to the last node in the last hour. Pure. */
interface SlowService {
  readonly service: ServiceKey;
  /** From the moment that the fleet saw the change to the moment that the last node had it. */
  readonly milliseconds: number;
  /** When the last node had it, in milliseconds of the clock. */
  readonly at: number;
  /** The last node. */
  readonly node: string;
}

const MINUTE = 60_000;
const MINUTES = 60;
/** Services that are answered, and that are kept of each minute. */
const MAX_SERVICES = 20;

class SlowestServices {
  /** By minute, the slowest first. */
  readonly #minutes = new Map<number, SlowService[]>();

  add(slow: SlowService): void {
    const minute = Math.floor(slow.at / MINUTE);
    const known = this.#minutes.get(minute);
    if (known === undefined) {
      this.#forget(slow.at);
      this.#minutes.set(minute, [slow]);
      return;
    }
    const last = known.at(-1);
    if (known.length >= MAX_SERVICES && last !== undefined && last.milliseconds >= slow.milliseconds) return;
    const before = known.findIndex(({ service }) => service === slow.service);
    if (before !== -1) {
      if ((known[before]?.milliseconds ?? 0) >= slow.milliseconds) return;
      known.splice(before, 1);
    }
    const place = known.findIndex(({ milliseconds }) => milliseconds < slow.milliseconds);
    known.splice(place === -1 ? known.length : place, 0, slow);
    if (known.length > MAX_SERVICES) known.pop();
  }

  slowest(now: number): readonly SlowService[] {
    this.#forget(now);
    const byService = new Map<ServiceKey, SlowService>();
    for (const slow of [...this.#minutes.values()].flat()) {
      const before = byService.get(slow.service);
      if (before === undefined || before.milliseconds < slow.milliseconds) byService.set(slow.service, slow);
    }
    return [...byService.values()].sort((a, b) => b.milliseconds - a.milliseconds).slice(0, MAX_SERVICES);
  }

  #forget(now: number): void {
    const first = Math.floor(now / MINUTE) - MINUTES + 1;
    for (const minute of this.#minutes.keys()) if (minute < first) this.#minutes.delete(minute);
  }
}

// The last changes of one kind, with the moments at which the fleet saw them, and how far each node is in them. Pure.

/** Changes that are kept; half of them are dropped when there are more. */
const MAX_CHANGES_KEPT = 65_536;

/** Where a node is. */
interface LogReader {
  readonly name: string;
  /** Changes since the beginning of the log that it has, or that are not counted for it. */
  at: number;
}

/** A change that the last node has now. Times are milliseconds of the clock. */
interface Passed {
  readonly service: ServiceKey;
  readonly seenAt: number;
  readonly programmedAt: number;
  /** The last node. */
  readonly node: string;
}

class ChangeLog {
  /** Changes that were dropped. */
  #dropped = 0;
  #length = 0;
  /** Versions as numbers: beyond 2^53 they are not exact, which is enough for statistics. */
  readonly #versions: Float64Array;
  readonly #times: Float64Array;
  readonly #services: string[] = [];
  /** When the last node so far had each, and which. */
  readonly #lastAt: Float64Array;
  readonly #lastNode: string[] = [];
  /** Nodes that wait for each, and at the end those that have all. */
  readonly #waiting: Int32Array;
  /** Changes that every node has. */
  #done = 0;

  constructor(most = MAX_CHANGES_KEPT) {
    this.#versions = new Float64Array(most);
    this.#times = new Float64Array(most);
    this.#lastAt = new Float64Array(most);
    this.#waiting = new Int32Array(most + 1);
  }

  /** A change was seen. One that is older than the last is not counted: it comes from a list, and its moment is not known. */
  add(version: number, service: ServiceKey, at: number): void {
    if (this.#length > 0 && version <= (this.#versions[this.#length - 1] ?? 0)) return;
    const most = this.#times.length;
    if (this.#length === most) this.#drop(Math.ceil(most / 2));
    const index = this.#length;
    this.#versions[index] = version;
    this.#times[index] = at;
    this.#services[index] = service;
    this.#lastAt[index] = Number.NEGATIVE_INFINITY;
    this.#lastNode[index] = '';
    this.#waiting[index + 1] = 0;
    this.#length += 1;
    if (this.#waiting[index] === 0 && this.#done === this.#dropped + index) this.#done += 1;
  }

  /** The API server's versions went back: what was seen says nothing any more. */
  clear(readers: Iterable<LogReader>): void {
    this.#dropped += this.#length;
    this.#length = 0;
    this.#done = this.#dropped;
    this.#waiting.fill(0);
    for (const reader of readers) this.enter(reader);
  }

  /** A node counts from now on: for changes that come. */
  enter(reader: LogReader): void {
    reader.at = this.#dropped + this.#length;
    addTo(this.#waiting, this.#length, 1);
  }

  /** A node counts no longer. */
  leave(reader: LogReader): Passed[] {
    addTo(this.#waiting, Math.max(0, reader.at - this.#dropped), -1);
    return this.#pass();
  }

  /**
   * A node has all up to this version since `programmedAt`. `count` takes how many changes took how long, in milliseconds, each not longer
   * than the one before; undefined: it is not known how long. Returns the changes for which it was the last node.
   */
  advance(
    reader: LogReader,
    version: number,
    programmedAt: number,
    count: ((from: number, to: number) => void) | undefined,
  ): Passed[] {
    const from = Math.max(0, reader.at - this.#dropped);
    const to = this.#after(version);
    if (to <= from) return [];
    if (count !== undefined) {
      for (let i = from; i < to; i += 1) {
        if (programmedAt < (this.#lastAt[i] ?? 0)) continue;
        this.#lastAt[i] = programmedAt;
        this.#lastNode[i] = reader.name;
      }
      count(from, to);
    }
    addTo(this.#waiting, from, -1);
    addTo(this.#waiting, to, 1);
    reader.at = this.#dropped + to;
    return this.#pass();
  }

  /** The moments at which the changes of a range of `advance` were seen, in their order. */
  seenAt(index: number): number {
    return this.#times[index] ?? 0;
  }

  /** When the first change after this version was seen; undefined: there is none. */
  firstAfter(version: number): number | undefined {
    const index = this.#after(version);
    return index < this.#length ? this.#times[index] : undefined;
  }

  /** The first change that is newer than the version. */
  #after(version: number): number {
    let low = 0;
    let high = this.#length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#versions[middle] ?? 0) > version) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #pass(): Passed[] {
    const passed: Passed[] = [];
    for (let i = this.#done - this.#dropped; i < this.#length && this.#waiting[i] === 0; i += 1) {
      this.#done += 1;
      const programmedAt = this.#lastAt[i] ?? 0;
      if (!Number.isFinite(programmedAt)) continue;
      const seenAt = this.#times[i] ?? 0;
      passed.push({ service: this.#services[i] ?? '', seenAt, programmedAt, node: this.#lastNode[i] ?? '' });
    }
    return passed;
  }

  /** Nodes that waited for a change that is dropped wait for the first that is kept. */
  #drop(count: number): void {
    for (const numbers of [this.#versions, this.#times, this.#lastAt]) numbers.copyWithin(0, count, this.#length);
    const waiting = this.#waiting.subarray(0, count).reduce((sum, each) => sum + each, 0);
    this.#waiting.copyWithin(0, count, this.#length + 1);
    addTo(this.#waiting, 0, waiting);
    this.#services.splice(0, count);
    this.#lastNode.splice(0, count);
    this.#dropped += count;
    this.#length -= count;
    this.#done = Math.max(this.#done, this.#dropped);
  }
}

function addTo(numbers: Int32Array, index: number, by: number): void {
  numbers[index] = (numbers[index] ?? 0) + by;
}
