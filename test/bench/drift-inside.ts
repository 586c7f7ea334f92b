/**
 * Run inside a namespace by drift.ts: an agent with many Services, and another program that deletes one rule or one element at a time, and
 * then many. Prints the milliseconds from its commit to the agent's, both as the kernel notifies of them; of many, to the end of the agent's
 * sync. Arguments: mode, Services, endpoints, tries.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { openNotices } from '../../native/nft/notices.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { RulesetJournal } from '../../src/kernel/ruleset-journal.ts';
import { type Commit, isUntouched, tableKey, touchedIn } from '../../src/kernel/ruleset-notices.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { log, startAgent } from '../netns/inside.ts';
import { NEVER } from './trial.ts';

const [mode = 'nftables', services = 10_000, endpoints = 5, tries = 100] = [
  process.argv[2],
  ...process.argv.slice(3).map(Number),
];
const TABLE = tableKey('IPv4', mode === 'nftables' ? 'slicewire' : 'nat');
/** As many repairs are made at once, and so long it must be quiet before the next (src/agent/kernel-watch.ts). */
const [AT_ONCE, QUIET] = [9, 10_500];
const RUNS_OF_FLOOR = 20;
/** Of each command that deletes many. */
const RUNS_OF_MANY = 3;
/** Milliseconds without a commit after which the kernel is at rest. */
const REST = 300;

const address = (i: number) => `10.96.${i >> 8}.${i & 255}`;

function objects(): string {
  const text: string[] = [];
  for (let i = 1; i <= services; i++) {
    const name = `web-${i}`;
    const ports = [{ port: 80 }];
    text.push(JSON.stringify(service({ name, spec: { clusterIP: address(i), clusterIPs: [address(i)], ports } })));
    const pods = Array.from({ length: endpoints }, (_, n) => `10.${128 + (i >> 8)}.${i & 255}.${n + 1}`);
    text.push(JSON.stringify(slice({ name: `${name}-a`, service: name, addressType: 'IPv4', endpoints: pods })));
  }
  return text.join('\n---\n');
}

async function run(file: string, args: readonly string[], input?: string): Promise<string> {
  const command = { file, args, ...(input === undefined ? {} : { input: () => input.split('\n') }) };
  const { exitCode, stdout, stderr } = await realCommands.run(command, NEVER);
  if (exitCode !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** The commits to our table, each with the time when it was heard. */
const heard: { readonly commit: Commit; readonly at: number }[] = [];
const journal = new RulesetJournal({ open: () => openNotices(), rest: 0, starterOf: () => undefined });
let seen = 0;
journal.onCommit(() => {
  const at = performance.now();
  const commit = journal.last;
  if (commit === undefined) return;
  const all = seen === 0 ? [commit] : (journal.between(seen, commit.generation) ?? []);
  seen = commit.generation;
  for (const one of all) {
    const touched = touchedIn([one], TABLE);
    if (touched === undefined || !isUntouched(touched)) heard.push({ commit: one, at });
  }
});

/** The next commit to our table by a program with, or without, this name. */
async function commitBy(name: string, is: boolean): Promise<number> {
  for (;;) {
    const index = heard.findIndex(({ commit }) => (commit.name === name) === is);
    const [found] = index < 0 ? [] : heard.splice(0, index + 1).slice(-1);
    if (found !== undefined) return found.at;
    await pause(1);
  }
}

/** A deletion, and the command that repairs exactly that. */
interface Damage {
  readonly tool: 'nft' | 'iptables';
  readonly args: readonly string[];
  readonly repair: () => Promise<string>;
}

/** By turns one element and one rule. */
async function damageTable(n: number): Promise<Damage> {
  const element = `{ ${address(n + 1)} . tcp . 80 : goto cluster-ip-of-${endpoints} }`;
  const key = `{ ${address(n + 1)} . tcp . 80 }`;
  if (n % 2 === 0) {
    const repair = () => run('nft', ['add', 'element', 'ip', 'slicewire', 'services', element]);
    return { tool: 'nft', args: ['delete', 'element', 'ip', 'slicewire', 'services', key], repair };
  }
  const chain = await run('nft', ['-a', 'list', 'chain', 'ip', 'slicewire', 'cluster-ips']);
  const handle = /# handle (\d+)\n\t}/.exec(chain)?.[1] ?? '';
  const rule =
    chain
      .split('\n')
      .findLast((line) => line.includes('# handle'))
      ?.replace(/# handle.*/, '')
      .trim() ?? '';
  const repair = () => run('nft', ['-f', '-'], `add rule ip slicewire cluster-ips ${rule}`);
  return { tool: 'nft', args: ['delete', 'rule', 'ip', 'slicewire', 'cluster-ips', 'handle', handle], repair };
}

async function damageRules(n: number, chains: readonly string[]): Promise<Damage> {
  const chain = chains[(n * 97) % chains.length] ?? '';
  const rules = (await run('iptables-nft', ['-t', 'nat', '-S', chain]))
    .split('\n')
    .filter((line) => line.startsWith('-A'));
  const input = ['*nat', `:${chain} - [0:0]`, ...rules, 'COMMIT'].join('\n');
  const repair = () => run('iptables-nft-restore', ['--noflush'], `${input}\n`);
  return { tool: 'iptables', args: ['-t', 'nat', '-D', chain, '1'], repair };
}

/** A command that deletes many rules or elements, and the bare tool that writes them again. */
interface Deletion {
  readonly command: string;
  readonly repair: () => Promise<string>;
}

async function deletionsOfTable(): Promise<Deletion[]> {
  const written = (text: string) => () => run('nft', ['-f', '-'], text);
  const [map, table] = [
    await run('nft', ['list', 'map', 'ip', 'slicewire', 'services']),
    await run('nft', ['list', 'table', 'ip', 'slicewire']),
  ];
  return [
    { command: 'nft flush map ip slicewire services', repair: written(map) },
    { command: 'nft delete table ip slicewire', repair: written(table) },
    { command: 'nft flush ruleset', repair: written(table) },
  ];
}

async function deletionsOfRules(): Promise<Deletion[]> {
  const restored = (lines: readonly string[]) => {
    return () => run('iptables-nft-restore', ['--noflush'], `${lines.join('\n')}\n`);
  };
  const all = (await run('iptables-nft-save', [])).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const begin = all.indexOf('*nat');
  const nat = all.slice(begin, all.indexOf('COMMIT', begin) + 1);
  const of = (chain: string) => nat.filter((line) => line.startsWith(`-A ${chain} `));
  const jump = of('PREROUTING')[0]?.replace('-A PREROUTING', '-I PREROUTING 1') ?? '';
  return [
    { command: 'iptables-nft -t nat -D PREROUTING 1', repair: restored(['*nat', jump, 'COMMIT']) },
    {
      command: 'iptables-nft -t nat -F KUBE-SERVICES',
      repair: restored(['*nat', ':KUBE-SERVICES - [0:0]', ...of('KUBE-SERVICES'), 'COMMIT']),
    },
    { command: 'iptables-nft -t nat -F', repair: restored(nat) },
    { command: 'nft flush ruleset', repair: restored(all) },
  ];
}

/** Milliseconds from the commit of the command to the end of the agent's next sync. */
async function repairOf(command: string): Promise<number> {
  const [file = '', ...args] = command.split(' ');
  heard.length = 0;
  const since = log.length;
  const [begin] = await Promise.all([commitBy(file, true), run(file, args)]);
  for (;;) {
    const told = log.findIndex(({ msg }, i) => i >= since && msg.includes('changed rules of ours'));
    const synced = told < 0 ? undefined : log.slice(told).find(({ msg }) => msg === 'synced');
    if (synced !== undefined) return Date.parse(String(synced.time)) - performance.timeOrigin - begin;
    await pause(10);
  }
}

const folder = await mkdtemp(join(tmpdir(), 'drift-'));
await writeFile(join(folder, 'all.yaml'), objects());
const agent = startAgent(
  `--mode=${mode}`,
  '--iptables-backend=nft',
  '--manifests',
  folder,
  '--conntrack-max-per-core',
  '0',
);
while (!log.some(({ msg }) => msg === 'synced')) await pause(50);
const chains =
  mode === 'iptables'
    ? [...new Set((await run('iptables-nft-save', ['-t', 'nat'])).match(/KUBE-SVC-[A-Z0-9]{16}/g))]
    : [];
const damageOf = (n: number) => (mode === 'nftables' ? damageTable(n) : damageRules(n, chains));
journal.listen();
const times: number[] = [];
for (let n = 0; n < tries; n++) {
  await pause(n % AT_ONCE === 0 ? QUIET : REST);
  const { tool, args } = await damageOf(n);
  heard.length = 0;
  const file = tool === 'nft' ? 'nft' : 'iptables-nft';
  const name = file;
  const [begin] = await Promise.all([commitBy(name, true), run(file, args)]);
  times.push((await commitBy(name, false)) - begin);
}
const many: { command: string; times: number[]; floor: number[]; repair: () => Promise<string> }[] = [];
for (const deletion of await (mode === 'nftables' ? deletionsOfTable() : deletionsOfRules())) {
  const of: number[] = [];
  for (let n = 0; n < RUNS_OF_MANY; n++) {
    await pause(QUIET);
    of.push(await repairOf(deletion.command));
  }
  many.push({ ...deletion, times: of, floor: [] });
}
await agent.stop();
const floor: number[] = [];
for (let n = 0; n < RUNS_OF_FLOOR; n++) {
  const { tool, args, repair } = await damageOf(n);
  await run(tool === 'nft' ? 'nft' : 'iptables-nft', args);
  await pause(REST);
  heard.length = 0;
  const began = performance.now();
  await repair();
  while (heard.length === 0) await pause(1);
  floor.push((heard[0]?.at ?? Number.NaN) - began);
}
for (const { command, repair, floor: of } of many) {
  const [file = '', ...args] = command.split(' ');
  for (let n = 0; n < RUNS_OF_MANY; n++) {
    await run(file, args);
    await pause(REST);
    const began = performance.now();
    await repair();
    of.push(performance.now() - began);
  }
}
journal.close();
await rm(folder, { recursive: true });
process.stdout.write(`${JSON.stringify({ times, floor, many })}\n`);
process.exit(0);
