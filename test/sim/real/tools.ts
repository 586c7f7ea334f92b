/** Writes of iptables of a history, done by the real tools. */

import type { Family } from '../../../src/base/address.ts';
import type { CommandResult } from '../../../src/kernel/commands.ts';
import { SaveReader } from '../../../src/proxy/modes/netfilter/restore-text.ts';
import type { RulesEdit, ToolStep } from '../kernel/iptables/iptables.ts';
import { isBuiltIn } from '../kernel/iptables/rule-store.ts';
import type { RealNode } from './node.ts';
import type { KernelState, WriteRecord } from './record.ts';
import { unlike } from './transactions.ts';

type Variant = WriteRecord['variant'];

/** Differences between how the two tools ended. */
export async function runTool(node: RealNode, step: ToolStep, variant: Variant): Promise<readonly string[]> {
  const { command, lines, offset, result } = step;
  const input = lines && { input: () => lines };
  const real = await node.run({ file: fileOf(command.file, variant), args: command.args, ...input });
  const [ours, theirs] = [endOf(result), endOf(real, offset)];
  if (ours === theirs) return [];
  const what = `${command.file} ${command.args.join(' ')}`;
  return [
    `${what}: simulated ${ours}`,
    `${what}: real ${theirs}`,
    ...(lines ?? []).map((line, i) => `  ${i + 1 + offset} ${line}`),
  ];
}

/** The tool of this variant by its own name: the command without one may be of the other variant on this machine. */
function fileOf(file: string, variant: Variant): string {
  const [, base = file, named, verb = ''] = /^(ip6?tables)(-nft|-legacy)?(-save|-restore)?$/.exec(file) ?? [];
  return `${base}${named ?? `-${variant}`}${verb}`;
}

/**
 * With the lines counted from the beginning of the whole input, without versions, names of variants in commands, and the warning of tables
 * of the other variant.
 */
function endOf({ exitCode, stdout, stderr }: CommandResult, offset = 0): string {
  const text = [stdout, stderr].map((output) =>
    output
      .replace(/ v\d+\.\d+\.\d+/g, '')
      .replace(/(?<=\bip6?tables)-(nft|legacy)\b/g, '')
      .replace(/^# Warning: .*\n/gm, '')
      .replace(/(?<=\bline:? )\d+/g, (line) => String(Number(line) + offset)),
  );
  return JSON.stringify([exitCode, ...text]);
}

/** What another program did, by its command, or by one restore. Throws when the tool refuses. */
export async function runEdit(node: RealNode, edit: RulesEdit, variant: Variant): Promise<void> {
  const tool = `${toolOf(edit.family)}-${variant}`;
  const lines = linesOfEdit(edit);
  const restore = { file: `${tool}-restore`, args: ['--noflush', '--wait', '5'], input: () => lines };
  const { args } = edit;
  const command = args === undefined ? restore : { file: tool, args: ['--wait', '5', '-t', edit.table, ...args] };
  const { exitCode, stderr } = await node.run(command);
  if (exitCode !== 0) throw new Error(`${tool} refused what another program wrote: ${stderr}\n${lines.join('\n')}`);
}

function linesOfEdit({ table, before, after }: RulesEdit): readonly string[] {
  const changed = [...after].filter(([name, rules]) => before.get(name)?.join('\n') !== rules.join('\n'));
  const gone = [...before.keys()].filter((name) => !after.has(name));
  return [
    `*${table}`,
    ...[...changed.map(([name]) => name), ...gone].map((name) =>
      isBuiltIn(table, name) ? `-F ${name}` : `:${name} - [0:0]`,
    ),
    ...changed.flatMap(([name, rules]) => rules.map((rule) => `-A ${name} ${rule}`)),
    ...gone.map((name) => `-X ${name}`),
    'COMMIT',
  ];
}

function toolOf(family: Family): string {
  return family === 'IPv4' ? 'iptables' : 'ip6tables';
}

/** Differences between the rules of a family. */
export async function compareRules(node: RealNode, { tables }: KernelState, family: Family, variant: Variant) {
  const { stdout } = await node.run({ file: `${toolOf(family)}-${variant}-save`, args: [] });
  const reader = new SaveReader();
  for (const line of stdout.split('\n')) reader.read(line);
  const simulated: string[] = [];
  for (const [key, chains] of tables) {
    const [of, table = ''] = key.split(' ');
    if (of === family) simulated.push(...linesOf(table, chains));
  }
  const real = [...reader.end()].flatMap(([table, chains]) => linesOf(table, chains));
  return unlike(simulated, real).map((line) => `${family} rules: ${line}`);
}

/** A built-in chain without rules is the same as none. */
function linesOf(table: string, chains: ReadonlyMap<string, readonly string[]>): string[] {
  return [...chains].flatMap(([chain, rules]) => [
    ...(isBuiltIn(table, chain) ? [] : [`${table} chain ${chain}`]),
    ...rules.map((rule, i) => `${table} ${chain} ${i + 1}: ${rule}`),
  ]);
}
