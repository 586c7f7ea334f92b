/** Jumps from the kernel's built-in chains into ours. */
import { comment, jump, type Table } from './rules.ts';

export interface Jump {
  readonly table: Table;
  readonly chain: string;
  /** The rule without `-A CHAIN`. */
  readonly text: string;
  readonly target: string;
}

/** A jump from its chain, its target and its condition. */
export function jumpRule(at: { table: Table; chain: string; target: string; condition?: string; note?: string }): Jump {
  const { table, chain, target, condition = '', note = '' } = at;
  const text = [condition, note === '' ? '' : comment(note), jump(target)].filter((part) => part !== '').join(' ');
  return { table, chain, target, text };
}

/** `table CHAIN rule`: the key of a jump within a family. */
export function jumpKey(entry: Jump): string {
  return `${entry.table} ${entry.chain} ${entry.text}`;
}

/** The chain that a rule leads to; "" if none. Such a rule ends with its target, without options. */
export function targetOf(text: string): string {
  const end = text.lastIndexOf(' ');
  const flag = text.slice(Math.max(0, end - 2), end);
  return flag === '-j' || flag === '-g' ? text.slice(end + 1) : '';
}
