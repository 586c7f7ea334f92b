/**
 * The rules of one variant of iptables, as the kernel has them: tables of both families, each committed as a whole. It refuses the
 * same input as the real one: a jump to a missing chain, a rule in an unknown chain, the deletion of a chain that is in use or not
 * empty, a match with a missing set, and lines that it cannot read.
 */
import type { Family } from '../../../../src/base/address.ts';
import { ownerInComment, type Rule, type Table } from '../../../../src/proxy/modes/netfilter/rules.ts';
import type { RulesView } from '../../../../src/proxy/modes/view.ts';

/** Rules by chain, without `-A CHAIN`. Never changed: a commit replaces it. */
export type Chains = ReadonlyMap<string, readonly string[]>;

export const BUILT_IN: Readonly<Record<Table, readonly string[]>> = {
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
};
export const TABLES: readonly Table[] = ['mangle', 'nat', 'filter'];

export interface TableCommit {
  readonly family: Family;
  readonly table: Table;
  /** Chains that are new, gone or other. */
  readonly chains: readonly string[];
}

export class RuleStore {
  readonly #tables = new Map<string, Chains>();
  readonly #policies = new Map<string, 'DROP'>();
  readonly #views = new Map<Family, RulesView>();
  readonly #onCommit: (commit: TableCommit) => void;
  /** Counts commits. */
  version = 0;

  constructor(onCommit: (commit: TableCommit) => void) {
    this.#onCommit = onCommit;
  }

  /** undefined: nobody has used the table. */
  table(family: Family, table: Table): Chains | undefined {
    return this.#tables.get(`${family} ${table}`);
  }

  /** The table, which is created as the tools create it. */
  used(family: Family, table: Table): Chains {
    const found = this.table(family, table);
    if (found !== undefined) return found;
    const made: Chains = new Map(BUILT_IN[table].map((chain) => [chain, []]));
    this.#tables.set(`${family} ${table}`, made);
    return made;
  }

  /** All tables as they are now, by family and name. */
  snapshot(): ReadonlyMap<string, Chains> {
    return new Map(this.#tables);
  }

  commit(family: Family, table: Table, chains: Chains): void {
    const before = this.used(family, table);
    const names = new Set([...before.keys(), ...chains.keys()]);
    const touched = [...names].filter((name) => !sameRules(before.get(name), chains.get(name)));
    this.#tables.set(`${family} ${table}`, chains);
    this.version += 1;
    this.#views.delete(family);
    this.#onCommit({ family, table, chains: touched });
  }

  setPolicy(family: Family, chain: string, policy: 'ACCEPT' | 'DROP'): void {
    if (policy === 'DROP') this.#policies.set(`${family} ${chain}`, policy);
    else this.#policies.delete(`${family} ${chain}`);
    this.#views.delete(family);
  }

  policy(family: Family, table: string, chain: string): 'ACCEPT' | 'DROP' {
    return table === 'filter' ? (this.#policies.get(`${family} ${chain}`) ?? 'ACCEPT') : 'ACCEPT';
  }

  /** The lines of `iptables-save`. */
  *save(family: Family, only?: string): Generator<string> {
    for (const table of TABLES) {
      const chains = this.table(family, table);
      if (chains === undefined || (only !== undefined && only !== table)) continue;
      yield `*${table}`;
      for (const name of chains.keys()) {
        const policy = isBuiltIn(table, name) ? this.policy(family, table, name) : '-';
        yield `:${name} ${policy} [0:0]`;
      }
      for (const [name, rules] of chains) for (const rule of rules) yield `-A ${name} ${rule}`;
      yield 'COMMIT';
    }
  }

  /** Whether a rule refers to a set. */
  refersTo(set: string): boolean {
    for (const chains of this.#tables.values()) {
      for (const rules of chains.values()) if (rules.some((rule) => rule.includes(` ${set} `))) return true;
    }
    return false;
  }

  /** All rules as they are now: the same object until they change. */
  view(family: Family): RulesView {
    const known = this.#views.get(family);
    if (known !== undefined) return known;
    const tables = new Map(TABLES.map((table) => [table, this.table(family, table)]));
    const policies = new Map(BUILT_IN.filter.map((chain) => [chain, this.policy(family, 'filter', chain)]));
    const read = new Map<string, readonly Rule[] | undefined>();
    const view: RulesView = {
      chain(table, name) {
        const key = `${table} ${name}`;
        if (!read.has(key)) read.set(key, tables.get(table)?.get(name)?.map(ruleOf));
        return read.get(key);
      },
      policy: (chain) => (policies.get(chain) === 'DROP' ? 'drop' : 'accept'),
    };
    this.#views.set(family, view);
    return view;
  }

  /** What the kernel tells of a table of the legacy variant: offsets of hooks, count and size of entries. */
  numbers(family: Family, table: Table): { readonly text: string; readonly entries: number } {
    const chains = this.used(family, table);
    let [entries, size] = [0, 0];
    const hooks: string[] = [];
    for (const [name, rules] of chains) {
      if (isBuiltIn(table, name)) hooks.push(`${name}@${size}`);
      for (const rule of rules) size += sizeOf(rule);
      // The policy or return at its end, and before chains of users the entry with their name.
      size += isBuiltIn(table, name) ? ENTRY : 2 * ENTRY;
      entries += rules.length + (isBuiltIn(table, name) ? 1 : 2);
    }
    return { text: `${hooks.join(' ')} ${entries} ${size}`, entries };
  }
}

/** Bytes of an entry without matches, about. */
const ENTRY = 152;

function sizeOf(rule: string): number {
  return ENTRY + 32 * rule.split(' -m ').length;
}

/** Most rules are never asked for their owner. */
function ruleOf(text: string): Rule {
  return {
    text,
    get owner() {
      return ownerInComment(text);
    },
  };
}

function sameRules(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return (
    a === b || (a !== undefined && b !== undefined && a.length === b.length && a.every((rule, i) => rule === b[i]))
  );
}

export function isBuiltIn(table: string, chain: string): boolean {
  return table in BUILT_IN && BUILT_IN[table as Table].includes(chain);
}
