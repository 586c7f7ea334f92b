/**
 * Marks: the resourceVersions up to which all changes of Services and of EndpointSlices are in the kernel, and when they came there.
 * resourceVersions of a kind are numbers that only grow (KEP-5504). Pure.
 */

import type { ServiceKey } from '../model/objects.ts';
import { hasReached } from '../model/resource-version.ts';

/** The kinds that have marks. */
export type MarkedKind = 'services' | 'slices';

/** A resourceVersion of each kind; "" for none. */
export type Marks = Readonly<Record<MarkedKind, string>>;

/** Marks from a moment on. */
export interface Moved extends Marks {
  /** Milliseconds of the clock that never goes backwards. */
  readonly at: number;
}

/** Marks that are remembered. */
const MAX_MARKS_KEPT = 4096;
/** Moves without a write within these milliseconds are remembered as one, with the time of the last of them. */
const TOGETHER_MS = 20;

/** The last marks, the oldest first. Each has a number, from 1 on; 0 is the beginning, before the first. */
export class MarkHistory {
  #moves: Moved[] = [];
  /** The number of moves that were forgotten. */
  #forgotten = 0;
  readonly #limit: number;
  /** The time of the first of the moves that the latest entry stands for; negative infinity when it stands for one with a write. */
  #togetherSince = Number.NEGATIVE_INFINITY;

  constructor(limit = MAX_MARKS_KEPT) {
    this.#limit = limit;
  }

  /** The number of the latest; 0 before the first. */
  get number(): number {
    return this.#forgotten + this.#moves.length;
  }

  get latest(): Moved | undefined {
    return this.#moves.at(-1);
  }

  /** `isAtOnce`: the mark moved without a write. Many such moves may come in a row. */
  add(moved: Moved, isAtOnce = false): void {
    const isTogether = isAtOnce && moved.at - this.#togetherSince < TOGETHER_MS;
    if (isTogether) this.#moves.pop();
    else this.#togetherSince = isAtOnce ? moved.at : Number.NEGATIVE_INFINITY;
    this.#moves.push(moved);
    // Forgotten in large parts, so that each costs next to nothing.
    if (this.#moves.length >= 2 * this.#limit) this.#forget(this.#moves.length - this.#limit);
  }

  /** The versions went back: earlier marks mean nothing any more. */
  forgetAll(): void {
    this.#forget(this.#moves.length);
    this.#togetherSince = Number.NEGATIVE_INFINITY;
  }

  /** The remembered marks after a number. */
  since(number: number): readonly Moved[] {
    return this.#moves.slice(Math.max(0, number - this.#forgotten));
  }

  /**
   * The time since when all changes of a kind up to a version are in the kernel, on the clock of `Moved.at`. undefined when they are not
   * there, or have been for longer than is remembered. The cost is the logarithm of the number of remembered marks.
   */
  reachedAt(kind: MarkedKind, version: string): number | undefined {
    let [from, to] = [0, this.#moves.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (hasReached(this.#moves[middle]?.[kind] ?? '', version)) to = middle;
      else from = middle + 1;
    }
    if (from === 0 && this.#forgotten > 0) return undefined;
    return this.#moves[from]?.at;
  }

  #forget(count: number): void {
    this.#moves = this.#moves.slice(count);
    this.#forgotten += count;
  }
}

/** Why changes are not in the kernel. `since`: milliseconds of the clock that never goes backwards. */
export interface Lag {
  readonly why: string;
  readonly since: number;
}

/** The Services that the kernel refused, and the cause when nothing can be written. */
export class Lags {
  #behind: ReadonlyMap<ServiceKey, Lag> = new Map();
  #stuck: Lag | undefined;

  /** Services of which the kernel has older versions. The map is a new object when an entry has changed. */
  get behind(): ReadonlyMap<ServiceKey, Lag> {
    return this.#behind;
  }

  /** The cause when nothing can be written; undefined otherwise. */
  get stuck(): Lag | undefined {
    return this.#stuck;
  }

  /** All changes were written, except for those of these Services, each with the reason. */
  written(without: ReadonlyMap<ServiceKey, string>, now: number): void {
    this.#stuck = undefined;
    const before = this.#behind;
    if (without.size === 0 && before.size === 0) return;
    const behind = new Map([...without].map(([service, why]) => [service, lagOf(before.get(service), why, now)]));
    const isSame = behind.size === before.size && [...behind].every(([service, lag]) => before.get(service) === lag);
    if (!isSame) this.#behind = behind;
  }

  /** Nothing was written. */
  notWritten(why: string, now: number): void {
    this.#stuck = lagOf(this.#stuck, why, now);
  }
}

/** The earlier lag when the reason is the same; otherwise a new one with the earlier time. */
function lagOf(before: Lag | undefined, why: string, now: number): Lag {
  return before?.why === why ? before : { why, since: before?.since ?? now };
}
