/** `iptables-restore --noflush`, line by line, as its two variants read and refuse. */
import type { CommandResult } from '../../../../src/host/commands.ts';
import type { Family } from '../../../../src/model/address.ts';
import type { Table } from '../../../../src/modes/netfilter/rules.ts';
import { type Chains, isBuiltIn, type RuleStore, TABLES } from './rule-store.ts';

const TARGETS: ReadonlySet<string> = new Set([
  'ACCEPT',
  'DROP',
  'RETURN',
  'REJECT',
  'MARK',
  'DNAT',
  'MASQUERADE',
  'LOG',
]);

export interface RestoreInput {
  readonly store: RuleStore;
  readonly family: Family;
  /** For messages: `iptables-restore v1.8.9 (nf_tables)`. */
  readonly version: string;
  readonly isLegacy: boolean;
  readonly hasSet: (name: string) => boolean;
  /** Rules that the kernel refuses at the commit. */
  readonly refuses: (line: string) => boolean;
}

interface Draft {
  readonly table: Table;
  /** The table when it was read. */
  readonly base: Chains;
  readonly chains: Map<string, readonly string[]>;
  /** Something is written. Without it the kernel is not asked, and there is no new generation. */
  isChanged: boolean;
  /** The first line that the kernel will refuse, and what it says. */
  refused: { readonly line: number; readonly verb: string } | undefined;
}

/** Carries out the lines. Yields before each commit of a table: the caller may stop there, and others may run meanwhile. */
export function* restore(lines: readonly string[], input: RestoreInput): Generator<Table, CommandResult> {
  let draft: Draft | undefined;
  for (const [i, line] of lines.entries()) {
    const number = i + 1;
    if (line === '' || line.startsWith('#')) continue;
    if (line.startsWith('*')) {
      const table = TABLES.find((name) => name === line.slice(1));
      if (table === undefined) return unreadable(input, number);
      draft = draftOf(table, input.store.used(input.family, table));
    } else if (draft === undefined) return unreadable(input, number);
    else if (line === 'COMMIT') {
      yield draft.table;
      // What others wrote meanwhile stays: the kernel refuses a stale transaction, and the tool reads the table anew.
      const now = input.store.used(input.family, draft.table);
      if (now !== draft.base) draft = redone(draft, now, lines.slice(0, i));
      const refused: Draft['refused'] = draft.refused ?? dangling(draft, lines.slice(0, i));
      if (refused !== undefined) return refusal(input, refused, number);
      if (draft.isChanged) input.store.commit(input.family, draft.table, draft.chains);
      draft = undefined;
    } else {
      const problem = edit(draft, line);
      if (problem === 'unreadable') return unreadable(input, number);
      if (problem !== undefined || isRefused(line, input)) draft.refused ??= { line: number, verb: verbOf(line) };
    }
  }
  if (draft !== undefined)
    return { exitCode: 1, stdout: '', stderr: `${input.version}: COMMIT expected at line ${lines.length + 1}\n` };
  return { exitCode: 0, stdout: '', stderr: '' };
}

function isRefused(line: string, { hasSet, refuses }: RestoreInput): boolean {
  const set = / --match-set (\S+) /.exec(line)?.[1];
  return (set !== undefined && !line.startsWith('-D') && !hasSet(set)) || refuses(line);
}

function draftOf(table: Table, base: Chains): Draft {
  return { table, base, chains: new Map(base), isChanged: false, refused: undefined };
}

/** The same edits on the table as it is now. */
function redone({ table, refused }: Draft, now: Chains, before: readonly string[]): Draft {
  const start = before.lastIndexOf(`*${table}`) + 1;
  const draft: Draft = { ...draftOf(table, now), refused };
  for (const [i, line] of before.entries()) {
    if (i < start || edit(draft, line) === undefined) continue;
    draft.refused ??= { line: i + 1, verb: verbOf(line) };
  }
  return draft;
}

function edit(draft: Draft, line: string): 'unreadable' | 'refused' | undefined {
  const { table, chains } = draft;
  const declared = /^:(\S+) - \[0:0\]$/.exec(line)?.[1];
  if (declared !== undefined) {
    if (declared.length > 28 || isBuiltIn(table, declared)) return 'unreadable';
    draft.isChanged ||= chains.get(declared)?.length !== 0;
    chains.set(declared, []);
    return undefined;
  }
  const [verb, chain = '', ...rest] = line.split(' ');
  const rules = chains.get(chain);
  if (rules === undefined) return 'refused';
  if (verb === '-A') chains.set(chain, [...rules, rest.join(' ')]);
  else if (verb === '-I' && rest[0] === '1') chains.set(chain, [rest.slice(1).join(' '), ...rules]);
  else if (verb === '-D') {
    const at = rules.indexOf(rest.join(' '));
    if (at < 0) return 'refused';
    chains.set(chain, rules.toSpliced(at, 1));
  } else if (verb === '-X') {
    const isReferred = [...chains.values()].some((other) => other.some((rule) => targetOf(rule) === chain));
    if (rules.length > 0 || isReferred || isBuiltIn(table, chain)) return 'refused';
    chains.delete(chain);
  } else return 'unreadable';
  draft.isChanged = true;
  return undefined;
}

/** The chain or target of a rule; comments may contain the same text. */
export function targetOf(rule: string): string | undefined {
  return /(?:^| )-[jg] (\S+)/.exec(rule.replace(/"(?:\\.|[^"])*"/g, ''))?.[1];
}

/** The line of a rule whose target does not exist when its table is committed. */
function dangling({ chains }: Draft, lines: readonly string[]): Draft['refused'] {
  for (const [chain, rules] of chains) {
    for (const rule of rules) {
      const target = targetOf(rule);
      if (target === undefined || TARGETS.has(target) || chains.has(target)) continue;
      return { line: Math.max(1, lines.lastIndexOf(`-A ${chain} ${rule}`) + 1), verb: 'RULE_APPEND' };
    }
  }
  return undefined;
}

function verbOf(line: string): string {
  if (line.startsWith('-X')) return 'CHAIN_DEL';
  return line.startsWith('-D') ? 'RULE_DELETE' : 'RULE_APPEND';
}

/** The legacy tool names only the line of COMMIT. */
function refusal(
  { isLegacy, version }: RestoreInput,
  refused: NonNullable<Draft['refused']>,
  commit: number,
): CommandResult {
  if (isLegacy) return { exitCode: 1, stdout: '', stderr: `iptables-restore: line ${commit} failed\n` };
  const { line, verb } = refused;
  return {
    exitCode: 4,
    stdout: '',
    stderr: `${version}: \nline ${line}: ${verb} failed (No such file or directory): rule in chain\n`,
  };
}

function unreadable({ version }: RestoreInput, line: number): CommandResult {
  const stderr = `${version}: unknown option\nError occurred at line: ${line}\nTry \`iptables-restore -h' or 'iptables-restore --help' for more information.\n`;
  return { exitCode: 2, stdout: '', stderr };
}
