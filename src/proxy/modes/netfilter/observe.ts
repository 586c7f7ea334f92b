/** Read our chains of one family, and the jumps into them (invariant 7). */
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import { type Jump, jumpKey, targetOf } from './jumps.ts';
import { BUILT_IN, type ChainKey, chainKey } from './names.ts';
import { type SavedTable, SaveReader } from './restore-text.ts';
import { type Chain, ownerInComment, type Rule, type Table } from './rules.ts';

export interface ObservedTables {
  readonly chains: ReadonlyMap<ChainKey, Chain>;
  /** Jumps into our chains, and the wanted jumps, whose targets may be shared with others. */
  readonly jumps: ReadonlyMap<string, Jump>;
  /** Policies of built-in chains other than ACCEPT, by `table CHAIN`. */
  readonly policies: ReadonlyMap<string, string>;
}

export type IsOurs = (table: Table, chain: string) => boolean;

export interface ReadSpec {
  readonly isOurs: IsOurs;
  /** Chains to read as well: shared with others, never removed. */
  readonly shared: ReadonlySet<ChainKey>;
  readonly wantedJumps: ReadonlyMap<string, Jump>;
}

/** The tables that have chains of ours. */
export const TABLES: readonly Table[] = ['filter', 'nat', 'mangle'];

/** Throws when the read fails. */
export async function observeTables(
  tools: IptablesTools,
  spec: ReadSpec,
  signal: AbortSignal,
): Promise<ObservedTables> {
  const { tables, policies } = await readTables(tools, signal);
  const chains = new Map<ChainKey, Chain>();
  const jumps = new Map<string, Jump>();
  for (const table of TABLES) {
    for (const [name, rules] of tables.get(table) ?? []) {
      if (BUILT_IN.has(name)) for (const entry of jumpsIn(table, name, rules, spec)) addJump(jumps, entry);
      const key = chainKey(table, name);
      if (spec.isOurs(table, name) || spec.shared.has(key)) chains.set(key, readChain(rules));
    }
  }
  return { chains, jumps, policies };
}

/** Counts a jump that is there more than once. */
export function addJump(jumps: Map<string, Jump | undefined>, entry: Jump): void {
  const known = jumps.get(jumpKey(entry));
  jumps.set(jumpKey(entry), known === undefined ? entry : { ...known, copies: (known.copies ?? 1) + 1 });
}

/** All chains of all tables, and the policies as in `ObservedTables`. */
interface ReadTables {
  readonly tables: ReadonlyMap<string, SavedTable>;
  readonly policies: ReadonlyMap<string, string>;
}

/** Throws when the read fails, and SyntaxError when its output is not understood. */
export async function readTables(tools: IptablesTools, signal: AbortSignal): Promise<ReadTables> {
  const reader = new SaveReader();
  await tools.save((line) => reader.read(line), signal);
  return { tables: reader.end(), policies: reader.policies };
}

/** A chain of these rules, each without `-A CHAIN`. */
export function readChain(rules: readonly string[]): Chain {
  return rules.map((text) => new ObservedRule(text));
}

/** Looks for the owner only when it is read: most rules are as desired, and their owner is never needed. */
class ObservedRule implements Rule {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  get owner(): Rule['owner'] {
    return ownerInComment(this.text);
  }
}

/** The jumps of a built-in chain into ours, and the wanted ones. */
export function* jumpsIn(
  table: Table,
  chain: string,
  rules: readonly string[],
  { isOurs, wantedJumps }: Pick<ReadSpec, 'isOurs' | 'wantedJumps'>,
): Generator<Jump> {
  for (const text of rules) {
    const entry: Jump = { table, chain, text, target: targetOf(text) };
    if (wantedJumps.has(jumpKey(entry)) || isOurs(table, entry.target)) yield entry;
  }
}
