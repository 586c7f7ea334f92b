/** What other programs do to the kernel of a simulated node. */

import { FAMILIES, type Family } from '../../../src/base/address.ts';
import { TABLE } from '../../../src/kernel/nftables-kernel.ts';
import type { Table } from '../../../src/proxy/modes/netfilter/rules.ts';
import type { ForeignWrite } from '../history/actions.ts';
import { addForeignChain, deleteRule, editAs, flushChain, flushTable, ourChains } from '../kernel/iptables/others.ts';
import type { SimKernel } from '../kernel/kernel.ts';

const TABLES: readonly Table[] = ['nat', 'filter', 'mangle'];
/** Beyond all pids of this machine: nobody may take it for a real process. */
const OTHER_PID = 5_000_000;
/** Milliseconds that another program holds the xtables lock. */
const LOCK = 7000;

/** `variant` chooses the object. Nothing happens where there is no such object. */
export function writeAsOther(kernel: SimKernel, what: ForeignWrite, variant: number): void {
  const family = FAMILIES[variant % 2] ?? 'IPv4';
  if (what === 'hold-lock') kernel.iptables.lock.holdFor(LOCK);
  else if (what === 'remove-address') removeAddress(kernel, variant);
  else if (what === 'remove-server') removeServer(kernel, variant);
  else if (kernel.nft.stateOf(family, TABLE) !== undefined) writeTable(kernel, { what, variant, family });
  else writeRules(kernel, { what, variant, family });
}

interface Wanted {
  readonly what: ForeignWrite;
  readonly variant: number;
  readonly family: Family;
}

/** Of nftables mode. */
function writeTable({ nft }: SimKernel, { what, variant, family }: Wanted): void {
  const by = { pid: OTHER_PID, name: 'nft' };
  const id = { family, table: TABLE };
  const state = nft.stateOf(family, TABLE);
  const chain = chosen([...(state?.chains.keys() ?? [])], variant);
  const set = chosen([...(state?.sets.keys() ?? [])], variant);
  const { others } = nft;
  if (what === 'delete-element' && set !== undefined) others.deleteElement(by, id, set, variant % 7);
  else if (what === 'flush-nat' && set !== undefined) others.flushSet(by, id, set);
  else if (what === 'delete-table') others.deleteTable(by, id);
  else if (what === 'own-rule') others.touch(by, family);
  else if (chain === undefined) return;
  else if (what === 'flush-chain') others.flushChain(by, id, chain);
  else if (what === 'delete-rule') others.deleteRule(by, id, chain, variant % 3);
  else if (what === 'delete-chain') others.deleteChain(by, id, chain);
}

/** Of the modes that write by iptables. */
function writeRules(kernel: SimKernel, { what, variant, family }: Wanted): void {
  const { iptables } = kernel;
  const writer = { pid: OTHER_PID, name: 'iptables' };
  const chains = TABLES.flatMap((table) => ourChains(iptables, family, table).map((chain) => ({ table, chain })));
  const ours = chosen(chains, variant);
  if (what === 'flush-nat' || what === 'delete-table') flushTable(iptables, { family, table: 'nat', writer });
  else if (what === 'own-rule') addOwnRule(kernel, { what, variant, family });
  else if (ours === undefined) return;
  else if (what === 'flush-chain') flushChain(iptables, ours.chain, { family, table: ours.table, writer });
  else if (what === 'delete-rule')
    deleteRule(iptables, { chain: ours.chain, number: 1 + (variant % 3) }, { family, table: ours.table, writer });
  else if (what === 'delete-chain') deleteChain(kernel, { family, ...ours });
}

function addOwnRule({ iptables }: SimKernel, { variant, family }: Wanted): void {
  const source = family === 'IPv4' ? `203.0.113.${100 + (variant % 50)}/32` : `2001:db8::${variant}/128`;
  const chain = { name: `OTHER-${variant % 3}`, rules: [`-s ${source} -j RETURN`] };
  const where = { from: 'PREROUTING', isFirst: variant % 2 === 0 };
  const writer = { pid: OTHER_PID + 1, name: 'other' };
  addForeignChain(iptables, { ...chain, ...where }, { family, table: 'nat', writer });
}

function chosen<T>(items: readonly T[], variant: number): T | undefined {
  return items[variant % Math.max(1, items.length)];
}

/** With the jumps to it, as `iptables -D` and `-X`. */
export function deleteChain(
  { iptables }: SimKernel,
  { family, table, chain }: { readonly family: 'IPv4' | 'IPv6'; readonly table: Table; readonly chain: string },
): void {
  editAs(iptables, {
    ...{ family, table, writer: { pid: OTHER_PID, name: 'iptables' } },
    edit: (chains) => {
      chains.delete(chain);
      for (const [name, rules] of chains) {
        chains.set(
          name,
          rules.filter((rule) => !rule.split(' ').includes(chain)),
        );
      }
    },
  });
}

function removeAddress({ ipvs }: SimKernel, variant: number): void {
  const address = chosen([...ipvs.state.addresses], variant);
  if (address !== undefined) ipvs.write({ kind: 'remove-address', address });
}

function removeServer({ ipvs }: SimKernel, variant: number): void {
  const server = chosen([...ipvs.state.servers.values()], variant)?.server;
  if (server !== undefined) ipvs.write({ kind: 'remove-server', server });
}
