/**
 * iptables in memory, behind the seam to commands. It refuses the same input as the real one: a jump to a missing chain, a rule in an
 * unknown chain, the deletion of a chain that is in use or not empty, and lines that it cannot read.
 */

import { FAMILIES } from '../../../src/base/address.ts';
import type { Command, CommandResult, CommandRunner } from '../../../src/kernel/commands.ts';

type Tables = Map<string, Map<string, string[]>>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
};
const TARGETS = new Set(['ACCEPT', 'DROP', 'RETURN', 'REJECT', 'MARK', 'DNAT', 'MASQUERADE']);

export interface FakeOptions {
  /** Called before a command. Its result is the answer, and the command does not run. */
  readonly intercept?: (command: Command) => CommandResult | undefined;
  /** Behaves as the legacy tool: a refused restore names only the line of COMMIT. */
  readonly legacy?: boolean;
  /** Called after each commit of a table: packets may flow between two of them. */
  readonly onCommit?: () => void;
  /** Whether the set of a rule exists; by default none does. */
  readonly hasSet?: (name: string) => boolean;
  /** Lines that the kernel refuses at the commit. */
  readonly refuse?: (line: string) => boolean;
}

export class FakeIptables implements CommandRunner {
  /** The state of each family. */
  readonly kernels: Readonly<Record<'IPv4' | 'IPv6', Tables>> = { IPv4: emptyTables(), IPv6: emptyTables() };
  /** Policies of built-in chains of the filter table, where they are not ACCEPT. */
  readonly policies = new Map<string, 'DROP'>();
  /** Every command that ran: its file and the lines of its input. */
  readonly ran: { file: string; lines: readonly string[] }[] = [];
  options: FakeOptions;

  constructor(options: FakeOptions = {}) {
    this.options = options;
  }

  run(command: Command): Promise<CommandResult> {
    return Promise.resolve(this.options.intercept?.(command) ?? this.#run(command));
  }

  /** The output of `iptables-save`. */
  save(family: 'IPv4' | 'IPv6'): string {
    const lines: string[] = [];
    for (const [table, chains] of this.kernels[family]) {
      lines.push(`*${table}`);
      for (const chain of chains.keys()) lines.push(`:${chain} ${this.#policy(table, chain)} [0:0]`);
      for (const [chain, rules] of chains) for (const rule of rules) lines.push(`-A ${chain} ${rule}`);
      lines.push('COMMIT');
    }
    return `${lines.join('\n')}\n`;
  }

  /** Whether a rule refers to a set. */
  refersTo(set: string): boolean {
    const rules = FAMILIES.flatMap((family) =>
      [...this.kernels[family].values()].flatMap((chains) => [...chains.values()]),
    );
    return rules.some((chain) => chain.some((rule) => rule.includes(` --match-set ${set} `)));
  }

  /** The number of restores so far. */
  get restores(): number {
    return this.ran.filter(({ file }) => file.endsWith('-restore')).length;
  }

  #policy(table: string, chain: string): string {
    if (!isBuiltIn(table, chain)) return '-';
    return table === 'filter' ? (this.policies.get(chain) ?? 'ACCEPT') : 'ACCEPT';
  }

  #run({ file, args, input }: Command): CommandResult {
    const family = file.startsWith('ip6') ? 'IPv6' : 'IPv4';
    const lines = [...(input?.() ?? [])];
    this.ran.push({ file, lines });
    if (args[0] === '--version') return answer(0, 'iptables v1.8.9 (fake)\n');
    if (file.endsWith('-save')) return answer(0, this.save(family));
    if (file.endsWith('-restore')) return this.#restore(family, lines);
    const table = args[args.indexOf('-t') + 1] ?? 'filter';
    const chain = args[args.indexOf('-S') + 1] ?? '';
    const rules = this.kernels[family].get(table)?.get(chain);
    if (rules === undefined) return answer(1, '', 'iptables: No chain/target/match by that name.');
    return answer(0, [`-N ${chain}`, ...rules.map((rule) => `-A ${chain} ${rule}`), ''].join('\n'));
  }

  #restore(family: 'IPv4' | 'IPv6', lines: readonly string[]): CommandResult {
    const kernel = this.kernels[family];
    let draft: { table: string; chains: Map<string, string[]>; refused: number | undefined } | undefined;
    for (const [i, line] of lines.entries()) {
      const number = i + 1;
      if (line.startsWith('*')) {
        const table = line.slice(1);
        const chains = new Map([...(kernel.get(table) ?? [])].map(([name, rules]) => [name, [...rules]]));
        draft = { table, chains, refused: undefined };
      } else if (draft === undefined) return unreadable(number);
      else if (line === 'COMMIT') {
        const refused = draft.refused ?? this.#dangling(draft, lines.slice(0, i)) ?? undefined;
        if (refused !== undefined) return this.#refusal(refused, number);
        kernel.set(draft.table, draft.chains);
        this.options.onCommit?.();
        draft = undefined;
      } else {
        const problem = edit(draft, line);
        if (problem === 'unreadable') return unreadable(number);
        const set = / --match-set (\S+) /.exec(line)?.[1];
        const lacksSet = set !== undefined && !line.startsWith('-D') && this.options.hasSet?.(set) !== true;
        if (problem === 'refused' || lacksSet || this.options.refuse?.(line) === true) draft.refused ??= number;
      }
    }
    return answer(0, '');
  }

  /** The line of a rule whose target does not exist when its table is committed. */
  #dangling(draft: { chains: Map<string, string[]> }, lines: readonly string[]): number | undefined {
    for (const [chain, rules] of draft.chains) {
      for (const rule of rules) {
        const target = / ?-[jg] (\S+)/.exec(rule)?.[1];
        if (target === undefined || TARGETS.has(target) || draft.chains.has(target)) continue;
        return Math.max(1, lines.lastIndexOf(`-A ${chain} ${rule}`) + 1);
      }
    }
    return undefined;
  }

  #refusal(line: number, commit: number): CommandResult {
    if (this.options.legacy === true) return answer(1, '', `iptables-restore: line ${commit} failed`);
    return answer(
      4,
      '',
      `iptables-restore v1.8.9 (nf_tables): \nline ${line}: RULE_APPEND failed (No such file or directory)`,
    );
  }
}

function edit(
  draft: { table: string; chains: Map<string, string[]> },
  line: string,
): 'unreadable' | 'refused' | undefined {
  const { chains, table } = draft;
  const declared = /^:(\S+) - \[0:0\]$/.exec(line)?.[1];
  if (declared !== undefined) {
    if (declared.length > 28 || isBuiltIn(table, declared)) return 'unreadable';
    chains.set(declared, []);
    return undefined;
  }
  const [verb, chain = '', ...rest] = line.split(' ');
  const rules = chains.get(chain);
  if (rules === undefined) return 'refused';
  if (verb === '-A') rules.push(rest.join(' '));
  else if (verb === '-I' && rest[0] === '1') rules.unshift(rest.slice(1).join(' '));
  else if (verb === '-D') {
    const at = rules.indexOf(rest.join(' '));
    if (at < 0) return 'refused';
    rules.splice(at, 1);
  } else if (verb === '-X') {
    const isReferred = [...chains.values()].some((other) => other.some((rule) => rule.endsWith(` ${chain}`)));
    if (rules.length > 0 || isReferred || isBuiltIn(table, chain)) return 'refused';
    chains.delete(chain);
  } else return 'unreadable';
  return undefined;
}

function emptyTables(): Tables {
  return new Map(
    Object.entries(BUILT_IN).map(([table, chains]) => [table, new Map(chains.map((chain) => [chain, []]))]),
  );
}

function isBuiltIn(table: string, chain: string): boolean {
  return BUILT_IN[table]?.includes(chain) === true;
}

function answer(exitCode: number, stdout: string, stderr = ''): CommandResult {
  return { exitCode, stdout, stderr };
}

function unreadable(line: number): CommandResult {
  return answer(2, '', `iptables-restore v1.8.9 (fake): cannot read this\nError occurred at line: ${line}`);
}
