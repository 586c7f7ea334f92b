/** Read the chains and jumps of one family that are ours (invariant 7). */
import type { IptablesTools } from '../../host/iptables-tools.ts';
import { type Address, type Family, parseAddress } from '../../model/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { type SavedTable, SaveReader } from '../netfilter/restore-text.ts';
import { type Chain, ownerInComment, type Table } from '../netfilter/rules.ts';
import { FIREWALL_JUMPS, JUMPS, type Jump, jumpKey } from './jumps.ts';
import { type ChainKey, chainKey, FIREWALL, isOurs } from './names.ts';

export interface SeenTables {
  readonly chains: ReadonlyMap<ChainKey, Chain>;
  readonly jumps: ReadonlyMap<string, Jump>;
  readonly udpFrontends: readonly UdpFrontend[];
}

/** The tables that hold anything of ours. */
export const TABLES: readonly Table[] = ['filter', 'nat', 'mangle'];

/** `withFirewall`: read KUBE-FIREWALL too, which is the kubelet's unless we need it. Throws when the read fails. */
export async function observeFamily(
  tools: IptablesTools,
  withFirewall: boolean,
  signal: AbortSignal,
): Promise<SeenTables> {
  const tables = await readTables(tools, signal);
  const chains = new Map<ChainKey, Chain>();
  for (const table of TABLES) {
    for (const [name, rules] of tables.get(table) ?? []) {
      const mine = isOurs(table, name) || (withFirewall && table === 'filter' && name === FIREWALL);
      if (mine) chains.set(chainKey(table, name), readChain(rules));
    }
  }
  return { chains, jumps: seenJumps(tables), udpFrontends: udpFrontends(tools.family, chains) };
}

/** All chains of all tables. Throws when the read fails, or what was read is not understood. */
export async function readTables(tools: IptablesTools, signal: AbortSignal): Promise<ReadonlyMap<string, SavedTable>> {
  const reader = new SaveReader();
  await tools.save((line) => reader.read(line), signal);
  return reader.end();
}

function readChain(rules: readonly string[]): Chain {
  return rules.map((text) => ({ text, owner: ownerInComment(text) }));
}

/** A rule that sends an address and port, or a node port, to the chain of a Service: kube-proxy's form and ours. */
const UDP_FRONTEND = /^(?:-d (\S+)\/(?:32|128) )?-p udp .*--dport (\d+) .*-[jg] KUBE-(?:SVC|SVL|EXT|FW|XLB)-/;

function udpFrontends(family: Family, chains: ReadonlyMap<ChainKey, Chain>): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const rules of chains.values()) {
    for (const { text } of rules) {
      const match = text.includes('-p udp ') ? UDP_FRONTEND.exec(text) : null;
      if (match === null) continue;
      const address: Address | undefined = match[1] === undefined ? undefined : parseAddress(match[1]);
      if (match[1] === undefined || address !== undefined) found.push({ family, address, port: Number(match[2]) });
    }
  }
  return found;
}

function seenJumps(tables: ReadonlyMap<string, SavedTable>): Map<string, Jump> {
  const seen = new Map<string, Jump>();
  for (const entry of [...JUMPS, ...FIREWALL_JUMPS]) {
    if (tables.get(entry.table)?.get(entry.chain)?.includes(entry.text) === true) seen.set(jumpKey(entry), entry);
  }
  return seen;
}
