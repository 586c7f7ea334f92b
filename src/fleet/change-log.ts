/** The last changes of one kind, with the moments at which the fleet saw them, and how far each node is in them. Pure. */
import type { ServiceKey } from '../proxy/model/objects.ts';

/** Changes that are kept; half of them are dropped when there are more. */
const MAX_CHANGES_KEPT = 65_536;

/** Where a node is. */
export interface LogReader {
  readonly name: string;
  /** Changes since the beginning of the log that it has, or that are not counted for it. */
  at: number;
}

/** A change that the last node has now. Times are milliseconds of the clock. */
export interface Passed {
  readonly service: ServiceKey;
  readonly seenAt: number;
  readonly programmedAt: number;
  /** The last node. */
  readonly node: string;
}

export class ChangeLog {
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
