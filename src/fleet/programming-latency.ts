/**
 * The time of changes from the moment that the fleet sees them to the moment that nodes have them in their kernels: the SLO of network
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
  /** Cumulative: each counts all changes that took no longer. */
  readonly buckets: readonly { readonly seconds: number; readonly count: number }[];
  readonly count: number;
  readonly sum: number;
}

/** The position of a node in the changes of both kinds. */
export type NodeProgress = Readonly<Record<FleetKind, LogPosition>>;

const KINDS: readonly FleetKind[] = ['services', 'slices'];

export class ProgrammingLatency {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  readonly #logs: Record<FleetKind, ChangeLog>;
  readonly #nodes = new Set<NodeProgress>();
  readonly #pairs = new Latencies();
  readonly #each = new Counts();
  readonly #last = new Counts();
  readonly #slowest = new SlowestServices();

  /** `capacity`: changes of a kind that are kept. Times are milliseconds of the clock. */
  constructor(clock: Pick<Clock, 'now' | 'wall'>, capacity?: number) {
    this.#clock = clock;
    this.#logs = { services: new ChangeLog(capacity), slices: new ChangeLog(capacity) };
  }

  /** The fleet saw a change of an object. */
  seen(kind: FleetKind, version: string, service: ServiceKey): void {
    const number = numberOf(version);
    if (number !== undefined) this.#logs[kind].add(number, service, this.#clock.now());
  }

  /** A node counts for changes that are seen from now on. */
  track(name: string): NodeProgress {
    const tracked = { services: { name, at: 0 }, slices: { name, at: 0 } };
    for (const kind of KINDS) this.#logs[kind].enter(tracked[kind]);
    this.#nodes.add(tracked);
    return tracked;
  }

  /** A node counts no longer. */
  drop(tracked: NodeProgress): void {
    if (!this.#nodes.delete(tracked)) return;
    for (const kind of KINDS) this.#passed(this.#logs[kind].leave(tracked[kind]));
  }

  /** The node has all versions up to these marks since `programmedAt`. `isMeasured`: that time is exact, so it enters the histograms. */
  advance(tracked: NodeProgress, marks: Versions, programmedAt: number, isMeasured: boolean): void {
    for (const kind of KINDS) {
      const version = numberOf(marks[kind]);
      if (version === undefined) continue;
      const log = this.#logs[kind];
      const took = (index: number) => Math.max(0, programmedAt - log.seenAt(index));
      const count = isMeasured ? (from: number, to: number) => this.#count(from, to, took) : undefined;
      this.#passed(log.advance(tracked[kind], version, programmedAt, count));
    }
  }

  /** When the fleet saw the first change that these marks lack; undefined when they lack none. */
  behindSince(marks: Versions): number | undefined {
    const since = KINDS.map((kind) => this.#logs[kind].firstAfter(numberOf(marks[kind]) ?? -1));
    const [first = Number.POSITIVE_INFINITY, second = Number.POSITIVE_INFINITY] = since;
    const least = Math.min(first, second);
    return Number.isFinite(least) ? least : undefined;
  }

  /** The versions of a kind went back: changes of it are counted anew. */
  restored(kind: FleetKind): void {
    this.#logs[kind].clear([...this.#nodes].map((tracked) => tracked[kind]));
  }

  /** The latency of the last hour, with each change counted once for each node; undefined without changes. */
  summary(): Latency | undefined {
    return this.#pairs.summary(this.#clock.wall());
  }

  /** The same for each minute, the latest last; `since` is the beginning of the minute, in milliseconds since 1970. */
  minutes(): readonly Latency[] {
    return this.#pairs.bySlot(this.#clock.wall());
  }

  /** Services whose changes took longest to the last node in the last hour, the slowest first; at most 20. */
  slowest(): readonly SlowService[] {
    return this.#slowest.slowest(this.#clock.now());
  }

  /** Counts each change once for each node, or with `ofLastNode` once, when the last node has it. */
  histogram(ofLastNode = false): Histogram {
    return (ofLastNode ? this.#last : this.#each).histogram();
  }

  /** `took`: milliseconds of each change. Changes that were seen later took less, so those of one bucket follow each other. */
  #count(from: number, to: number, took: (index: number) => number): void {
    const now = this.#clock.wall();
    for (let i = from; i < to; ) {
      const first = i;
      const longest = took(i);
      const below = Math.max(belowCounter(longest), this.#each.below(longest));
      let sum = 0;
      for (let next = longest; i < to && (i === first || next > below); next = i < to ? took(i) : 0) {
        sum += next;
        i += 1;
      }
      this.#pairs.add(now, longest, i - first);
      this.#each.add(longest, i - first, sum);
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

/** undefined for "" and for a version that is no number (KEP-5504). */
function numberOf(version: string): number | undefined {
  const number = version === '' ? Number.NaN : Number(version);
  return Number.isNaN(number) ? undefined : number;
}

class Counts {
  readonly #counters = PROGRAMMING_BUCKETS.map(() => 0);
  #count = 0;
  #sum = 0;

  /** The upper end of the next lower bucket, in milliseconds. */
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

interface SlowService {
  readonly service: ServiceKey;
  /** Time from the moment that the fleet saw the change to the moment that the last node had it. */
  readonly milliseconds: number;
  /** When the last node had it, in milliseconds of the clock. */
  readonly at: number;
  /** The last node. */
  readonly node: string;
}

const MINUTE = 60_000;
const MINUTES = 60;
/** Limit for each minute and for the answer. */
const MAX_SERVICES = 20;

/** The Services whose changes took longest to the last node in the last hour. */
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

/** Changes that are kept. When there are more, the older half is dropped. */
const MAX_CHANGES_KEPT = 65_536;

/** The position of a node in a log. */
interface LogPosition {
  readonly name: string;
  /** Changes since the beginning of the log that the node has, or that are not counted for it. */
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

/** The last changes of one kind, with the moments at which the fleet saw them, and the position of each node. */
class ChangeLog {
  #dropped = 0;
  #length = 0;
  /** Versions as numbers: beyond 2^53 they are not exact, which is enough for statistics. */
  readonly #versions: Float64Array;
  readonly #times: Float64Array;
  readonly #services: string[] = [];
  /** For each change the last node so far, and the moment at which it had the change. */
  readonly #lastAt: Float64Array;
  readonly #lastNode: string[] = [];
  /** Counts of nodes that wait for each change; the last count is of those that have all. */
  readonly #waiting: Int32Array;
  /** Changes that every node has. */
  #done = 0;

  constructor(capacity = MAX_CHANGES_KEPT) {
    this.#versions = new Float64Array(capacity);
    this.#times = new Float64Array(capacity);
    this.#lastAt = new Float64Array(capacity);
    this.#waiting = new Int32Array(capacity + 1);
  }

  /** A change was seen. One that is older than the last is ignored: it comes from a list, so its moment is unknown. */
  add(version: number, service: ServiceKey, at: number): void {
    if (this.#length > 0 && version <= (this.#versions[this.#length - 1] ?? 0)) return;
    const capacity = this.#times.length;
    if (this.#length === capacity) this.#drop(Math.ceil(capacity / 2));
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

  /** The API server's versions went back, so the changes before are of no use. */
  clear(readers: Iterable<LogPosition>): void {
    this.#dropped += this.#length;
    this.#length = 0;
    this.#done = this.#dropped;
    this.#waiting.fill(0);
    for (const reader of readers) this.enter(reader);
  }

  /** A node counts for changes that come from now on. */
  enter(reader: LogPosition): void {
    reader.at = this.#dropped + this.#length;
    addTo(this.#waiting, this.#length, 1);
  }

  /** A node counts no longer. */
  leave(reader: LogPosition): Passed[] {
    addTo(this.#waiting, Math.max(0, reader.at - this.#dropped), -1);
    return this.#pass();
  }

  /**
   * A node has all changes up to this version since `programmedAt`. `count` gets the range of changes that are new to it; undefined when
   * their time is unknown. Returns the changes for which it was the last node.
   */
  advance(
    reader: LogPosition,
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

  /** The moment at which a change of a range of `advance` was seen. */
  seenAt(index: number): number {
    return this.#times[index] ?? 0;
  }

  /** The moment at which the first change after this version was seen, or undefined. */
  firstAfter(version: number): number | undefined {
    const index = this.#after(version);
    return index < this.#length ? this.#times[index] : undefined;
  }

  /** The index of the first change that is newer than the version. */
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

  /** Nodes that waited for a dropped change wait for the first that is kept. */
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
