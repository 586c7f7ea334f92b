/**
 * What the node sends to a Service has the Service's address as its source, because that address is on our device. No endpoint on
 * another node could answer it, so this chain masquerades it. The chain must stand before the first address does, and as long as the last.
 */
import type { Family } from '../../model/address.ts';
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import { type ChainKey, chainKey, isOurs } from '../netfilter/names.ts';
import { type Chain, comment, MASQUERADE, rule, type Table } from '../netfilter/rules.ts';
import { setName } from './sets.ts';

const SOURCE = 'KUBE-IPVS-SOURCE';

export const SOURCE_CHAINS: ReadonlySet<ChainKey> = new Set([chainKey('nat', SOURCE)]);

export const SOURCE_JUMP: Jump = jumpRule({
  table: 'nat',
  chain: 'POSTROUTING',
  target: SOURCE,
  note: 'packets from Service addresses',
});

/** Chains of a service proxy of any mode, and the one that other modes leave alone. */
export function isOursOrSource(table: Table, chain: string): boolean {
  return isOurs(table, chain) || isSource(table, chain);
}

export function isSource(table: Table, chain: string): boolean {
  return table === 'nat' && chain === SOURCE;
}

export function sourceChain(family: Family): Map<ChainKey, Chain> {
  const words = comment('the node itself, which took a Service address for its own');
  const match = `-m set --match-set ${setName(family, 'KUBE-IPVS-IPS')} src`;
  return new Map([[chainKey('nat', SOURCE), [rule([words, match, MASQUERADE])]]]);
}
