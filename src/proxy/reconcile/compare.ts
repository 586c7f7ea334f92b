/** Desired objects against those that were found in the kernel, one by one. Pure. */
import type { Tracker } from './tracker.ts';

/** Objects of one kind. `V`: as desired, `R`: as the kernel may have them. */
interface Compared<K, V extends R, R = V> {
  readonly tracker: Pick<Tracker<K, V, R>, 'desired' | 'applied'>;
  readonly found: ReadonlyMap<K, R>;
  /** Whether both are the same to the last detail. */
  readonly same: (a: R, b: R) => boolean;
  /** Whether both are the same for a plan, where that is less. */
  readonly isRight?: (a: R, b: R) => boolean;
  /** The name of the kernel object, for people. */
  readonly nameOf: (key: K, value: R) => string;
  /** The lines of an object, for people. */
  readonly linesOf: (value: R) => readonly string[];
  /** The Service that the difference belongs to; undefined for a shared object, and for one of no Service. */
  readonly ownerOf: (key: K, wanted: V | undefined, found: R | undefined) => string | undefined;
  /** The name of the object among refused keys (`SetAside`), if it is not its name with the family. */
  readonly refusedAs?: (key: K, value: R) => string;
  /** Whether the removal of an undesired object waits until its connections end. */
  readonly waits?: (key: K) => boolean;
  /** Whether a found object may stay though it is not desired: it is not compared. */
  readonly mayStay?: (key: K, value: R) => boolean;
}

/** An object that is not as desired. */
export interface Unlike {
  readonly object: string;
  readonly owner: string | undefined;
  readonly kind: 'missing' | 'changed' | 'foreign' | 'order';
  /** Lines that are desired and not found, and the reverse. */
  readonly wanted: readonly string[];
  readonly found: readonly string[];
  /** The object is as the agent believes it to be: no other program changed it, and a plan would write it. */
  readonly isPending: boolean;
  /** It is pending, and its removal waits until its connections end. */
  readonly isWaiting: boolean;
  /** A plan writes it after a reading. Otherwise it differs only in details that plans do not compare (`isRight`), and stays as it is. */
  readonly isRepaired: boolean;
  readonly refusedAs: string;
}

/** The reason why an object differs without a fault. Without a reason, another program wrote it. */
export type Because = 'not written yet' | 'refused by the kernel' | 'waits for connections to end';

/** `setAside`: owners, and names of objects with their family, that the kernel refused. */
export function becauseOf(
  unlike: Unlike,
  family: string | undefined,
  setAside: ReadonlySet<string>,
): Because | undefined {
  if (!unlike.isPending) return undefined;
  const { owner, refusedAs } = unlike;
  const names = [owner ?? '', refusedAs, `${family} ${refusedAs}`];
  if (names.some((name) => setAside.has(name))) return 'refused by the kernel';
  return unlike.isWaiting ? 'waits for connections to end' : 'not written yet';
}

/** One value for each compared object: undefined when it is as desired. */
export function* comparison<K, V extends R, R = V>(of: Compared<K, V, R>): Generator<Unlike | undefined> {
  const { tracker, found, same, mayStay } = of;
  for (const [key, wanted] of tracker.desired) {
    const seen = found.get(key);
    yield seen !== undefined && (seen === wanted || same(wanted, seen)) ? undefined : unlike(of, key, wanted, seen);
  }
  for (const [key, seen] of found) {
    if (!tracker.desired.has(key) && mayStay?.(key, seen) !== true) yield unlike(of, key, undefined, seen);
  }
}

function unlike<K, V extends R, R>(of: Compared<K, V, R>, key: K, wanted: V | undefined, found: R | undefined): Unlike {
  const value = wanted ?? (found as R);
  const [ours = [], theirs = []] = [wanted, found].map((one) => (one === undefined ? [] : of.linesOf(one)));
  const lines = { wanted: without(ours, theirs), found: without(theirs, ours) };
  const isSameLines = lines.wanted.length + lines.found.length === 0;
  const kind = found === undefined ? 'missing' : wanted === undefined ? 'foreign' : isSameLines ? 'order' : 'changed';
  const object = of.nameOf(key, value);
  const pending = isPending(of, key, found);
  return {
    object,
    owner: of.ownerOf(key, wanted, found),
    kind,
    ...lines,
    isPending: pending,
    isRepaired: wanted === undefined || found === undefined || !(of.isRight ?? of.same)(wanted, found),
    isWaiting: pending && wanted === undefined && of.waits?.(key) === true,
    refusedAs: of.refusedAs?.(key, value) ?? object,
  };
}

function isPending<K, V extends R, R>({ tracker, same }: Compared<K, V, R>, key: K, found: R | undefined): boolean {
  if (tracker.applied === undefined) return false;
  const believed = tracker.applied.get(key);
  if (believed === undefined || found === undefined) return believed === found;
  return believed === found || same(believed, found);
}

/** The lines of `all` that are not in `other`. A line that occurs twice in `all` must occur twice in `other`. */
function without(all: readonly string[], other: readonly string[]): string[] {
  const count = new Map<string, number>();
  for (const line of other) count.set(line, (count.get(line) ?? 0) + 1);
  return all.filter((line) => {
    const left = count.get(line) ?? 0;
    if (left > 0) count.set(line, left - 1);
    return left === 0;
  });
}

/** The difference of two lists of lines, for people: removed lines as `- …`, then added ones as `+ …`, each in their order. */
export function lineDiff(from: readonly string[], to: readonly string[]): string[] {
  const before = new Set(from);
  const after = new Set(to);
  const lines: string[] = [];
  for (const line of from) if (!after.has(line)) lines.push(`- ${line}`);
  for (const line of to) if (!before.has(line)) lines.push(`+ ${line}`);
  return lines.length > 0 || from.length === to.length ? lines : ['~ the same rules in another order'];
}
