/**
 * Jumps from the kernel's built-in chains into ours, and their order within each built-in chain: it decides which of our chains sees a
 * packet first. Pure.
 *
 * A jump to a chain that others share may be anywhere: the kubelet inserts its own at the top, and it outlives our mode.
 */

import { type ChainKey, chainKey } from './names.ts';
import { comment, jump, type Table } from './rules.ts';

export interface Jump {
  readonly table: Table;
  readonly chain: string;
  /** The rule without `-A CHAIN`. */
  readonly text: string;
  readonly target: string;
  /** How often the chain has it; once by default. Two agents that wrote at the same time leave it twice, and the chain goes after both. */
  readonly copies?: number;
}

/** A jump from its chain, its target and its condition. */
export function jumpRule(at: { table: Table; chain: string; target: string; condition?: string; note?: string }): Jump {
  const { table, chain, target, condition = '', note = '' } = at;
  const text = [condition, note === '' ? '' : comment(note), jump(target)].filter((part) => part !== '').join(' ');
  return { table, chain, target, text };
}

/** Whether it is in this built-in chain. */
export function isIn(jump: Jump, table: Table, chain: string): boolean {
  return jump.table === table && jump.chain === chain;
}

/** `table CHAIN rule`: the key of a jump within a family. */
export function jumpKey(entry: Jump): string {
  return `${entry.table} ${entry.chain} ${entry.text}`;
}

/** The chain to which a rule leads, or "". Such a rule ends with its target, without options. */
export function targetOf(text: string): string {
  const end = text.lastIndexOf(' ');
  const flag = text.slice(Math.max(0, end - 2), end);
  return flag === '-j' || flag === '-g' ? text.slice(end + 1) : '';
}

/** Each jump is inserted at the top of its chain, so the last one comes first. */
export function inKernelOrder(jumps: ReadonlyMap<string, Jump>): Jump[] {
  return [...jumps.values()].reverse();
}

/** The desired jumps of a family. */
export interface WantedJumps {
  /** By `jumpKey`. Each is inserted at the top of its chain, so the last one comes first. */
  readonly desired: ReadonlyMap<string, Jump>;
  /** Chains that are shared with others. */
  readonly shared: ReadonlySet<ChainKey>;
}

/** A built-in chain in which our jumps are in another order than desired. */
export interface Misplaced {
  readonly table: Jump['table'];
  readonly chain: string;
  /** The same jumps, in the order of the kernel: as desired, and as they are. */
  readonly wanted: readonly Jump[];
  readonly found: readonly Jump[];
}

/** `order`: keys of jumps in the order of the kernel within each chain. Jumps that are missing or not desired do not count. */
export function misplacedJumps({ desired, shared }: WantedJumps, order: Iterable<string>): Misplaced[] {
  const ofChain = ({ table, chain }: Jump) => chainKey(table, chain);
  const isOurs = ({ table, target }: Jump) => !shared.has(chainKey(table, target));
  const keys = new Set(order);
  const present = [...keys].flatMap((key) => desired.get(key) ?? []).filter(isOurs);
  const found = Map.groupBy(present, ofChain);
  const ours = inKernelOrder(desired).filter((entry) => isOurs(entry) && keys.has(jumpKey(entry)));
  const misplaced: Misplaced[] = [];
  for (const [key, wanted] of Map.groupBy(ours, ofChain)) {
    const theirs = found.get(key) ?? [];
    const [first] = wanted;
    if (first === undefined || wanted.every((entry, i) => entry === theirs[i])) continue;
    misplaced.push({ table: first.table, chain: first.chain, wanted, found: theirs });
  }
  return misplaced;
}

/** Writes of jumps in one transaction of their table: `moved` are deleted first, and are among `inserted` too. */
export interface JumpWrites {
  /** Each one goes to the top of its chain, in this order. */
  readonly inserted: readonly Jump[];
  readonly moved: readonly Jump[];
  readonly gone: readonly Jump[];
}

/**
 * The order after jumps that are missing were inserted and others were removed may be another than desired. Then all our jumps of that
 * chain are inserted anew.
 */
export function jumpWrites(
  missing: readonly Jump[],
  gone: readonly Jump[],
  { wanted, order }: { readonly wanted: WantedJumps; readonly order: readonly string[] },
): JumpWrites & { readonly misplaced: readonly Misplaced[] } {
  const added = new Set(missing.map(jumpKey));
  const inserted = [...wanted.desired.values()].filter((entry) => added.has(jumpKey(entry)));
  const misplaced = misplacedJumps(wanted, orderAfter(order, { inserted, gone }));
  const anew = misplaced.flatMap((one) => one.wanted);
  const again = new Set(anew.map(jumpKey));
  return {
    // The jump that must come first is inserted last.
    inserted: [...inserted.filter((entry) => !again.has(jumpKey(entry))), ...anew.toReversed()],
    moved: anew.filter((entry) => !added.has(jumpKey(entry))),
    gone,
    misplaced,
  };
}

/** Keys in the order of the kernel. Each inserted jump goes to the top of its chain. */
export function orderAfter(
  order: readonly string[],
  { inserted, gone }: Pick<JumpWrites, 'inserted' | 'gone'>,
): readonly string[] {
  const top = inserted.map(jumpKey).reverse();
  const out = new Set([...top, ...gone.map(jumpKey)]);
  return [...top, ...order.filter((key) => !out.has(key))];
}
