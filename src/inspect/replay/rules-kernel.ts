/** The rules of iptables in memory, behind the seam to commands. Every write succeeds: a recording says what the kernel refused. */

import { FAMILIES, type Family } from '../../base/address.ts';
import type { Command, CommandResult, CommandRunner } from '../../kernel/commands.ts';

type Chains = Map<string, string[]>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
};

export function rulesKernel(): CommandRunner {
  const tables = new Map(FAMILIES.map((family) => [family, emptyTables()]));
  return {
    run: (command) => Promise.resolve(runCommand(tables, command)),
  };
}

function emptyTables(): Map<string, Chains> {
  const tables = Object.entries(BUILT_IN);
  return new Map(tables.map(([table, chains]) => [table, new Map(chains.map((chain) => [chain, []]))]));
}

function runCommand(families: ReadonlyMap<Family, Map<string, Chains>>, { file, args, input }: Command): CommandResult {
  const tables = families.get(file.startsWith('ip6') ? 'IPv6' : 'IPv4') ?? new Map<string, Chains>();
  if (file.endsWith('-save')) return done(saved(tables));
  if (file.endsWith('-restore')) {
    restore(tables, input?.() ?? []);
    return done('');
  }
  const chain = args[args.indexOf('-S') + 1] ?? '';
  const exists = tables.get(args[args.indexOf('-t') + 1] ?? '')?.has(chain) === true;
  return exists ? done('') : { exitCode: 1, stdout: '', stderr: 'No chain/target/match by that name.' };
}

function done(stdout: string): CommandResult {
  return { exitCode: 0, stdout, stderr: '' };
}

function saved(tables: ReadonlyMap<string, Chains>): string {
  const lines: string[] = [];
  for (const [table, chains] of tables) {
    lines.push(`*${table}`);
    for (const name of chains.keys())
      lines.push(`:${name} ${BUILT_IN[table]?.includes(name) === true ? 'ACCEPT' : '-'} [0:0]`);
    for (const [name, rules] of chains) for (const rule of rules) lines.push(`-A ${name} ${rule}`);
    lines.push('COMMIT');
  }
  return `${lines.join('\n')}\n`;
}

/** Lines of iptables-restore, as `proxy/modes/netfilter/restore-text.ts` writes them. */
function restore(tables: ReadonlyMap<string, Chains>, lines: Iterable<string>): void {
  let chains: Chains = new Map();
  for (const line of lines) {
    if (line.startsWith('*')) chains = tables.get(line.slice(1)) ?? new Map();
    else if (line.startsWith(':')) chains.set(line.slice(1, line.indexOf(' ')), []);
    else edit(chains, line);
  }
}

function edit(chains: Chains, line: string): void {
  const [verb, name = '', ...rest] = line.split(' ');
  const rules = chains.get(name) ?? [];
  if (verb === '-A') rules.push(rest.join(' '));
  else if (verb === '-I') rules.unshift(rest.slice(1).join(' '));
  else if (verb === '-D' && rules.includes(rest.join(' '))) rules.splice(rules.indexOf(rest.join(' ')), 1);
  else if (verb === '-X') chains.delete(name);
}
