/**
 * Packets from the node to a Service have the Service's address as their source, because that address is on our device. An
 * endpoint on another node could not answer, so this chain masquerades them. The chain must be installed before the first
 * address, and stay as long as the last.
 */
import type { Family } from '../../../base/address.ts';
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import { type ChainKey, chainKey, isOurs } from '../netfilter/names.ts';
import { type Chain, comment, MASQUERADE, rule, type Table } from '../netfilter/rules.ts';
import { type SetId, setName } from './sets.ts';

const SOURCE = 'KUBE-IPVS-SOURCE';
/** The set that the chain asks: the Service addresses of this node. */
export const SOURCE_SET: SetId = 'KUBE-IPVS-IPS';

/** Whether a key is that of the chain. */
export function isSourceChain(key: ChainKey): boolean {
  return key === chainKey('nat', SOURCE);
}

export const SOURCE_JUMP: Jump = jumpRule({
  table: 'nat',
  chain: 'POSTROUTING',
  target: SOURCE,
  note: 'packets from Service addresses',
});

/** Whether a chain belongs to a service proxy of any mode, or is the source chain, which other modes leave alone. */
export function isOursOrSource(table: Table, chain: string): boolean {
  return isOurs(table, chain) || isSource(table, chain);
}

export function isSource(table: Table, chain: string): boolean {
  return table === 'nat' && chain === SOURCE;
}

export function sourceChain(family: Family): Map<ChainKey, Chain> {
  const words = comment('the node itself, which took a Service address for its own');
  const match = `-m set --match-set ${setName(family, SOURCE_SET)} src`;
  return new Map([[chainKey('nat', SOURCE), [rule([words, match, MASQUERADE])]]]);
}
