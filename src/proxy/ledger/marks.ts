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

/** Most marks that are remembered. */
const MAX_MARKS_KEPT = 4096;
/** Milliseconds: moves without a write, one this soon after another, are remembered as one, which came with the last of them. */
const TOGETHER = 20;

/** The last marks, the oldest first. Each has a number, from 1 on; 0 is the beginning, when there was none. */
export class MarkHistory {
  #moves: Moved[] = [];
  /** The number of moves that were forgotten. */
  #forgotten = 0;
  readonly #most: number;
  /** When the first of the moves was that are remembered as one, the latest. */
  #togetherSince = Number.NEGATIVE_INFINITY;

  constructor(most = MAX_MARKS_KEPT) {
    this.#most = most;
  }

  /** The number of the latest; 0: there is none. */
  get number(): number {
    return this.#forgotten + this.#moves.length;
  }

  get latest(): Moved | undefined {
    return this.#moves.at(-1);
  }

  /** `isAtOnce`: nothing was written for it. Many such moves may come in a row. */
  add(moved: Moved, isAtOnce = false): void {
    const isTogether = isAtOnce && moved.at - this.#togetherSince < TOGETHER;
    if (isTogether) this.#moves.pop();
    else this.#togetherSince = isAtOnce ? moved.at : Number.NEGATIVE_INFINITY;
    this.#moves.push(moved);
    // Forgotten in large parts, so that each costs next to nothing.
    if (this.#moves.length >= 2 * this.#most) this.#forget(this.#moves.length - this.#most);
  }

  /** The versions went back: what they were before says nothing any more. */
  forgetAll(): void {
    this.#forget(this.#moves.length);
    this.#togetherSince = Number.NEGATIVE_INFINITY;
  }

  /** Those after a number that are remembered. */
  since(number: number): readonly Moved[] {
    return this.#moves.slice(Math.max(0, number - this.#forgotten));
  }

  /**
   * The time since when all changes of a kind up to a version are in the kernel, on the clock of `Moved.at`; undefined: they are not, or
   * for longer than is remembered. Takes the logarithm of what is remembered.
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

// Why changes are not in the kernel: Services that it refused, or a write that failed as a whole. Pure.

/** Why something is not in the kernel; `since`: milliseconds of the clock that never goes backwards. */
export interface Lag {
  readonly why: string;
  readonly since: number;
}

export class Lags {
  #behind: ReadonlyMap<ServiceKey, Lag> = new Map();
  #stuck: Lag | undefined;

  /** Services of which older versions are in the kernel. Another map when one of them changed. */
  get behind(): ReadonlyMap<ServiceKey, Lag> {
    return this.#behind;
  }

  /** Nothing can be written; undefined: all is well. */
  get stuck(): Lag | undefined {
    return this.#stuck;
  }

  /** All was written but for these Services, each with the reason. */
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

/** The same one where nothing is new; since when it was, where only the reason is. */
function lagOf(before: Lag | undefined, why: string, now: number): Lag {
  return before?.why === why ? before : { why, since: before?.since ?? now };
}
