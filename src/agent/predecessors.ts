/** Predecessors on this machine: other modes, and kube-proxy, whose state in the kernel goes once this mode serves. */
import type { Config } from '../config/config.ts';
import type { RulesProbe } from '../host/chain-probe.ts';
import { IptablesError, type IptablesTools } from '../host/iptables-tools.ts';
import { NftMissing, NftUnusable } from '../host/nftables-kernel.ts';
import { TABLE } from '../host/nftables-netlink.ts';
import { FAMILIES } from '../model/address.ts';
import { ipvsPredecessor as leftByIpvs } from '../modes/ipvs/index.ts';
import type { Mode } from '../modes/mode.ts';
import { rulesPredecessor as leftByIptables } from '../modes/netfilter/rules-family.ts';
import { tablesPredecessor as leftByNftables } from '../modes/nftables/predecessor.ts';
import { ipvsOptions, type OnMachine } from './mode-settings.ts';
import type { Machine, OpenNftables, Outside } from './outside.ts';

export interface Predecessor {
  readonly mode: Mode;
  /** Close its sockets to the kernel. */
  close(): void;
}

export interface PredecessorInput extends OnMachine {
  readonly members: readonly { readonly tools: IptablesTools; readonly probe?: RulesProbe }[];
  readonly signal: AbortSignal;
}

/** The nftables tables of proxies: ours, and that of kube-proxy's nftables mode. */
export const PROXY_TABLES = { ours: TABLE, kubeProxy: 'kube-proxy' } as const;

/** The predecessors of this mode, in the order of their removal: rules go first, because they name sets of IPVS mode. */
export async function predecessorModes(mode: Config['mode'], input: PredecessorInput): Promise<readonly Predecessor[]> {
  const predecessors: Predecessor[] = [];
  if (mode === 'nftables' && (await hasRules(input))) predecessors.push(rulesPredecessor(input));
  if (mode !== 'ipvs' && (await input.outside.machine.hasServiceDevice()))
    predecessors.push(await ipvsPredecessor(input));
  const { ours, kubeProxy } = PROXY_TABLES;
  const tables = tablesPredecessor(mode === 'nftables' ? [kubeProxy] : [ours, kubeProxy], input.outside);
  return tables === undefined ? predecessors : [...predecessors, tables];
}

/** A proxy in IPVS mode: its servers go when their connections end. */
export async function ipvsPredecessor(input: PredecessorInput): Promise<Predecessor> {
  const kernel = await input.outside.kernel.openIpvs(input.signal);
  const options = await ipvsOptions(input, kernel);
  return { mode: leftByIpvs(options), close: () => kernel.close() };
}

/** Rules of a mode that writes by iptables. */
export function rulesPredecessor({ members }: Pick<PredecessorInput, 'members'>): Predecessor {
  return { mode: leftByIptables(members), close: () => undefined };
}

/** The nftables tables of these names; undefined: there are none. */
export function tablesPredecessor(names: readonly string[], outside: Outside): Predecessor | undefined {
  let kernel: OpenNftables;
  try {
    kernel = outside.kernel.openNftables();
  } catch (error) {
    // A kernel without nftables has no tables of it.
    if (error instanceof NftMissing) return undefined;
    if (!(error instanceof NftUnusable)) throw error;
    throw new NftUnusable(`${error.message}; tables named ${names.join(' or ')} stay, if there are any`);
  }
  const ids = FAMILIES.flatMap((family) => names.map((table) => ({ family, table })));
  const there = ids.filter(({ family, table }) => kernel.hasTable(family, table));
  if (there.length > 0) return { mode: leftByNftables(kernel, there), close: () => kernel.close() };
  kernel.close();
  return undefined;
}

/** Chains of service proxies in all modes that write iptables rules, and of no other program. */
const TRACES = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'filter', chain: 'KUBE-FORWARD' },
] as const;

async function hasRules({ members, signal }: PredecessorInput): Promise<boolean> {
  for (const { tools } of members) {
    try {
      for (const trace of TRACES) if (await tools.hasChain({ ...trace, wait: 1 }, signal)) return true;
    } catch (error) {
      // Another process holds the lock: there may be rules, and the sync waits for the lock.
      if (error instanceof IptablesError && !error.isRefusal) return true;
      throw error;
    }
  }
  return false;
}

/** Whether this network namespace has, or may have, state of IPVS mode. Loads no kernel module. */
export async function hasIpvsTraces(machine: Machine): Promise<boolean> {
  return (await machine.hasIpvs()) || (await machine.hasServiceDevice());
}
