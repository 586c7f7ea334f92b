/** The parts of an agent over kernels in memory, from the settings in a recording. */

import { FAMILIES, type Family } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import { Cache } from '../../cluster/cache/cache.ts';
import type { Command, CommandResult, CommandRunner } from '../../kernel/commands.ts';
import { IptablesTools } from '../../kernel/iptables-tools.ts';
import type { IpvsKernel } from '../../kernel/ipvs-kernel.ts';
import type { NftKernel } from '../../kernel/nftables-kernel.ts';
import type { Sysctls } from '../../kernel/sysctls.ts';
import { Flows } from '../../proxy/model/flows.ts';
import { ProxyModel } from '../../proxy/model/proxy-model.ts';
import { iptablesMode } from '../../proxy/modes/iptables/index.ts';
import { ipvsMode } from '../../proxy/modes/ipvs/index.ts';
import type { Mode } from '../../proxy/modes/mode.ts';
import { nftablesMode } from '../../proxy/modes/nftables/index.ts';
import type { Plan } from '../../proxy/reconcile/step.ts';
import { SyncLoop } from '../../proxy/sync/loop.ts';
import type { RecordedParts } from '../history/shapes.ts';
import { serversKernel, tableKernel } from './kernels-in-memory.ts';

/** The kernels that a replay writes to. */
export interface ReplayKernels {
  readonly commands: CommandRunner;
  readonly nft: NftKernel;
  readonly ipvs: IpvsKernel;
  readonly sysctls: Sysctls;
}

/** Kernels that take every write and keep it. */
export function believingKernels({ interfaces }: Pick<RecordedParts, 'interfaces'>): ReplayKernels {
  const values = new Map<string, string>();
  return {
    commands: rulesKernel(),
    nft: tableKernel(),
    ipvs: serversKernel(interfaces),
    sysctls: {
      read: (name) => Promise.resolve(values.get(name) ?? '0'),
      write(name, value) {
        values.set(name, value);
        return Promise.resolve();
      },
    },
  };
}

export interface ReplayedParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  readonly mode: Mode;
  readonly loop: SyncLoop;
}

export interface PartsInput {
  readonly recorded: RecordedParts;
  readonly kernels: ReplayKernels;
  readonly clock: Clock;
  /** The mode's clock. */
  readonly modeTime: () => number;
  readonly onPlan: (plan: Plan) => void;
}

export function replayedParts({ recorded, kernels, clock, modeTime, onPlan }: PartsInput): ReplayedParts {
  const cache = new Cache();
  const { nodeName, servesExternalIPs } = recorded;
  const mode = modeOf(recorded.settings, kernels, modeTime);
  const model = new ProxyModel({ nodeName, zone: '' }, { servesExternalIPs });
  const ignored = () => undefined;
  const loop = new SyncLoop({
    ...{ cache, model, mode, clock, nodeName, onPlan },
    flows: new Flows((at) => model.frontend(at)),
    // Refused Services are tried again at each sync: these kernels refuse nothing that does not change.
    retry: 0,
    onFault: ignored,
    onUnread: ignored,
  });
  return { cache, model, mode, loop };
}

function modeOf(settings: RecordedParts['settings'], kernels: ReplayKernels, now: () => number): Mode {
  const { commands, sysctls } = kernels;
  const withTools = <S extends { readonly family: 'IPv4' | 'IPv6' }>(families: readonly S[]) =>
    families.map((one) => ({ settings: one, tools: new IptablesTools(commands, one.family, 'auto'), sysctls }));
  if (settings.mode === 'iptables') return iptablesMode(withTools(settings.families));
  if (settings.mode === 'nftables') {
    const families = settings.families.map((one) => ({ ...one, serviceCidrs: one.serviceCidrs ?? undefined }));
    return nftablesMode({ families, kernel: kernels.nft, now });
  }
  const { node, kernelSettings } = settings;
  return ipvsMode({
    families: withTools(settings.families),
    kernel: kernels.ipvs,
    questions: { ask: (question) => question(kernels.ipvs) },
    sysctls,
    node,
    wantedSettings: new Map(kernelSettings),
  });
}

type SavedChains = Map<string, string[]>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
};

/** The rules of iptables in memory, behind the seam to commands. Every write succeeds: a recording says what the kernel refused. */
function rulesKernel(): CommandRunner {
  const tables = new Map(FAMILIES.map((family) => [family, emptyTables()]));
  return {
    run: (command) => Promise.resolve(runCommand(tables, command)),
  };
}

function emptyTables(): Map<string, SavedChains> {
  const tables = Object.entries(BUILT_IN);
  return new Map(tables.map(([table, chains]) => [table, new Map(chains.map((chain) => [chain, []]))]));
}

function runCommand(
  families: ReadonlyMap<Family, Map<string, SavedChains>>,
  { file, args, input }: Command,
): CommandResult {
  const tables = families.get(file.startsWith('ip6') ? 'IPv6' : 'IPv4') ?? new Map<string, SavedChains>();
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

function saved(tables: ReadonlyMap<string, SavedChains>): string {
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
function restore(tables: ReadonlyMap<string, SavedChains>, lines: Iterable<string>): void {
  let chains: SavedChains = new Map();
  for (const line of lines) {
    if (line.startsWith('*')) chains = tables.get(line.slice(1)) ?? new Map();
    else if (line.startsWith(':')) chains.set(line.slice(1, line.indexOf(' ')), []);
    else edit(chains, line);
  }
}

function edit(chains: SavedChains, line: string): void {
  const [verb, name = '', ...rest] = line.split(' ');
  const rules = chains.get(name) ?? [];
  if (verb === '-A') rules.push(rest.join(' '));
  else if (verb === '-I') rules.unshift(rest.slice(1).join(' '));
  else if (verb === '-D' && rules.includes(rest.join(' '))) rules.splice(rules.indexOf(rest.join(' ')), 1);
  else if (verb === '-X') chains.delete(name);
}
