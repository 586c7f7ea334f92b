/** `iptables-restore --noflush`, line by line, as its two variants read and refuse. */

import type { Family } from '../../../../src/base/address.ts';
import type { CommandResult } from '../../../../src/kernel/commands.ts';
import type { Table } from '../../../../src/proxy/modes/netfilter/rules.ts';
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

interface Line {
  readonly number: number;
  readonly text: string;
}

interface Draft {
  readonly table: Table;
  /** The table when it was read. */
  readonly base: Chains;
  readonly chains: Map<string, readonly string[]>;
  /** Chains that the tool knows: without those that it asked the kernel to delete. */
  readonly known: Set<string>;
  readonly lines: readonly Line[];
  /** Something is written. Without it the kernel is not asked, and there is no new generation. */
  isChanged: boolean;
}

/** Why a line cannot be carried out; `busy`: the kernel keeps the chain, because it has rules, or rules lead to it. */
interface Problem {
  readonly kind: 'no target' | 'no chain' | 'no rule' | 'busy' | 'refused';
  readonly name: string;
}

/** Carries out the lines. Yields before each commit of a table: the caller may stop there, and others may run meanwhile. */
export function* restore(lines: readonly string[], input: RestoreInput): Generator<Table, CommandResult> {
  let draft: (Draft & { readonly lines: Line[] }) | undefined;
  for (const [i, text] of lines.entries()) {
    const number = i + 1;
    if (text === '' || text.startsWith('#')) continue;
    if (text.startsWith('*')) {
      const table = TABLES.find((name) => name === text.slice(1));
      if (table === undefined) return unreadable(input, number);
      draft = { ...draftOf(table, input.store.used(input.family, table)), lines: [] };
    } else if (draft === undefined) return unreadable(input, number);
    else if (text === 'COMMIT') {
      yield draft.table;
      const ended = commit(draft, input, number);
      if (ended !== undefined) return ended;
      draft = undefined;
    } else {
      const ended = read(draft, { number, text }, input);
      if (ended !== undefined) return ended;
      draft.lines.push({ number, text });
    }
  }
  if (draft !== undefined)
    return { exitCode: 1, stdout: '', stderr: `${input.version}: COMMIT expected at line ${lines.length + 1}\n` };
  return { exitCode: 0, stdout: '', stderr: '' };
}

function draftOf(table: Table, base: Chains): Omit<Draft, 'lines'> {
  return { table, base, chains: new Map(base), known: new Set(base.keys()), isChanged: false };
}

/** Reads a line. The legacy tool also carries it out in its copy of the table; the other one does at the commit. */
function read(draft: Draft, { number, text }: Line, input: RestoreInput): CommandResult | undefined {
  if (!isReadable(draft.table, text)) return unreadable(input, number);
  const set = / --match-set (\S+) /.exec(text)?.[1];
  if (set !== undefined && !input.hasSet(set)) return usage(input, `Set ${set} doesn't exist.\n`, number);
  if (draft.table === 'nat' && targetOf(text) === 'DROP') return usage(input, NO_DROP, number);
  if (!input.isLegacy) return undefined;
  const problem = carryOut(draft, text);
  if (problem === undefined) return undefined;
  if (problem.kind === 'no target')
    return usage(input, `Couldn't load target \`${problem.name}':No such file or directory\n`, number);
  return { exitCode: 1, stdout: '', stderr: `${nameOf(input)}: line ${number} failed\n` };
}

/** What others wrote meanwhile stays: the kernel refuses a stale transaction, and the tool reads the table anew. */
function commit({ table, lines, ...read }: Draft, input: RestoreInput, number: number): CommandResult | undefined {
  const now = input.store.used(input.family, table);
  const isDone = input.isLegacy && now === read.base;
  const draft = isDone ? { ...read, table, lines } : { ...draftOf(table, now), lines };
  const refused: (Line & Problem)[] = [];
  for (const line of lines) {
    const problem = isDone ? undefined : carryOut(draft, line.text);
    if (problem !== undefined && (input.isLegacy || problem.kind !== 'busy'))
      return refusalOfTool(input, { ...line, ...problem }, number);
    if (problem !== undefined) refused.push({ ...line, ...problem });
    else if (input.refuses(line.text)) refused.push({ ...line, kind: 'refused', name: line.text.split(' ')[1] ?? '' });
  }
  if (refused.length > 0) return refusalOfKernel(input, refused, number);
  if (draft.isChanged) input.store.commit(input.family, table, draft.chains);
  return undefined;
}

/** iptables/xtables.c */
const NO_DROP = '\nThe "nat" table is not intended for filtering, the use of DROP is therefore inhibited.\n\n';
const VERBS: ReadonlySet<string> = new Set(['-A', '-D', '-X']);

function isReadable(table: Table, text: string): boolean {
  const declared = declaredIn(text);
  if (declared !== undefined) return declared.length <= 28 && !isBuiltIn(table, declared);
  const [verb = '', , place] = text.split(' ');
  return VERBS.has(verb) || (verb === '-I' && place === '1');
}

/** `:KUBE-SERVICES - [0:0]` */
function declaredIn(text: string): string | undefined {
  return /^:(\S+) - \[0:0\]$/.exec(text)?.[1];
}

/** Changes the draft, or says why not. */
function carryOut(draft: Draft, text: string): Problem | undefined {
  const { chains, known } = draft;
  const declared = declaredIn(text);
  if (declared !== undefined) {
    draft.isChanged ||= chains.get(declared)?.length !== 0;
    chains.set(declared, []);
    known.add(declared);
    return undefined;
  }
  const [verb, name = '', ...rest] = text.split(' ');
  if (verb === '-X') return deleteChain(draft, name);
  const rule = (verb === '-I' ? rest.slice(1) : rest).join(' ');
  const target = targetOf(rule);
  if (target !== undefined && !TARGETS.has(target) && !known.has(target)) return { kind: 'no target', name: target };
  const rules = known.has(name) ? chains.get(name) : undefined;
  if (verb === '-D') {
    const at = rules?.indexOf(rule) ?? -1;
    if (rules === undefined || at < 0) return { kind: 'no rule', name };
    chains.set(name, rules.toSpliced(at, 1));
  } else if (rules === undefined) return { kind: 'no chain', name };
  else chains.set(name, verb === '-A' ? [...rules, rule] : [rule, ...rules]);
  draft.isChanged = true;
  return undefined;
}

function deleteChain(draft: Draft, name: string): Problem | undefined {
  const { chains, known, table } = draft;
  const rules = chains.get(name);
  if (rules === undefined || !known.delete(name)) return { kind: 'no chain', name };
  const isReferred = [...chains.values()].some((other) => other.some((rule) => targetOf(rule) === name));
  if (rules.length > 0 || isReferred || isBuiltIn(table, name)) return { kind: 'busy', name };
  chains.delete(name);
  draft.isChanged = true;
  return undefined;
}

/** The chain or target of a rule; comments may contain the same text. */
export function targetOf(rule: string): string | undefined {
  return /(?:^| )-[jg] (\S+)/.exec(rule.replace(/"(?:\\.|[^"])*"/g, ''))?.[1];
}

/** `iptables-restore` */
function nameOf({ version }: RestoreInput): string {
  return version.split(' ')[0] ?? '';
}

/** What the tool itself finds at the commit: the line of a jump to nowhere is not named, but that of COMMIT. */
function refusalOfTool(input: RestoreInput, { kind, name, number }: Line & Problem, commitLine: number): CommandResult {
  if (kind === 'no target') return usage(input, `Chain '${name}' does not exist`, commitLine);
  const why =
    kind === 'no rule'
      ? 'Bad rule (does a matching rule exist in that chain?).'
      : 'No chain/target/match by that name.';
  return { exitCode: 1, stdout: '', stderr: `${nameOf(input)}: line ${number} failed: ${why}\n` };
}

/** The legacy tool names only the line of COMMIT. */
function refusalOfKernel(input: RestoreInput, refused: readonly (Line & Problem)[], commitLine: number): CommandResult {
  if (input.isLegacy) return { exitCode: 1, stdout: '', stderr: `${nameOf(input)}: line ${commitLine} failed\n` };
  const lines = refused.map(({ number, kind, name }) =>
    kind === 'busy'
      ? `line ${number}: CHAIN_DEL failed (Device or resource busy): chain ${name}\n`
      : `line ${number}: RULE_APPEND failed (No such file or directory): rule in chain ${name}\n`,
  );
  return { exitCode: 4, stdout: '', stderr: `${input.version}: \n${lines.join('')}` };
}

function unreadable(input: RestoreInput, line: number): CommandResult {
  return usage(input, 'unknown option', line);
}

function usage(input: RestoreInput, problem: string, line: number): CommandResult {
  const name = nameOf(input);
  const help = `Try \`${name} -h' or '${name} --help' for more information.\n`;
  return { exitCode: 2, stdout: '', stderr: `${input.version}: ${problem}\nError occurred at line: ${line}\n${help}` };
}
