/** Removes the rules of predecessors on this machine, which are other modes and kube-proxy: once this mode serves, or all of them for `cleanup`. */
import { FAMILIES, type Family } from '../base/address.ts';
import type { Config } from '../config/config.ts';
import type { RulesProbe } from '../kernel/chain-probe.ts';
import { SERVICE_DEVICE } from '../kernel/devices.ts';
import { type ChainQuery, IptablesError, type IptablesTools } from '../kernel/iptables-tools.ts';
import { IpvsUnusable } from '../kernel/ipvs-kernel.ts';
import { NftMissing, NftUnusable, TABLE } from '../kernel/nftables-kernel.ts';
import { MODES, type ModeName } from '../proxy/model/modes.ts';
import { ipvsPredecessor as leftByIpvs } from '../proxy/modes/ipvs/index.ts';
import { CleanupIncomplete, type Mode, ServersLeft } from '../proxy/modes/mode.ts';
import { OUT_FILTER } from '../proxy/modes/netfilter/names.ts';
import { rulesPredecessor as leftByIptables } from '../proxy/modes/netfilter/rules-family.ts';
import { tablesPredecessor as leftByNftables, type TableId } from '../proxy/modes/nftables/index.ts';
import type { OnSetKept } from '../proxy/modes/virtual-servers/apply.ts';
import { isProxySet } from '../proxy/modes/virtual-servers/sets.ts';
import { ipvsOptions, type OnMachine } from './mode-settings.ts';
import type { Sign } from './other-proxies.ts';
import { closeOnError, type Machine, type OpenNftables, type Platform } from './platform.ts';
import { mayHoldChains, openTools } from './usable-families.ts';

interface Predecessor {
  readonly mode: Mode;
  /** Close its sockets to the kernel. */
  close(): void;
}

interface PredecessorInput extends OnMachine {
  readonly members: readonly { readonly tools: IptablesTools; readonly probe?: RulesProbe }[];
  /** The families that the mode serves; all by default. In another family only the predecessor serves, and stays. */
  readonly families?: readonly Family[];
  /** See `ModeInput`. */
  readonly former?: ModeName | undefined;
  /** See `ModeInput`. */
  readonly onSetKept?: OnSetKept;
  /** See `ModeInput`. */
  readonly keepsTables?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** The nftables tables of proxies: ours, and that of kube-proxy's nftables mode. */
export const PROXY_TABLES = { ours: TABLE, kubeProxy: 'kube-proxy' } as const;

function tablesBeside(mode: Config['mode']): readonly string[] {
  const { ours, kubeProxy } = PROXY_TABLES;
  return MODES[mode].rulesBy === 'nftables' ? [kubeProxy] : [ours, kubeProxy];
}

/** The predecessors of this mode, in the order of their removal: rules go first, because they name sets of IPVS mode. */
export async function predecessorModes(mode: Config['mode'], input: PredecessorInput): Promise<readonly Predecessor[]> {
  const predecessors: Predecessor[] = [];
  const close = () => {
    for (const one of predecessors) one.close();
  };
  return await closeOnError({ close }, async () => {
    const { rulesBy, balancesBy } = MODES[mode];
    const former = input.former === undefined ? undefined : MODES[input.former];
    if (rulesBy === 'nftables' && (former?.rulesBy === 'iptables' || (await hasRules(input))))
      predecessors.push(rulesPredecessor(input));
    if (
      balancesBy === 'rules' &&
      (former?.balancesBy === 'virtual servers' || (await hasIpvsLeftovers(input.platform.machine)))
    )
      predecessors.push(await ipvsPredecessor(input));
    const { platform, families, keepsTables: keeps } = input;
    const mayCome = rulesBy === 'iptables' && former?.rulesBy === 'nftables';
    const tables = tablesPredecessor(tablesBeside(mode), { platform, families, mayCome, keeps });
    if (tables !== undefined) predecessors.push(tables);
    return predecessors;
  });
}

/** A proxy in IPVS mode: its servers go when their connections end. */
async function ipvsPredecessor(input: PredecessorInput): Promise<Predecessor> {
  const kernel = await input.platform.kernel.openIpvs(input.signal);
  return await closeOnError(kernel, async () => {
    const options = await ipvsOptions(input, kernel);
    return { mode: leftByIpvs({ ...options, onSetKept: input.onSetKept }), close: () => kernel.close() };
  });
}

/** Rules of a mode that writes by iptables. */
function rulesPredecessor({ members }: Pick<PredecessorInput, 'members'>): Predecessor {
  return { mode: leftByIptables(members), close: () => undefined };
}

interface TablesInput {
  readonly platform: Platform;
  readonly families?: readonly Family[] | undefined;
  /** These tables may be written before they are removed. */
  readonly mayCome?: boolean;
  /** They become dormant instead. */
  readonly keeps?: boolean | undefined;
}

/** The nftables tables of these names; undefined when there are none. */
function tablesPredecessor(
  names: readonly string[],
  { platform, families = FAMILIES, mayCome = false, keeps = false }: TablesInput,
): Predecessor | undefined {
  const kernel = nftablesFor(names, platform);
  if (kernel === undefined) return undefined;
  let isLeft = false;
  try {
    const there = mayCome ? tablesOf(names, families) : tablesIn(kernel, names, families);
    isLeft = there.length > 0;
    return isLeft ? { mode: leftByNftables(kernel, there, keeps), close: () => kernel.close() } : undefined;
  } finally {
    if (!isLeft) kernel.close();
  }
}

/** undefined for a kernel without nftables, which has no tables. */
export function nftablesFor(names: readonly string[], platform: Platform): OpenNftables | undefined {
  try {
    return platform.kernel.openNftables();
  } catch (error) {
    if (error instanceof NftMissing) return undefined;
    if (!(error instanceof NftUnusable)) throw error;
    throw new NftUnusable(`${error.message}; tables named ${names.join(' or ')} stay, if there are any`);
  }
}

/** The names of these proxies' tables in any of the families; none where the kernel's nftables cannot be used. */
export function proxyTables(platform: Platform, families: readonly Family[]): ReadonlySet<string> {
  const names = Object.values(PROXY_TABLES);
  try {
    const kernel = nftablesFor(names, platform);
    if (kernel === undefined) return new Set();
    try {
      return new Set(tablesIn(kernel, names, families).map(({ table }) => table));
    } finally {
      kernel.close();
    }
  } catch (error) {
    if (error instanceof NftUnusable) return new Set();
    throw error;
  }
}

export function tablesIn(
  kernel: OpenNftables,
  names: readonly string[],
  families: readonly Family[],
): readonly TableId[] {
  return tablesOf(names, families).filter(({ family, table }) => kernel.hasTable(family, table));
}

function tablesOf(names: readonly string[], families: readonly Family[]): readonly TableId[] {
  return families.flatMap((family) => names.map((table) => ({ family, table })));
}

/** Chains that service proxies have in all modes with iptables rules, and no other program has. */
const OF_ALL_MODES = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'filter', chain: 'KUBE-FORWARD' },
] as const;

/** The same, and the chain of our IPVS mode alone with which its first write begins, and where it may have ended. */
const TRACES = [...OF_ALL_MODES, { table: 'mangle', chain: OUT_FILTER }] as const;

async function hasRules(input: RulesLookInput): Promise<boolean> {
  return (await chainOf(TRACES, input)) !== 'none';
}

type RulesLookInput = Pick<PredecessorInput, 'members' | 'signal'>;

/**
 * Whether the tools of iptables may have something to do in this mode: its own rules, those of a predecessor, or what IPVS mode left. The legacy
 * variant has no chains by name: any table of it counts. Starts no process.
 */
export async function mayNeedTools(
  { mode, former }: { readonly mode: ModeName; readonly former: ModeName | undefined },
  { kernel, machine }: Pick<Platform, 'kernel' | 'machine'>,
): Promise<boolean> {
  if ([mode, former].some((one) => one !== undefined && MODES[one].rulesBy === 'iptables')) return true;
  try {
    for (const family of FAMILIES) {
      if (await mayHoldChains(kernel.openRules, family, TRACES)) return true;
      if ((await machine.legacyTables(family)).length > 0) return true;
    }
    return await hasIpvsLeftovers(machine);
  } catch {
    return true;
  }
}

/** A chain of a proxy, or the reason why none is known. */
type ChainFound = { readonly chain: string } | 'none' | 'locked';

/** A chain of a mode that writes by iptables and serves. `locked`: another process held the lock, so there may be one. */
export async function rulesThere(input: RulesLookInput): Promise<ChainFound> {
  return await chainOf(OF_ALL_MODES, input);
}

async function chainOf(chains: readonly ChainQuery[], { members, signal }: RulesLookInput): Promise<ChainFound> {
  for (const { tools, probe = tools } of members) {
    try {
      for (const trace of chains) if (await probe.hasChain({ ...trace, wait: 1 }, signal)) return trace;
    } catch (error) {
      // The sync waits for the lock.
      if (error instanceof IptablesError && !error.isRefusal) return 'locked';
      throw error;
    }
  }
  return 'none';
}

/**
 * Looks for what `predecessorModes` would remove, once that is gone: another proxy writes it. It starts a process only where the
 * numbers of legacy tables changed.
 */
export function lookForOthers(mode: Config['mode'], input: LookInput): (signal: AbortSignal) => Promise<Sign[]> {
  const { machine } = input.platform;
  const { rulesBy, balancesBy } = MODES[mode];
  // Without iptables the predecessor of IPVS mode leaves a family as it is.
  const ofTools = input.members.map(({ tools }) => tools.family);
  const rules = rulesBy === 'nftables' ? rulesLook(input) : () => Promise.resolve<Sign[]>([]);
  let hasNoTables = false;
  return async (signal) => {
    const signs = await rules(signal);
    const what = balancesBy === 'rules' ? await ipvsThere(machine, ofTools) : undefined;
    if (what !== undefined)
      signs.push({ who: 'kube-proxy in IPVS mode', what: `${what} came back`, stays: true, mayDrain: true });
    // Another try would make a kernel without nftables search the module each time.
    if (hasNoTables) return signs;
    const names = tablesBeside(mode);
    const kernel = nftablesFor(names, input.platform);
    hasNoTables = kernel === undefined;
    if (kernel === undefined) return signs;
    try {
      for (const { family, table } of tablesIn(kernel, names, input.families ?? FAMILIES)) {
        // It is kept until the takeover is confirmed.
        if (kernel.isDormant(family, table)) continue;
        const who = table === PROXY_TABLES.ours ? 'slicewire' : 'kube-proxy';
        const what = `the ${family} nftables table ${table} came back`;
        signs.push({ who: `${who} in nftables mode`, what, stays: true });
      }
    } finally {
      kernel.close();
    }
    return signs;
  };
}

/** Addresses or sets of IPVS mode in these families. The device may be left for another family. */
async function ipvsThere(machine: Machine, families: readonly Family[]): Promise<string | undefined> {
  if (await machine.hasServiceAddress(families)) return `addresses on the device ${SERVICE_DEVICE}`;
  return (await hasProxySets(machine, families)) ? 'sets of IPVS mode' : undefined;
}

interface LookInput {
  /** See `PredecessorInput.families`. */
  readonly families?: readonly Family[];
  readonly members: readonly { readonly probe: RulesProbe; readonly tools: Pick<IptablesTools, 'family'> }[];
  readonly platform: Platform;
}

function rulesLook({ members }: Pick<LookInput, 'members'>): (signal: AbortSignal) => Promise<Sign[]> {
  /** The state of each probe's tables when there was no sign. */
  const clean = new Map<RulesProbe, string>();
  return async (signal) => {
    const signs: Sign[] = [];
    for (const { probe } of members) {
      const state = await probe.state(TRACES.map(({ table }) => table));
      // Without a state each look would start processes. The next start of the agent finds the rules.
      if (state === undefined) continue;
      const text = state.kind === 'ruleset' ? `${state.generation}` : JSON.stringify([...state.tables]);
      if (clean.get(probe) === text) continue;
      let isClean = true;
      for (const trace of TRACES) {
        if (!(await probe.hasChain(trace, signal))) continue;
        isClean = false;
        const what = `the chain ${trace.chain} of the iptables table ${trace.table} came back`;
        signs.push({ who: 'kube-proxy in iptables or IPVS mode', what, stays: true });
      }
      if (isClean) clean.set(probe, text);
      else clean.delete(probe);
    }
    return signs;
  };
}

/** True when this network namespace may have servers. Loads no kernel module. */
async function mayHaveServers(machine: Machine): Promise<boolean> {
  return (await machine.hasIpvs()) || (await machine.hasServiceDevice());
}

/** True when a proxy in IPVS mode left something: its device shows that, or where another program removed the device, sets do. Loads no kernel module. */
export async function hasIpvsLeftovers(machine: Machine): Promise<boolean> {
  return (await machine.hasServiceDevice()) || (await hasProxySets(machine, FAMILIES));
}

/** Only with the module of IPVS do sets matter: by them servers are found. */
async function hasProxySets(machine: Machine, families: readonly Family[]): Promise<boolean> {
  return (await machine.hasIpvs()) && (await machine.setNames()).some((name) => isProxySet(name, families));
}

export interface Removal {
  /** A line for each object that was removed. */
  readonly removed: readonly string[];
  /** Why others could not be removed. */
  readonly problems: readonly string[];
}

/** Tells what is left, or may be, after this error of the removal of IPVS mode. */
async function leftAfter(error: unknown, machine: Machine): Promise<'servers' | 'others' | 'nothing'> {
  if (error instanceof CleanupIncomplete) return error instanceof ServersLeft ? 'servers' : 'others';
  try {
    if (await hasIpvsLeftovers(machine)) return (await machine.hasIpvs()) ? 'servers' : 'others';
    return error instanceof IpvsUnusable ? 'nothing' : 'others';
  } catch {
    return 'servers';
  }
}

/** Removes the rules of slicewire and kube-proxy in every mode, and nothing else. Throws CannotRun, and the signal's reason. */
export async function removeAll(config: Config, signal: AbortSignal, platform: Platform): Promise<Removal> {
  const { machine, kernel } = platform;
  const { tools, broken } = await openTools(config, signal, platform);
  const input = { config, members: tools.map((tool) => ({ tools: tool })), node: () => undefined, signal, platform };
  const clean = async (leaving: Predecessor | undefined) =>
    leaving === undefined ? [] : await leaving.mode.cleanup(signal).finally(() => leaving.close());
  const ofIpvs = async () => ((await mayHaveServers(machine)) ? await clean(await ipvsPredecessor(input)) : []);
  const ofRules = async () => await clean(rulesPredecessor(input));
  const ofNftables = async () => await clean(tablesPredecessor(Object.values(PROXY_TABLES), { platform }));
  const removed: string[] = [];
  // Rules stay where their tools do not work on this node; all others go.
  const problems = broken.map(({ problem }) => problem);
  // The records describe the rules that go. They are no objects of their own, and have no line.
  const ofRecord = async () => {
    for (const file of [kernel.record, kernel.takeover.state, kernel.takeover.kept]) file.remove();
    return [];
  };
  // A failure in one mode must not keep the rules of the others, but for servers: packets reach them once the rules before them are gone, and
  // they may have endpoints of long ago.
  for (const part of [kernel.removeLeftTraces, ofIpvs, ofRules, ofNftables, ofRecord]) {
    try {
      removed.push(...(await part()));
    } catch (error) {
      if (signal.aborted) throw error;
      const { message } = error as Error;
      const left = part === ofIpvs ? await leftAfter(error, machine) : 'others';
      if (left === 'nothing') continue;
      const why = 'the rules of other modes stay, because packets would reach the servers behind them';
      problems.push(left === 'servers' ? `${message}; ${why}` : message);
      if (left === 'servers') break;
    }
  }
  return { removed, problems };
}
