/**
 * The state of a predecessor that is kept until a takeover is confirmed: its chains with the jumps into them, as input of iptables-restore, and
 * its virtual servers with their sets and addresses. All of it is plain data, which a file can hold. Tables of nftables are not among it: they
 * stay in the kernel, dormant.
 */
import type { Address, Family } from '../../../base/address.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { Destination, IpsetSpec, Server, ServerId } from '../../../kernel/ipvs-kernel.ts';
import { type Jump, targetOf } from '../netfilter/jumps.ts';
import { BUILT_IN, type ChainKey, chainKey } from '../netfilter/names.ts';
import { readChain, readTables, TABLES } from '../netfilter/observe.ts';
import { type SavedTable, SaveReader } from '../netfilter/restore-text.ts';
import type { Chain } from '../netfilter/rules.ts';
import type { SetId } from '../virtual-servers/sets.ts';
import { isOursOrSource } from '../virtual-servers/source-chain.ts';
import type { ServersState } from '../virtual-servers/state.ts';

/** The rules of one family: lines for `iptables-restore --noflush`, which adds them to what is there; none without such rules. */
export interface KeptRules {
  readonly family: Family;
  readonly lines: readonly string[];
}

/** The virtual servers of one family. */
export interface KeptServers {
  readonly family: Family;
  readonly sets: readonly (readonly [SetId, IpsetSpec])[];
  readonly entries: readonly { readonly set: SetId; readonly entry: string }[];
  readonly servers: readonly Server[];
  readonly destinations: readonly { readonly server: ServerId; readonly destination: Destination }[];
  readonly addresses: readonly Address[];
}

/** Reads the chains of service proxies, and the jumps into them. Throws when the read fails. */
export async function keepRules(tools: IptablesTools, signal: AbortSignal): Promise<KeptRules> {
  const { tables } = await readTables(tools, signal);
  const lines = TABLES.flatMap((table) => {
    const saved: SavedTable = tables.get(table) ?? new Map();
    const chains: string[] = [];
    const rules: string[] = [];
    for (const [chain, texts] of saved) {
      const isBuiltIn = BUILT_IN.has(chain);
      if (!isBuiltIn && !isOursOrSource(table, chain)) continue;
      const kept = isBuiltIn ? texts.filter((text) => isOursOrSource(table, targetOf(text))) : texts;
      // The policy of a built-in chain stays as it is.
      if (!isBuiltIn || kept.length > 0) chains.push(`:${chain} - [0:0]`);
      for (const text of kept) rules.push(`-A ${chain} ${text}`);
    }
    return chains.length === 0 ? [] : [`*${table}`, ...chains, ...rules, 'COMMIT'];
  });
  return { family: tools.family, lines };
}

/** Kept rules as chains and jumps. `jumps`: in the order in which they are inserted, each at the top of its chain. */
export interface ReadRules {
  readonly chains: ReadonlyMap<ChainKey, Chain>;
  readonly jumps: readonly Jump[];
}

/** Throws SyntaxError when the lines are not what `keepRules` made. */
export function readKeptRules({ lines }: KeptRules): ReadRules {
  const reader = new SaveReader();
  for (const line of lines) reader.read(line);
  const saved = reader.end();
  const chains = new Map<ChainKey, Chain>();
  const jumps: Jump[] = [];
  for (const table of TABLES) {
    for (const [chain, texts] of saved.get(table) ?? []) {
      if (BUILT_IN.has(chain)) jumps.push(...texts.map((text) => ({ table, chain, text, target: targetOf(text) })));
      else chains.set(chainKey(table, chain), readChain(texts));
    }
  }
  return { chains, jumps: jumps.reverse() };
}

/** The servers that were read last. */
export function keptServers(state: ServersState): KeptServers {
  const { sets, entries, servers, destinations, addresses } = state;
  return {
    family: state.settings.family,
    sets: [...(sets.applied ?? [])],
    entries: [...(entries.applied?.values() ?? [])].map(({ set, entry }) => ({ set, entry })),
    servers: [...(servers.applied?.values() ?? [])].map(({ server }) => server),
    destinations: [...(destinations.applied?.values() ?? [])]
      // Another forwarding method than masquerading is of another program.
      .filter(({ destination }) => destination.weight >= 0)
      .map(({ server, destination: { address, port, weight } }) => ({
        server,
        destination: { address, port, weight },
      })),
    addresses: [...(addresses.applied?.keys() ?? [])],
  };
}
