/** Fields of a packet as words of nftables. Pure. */

import { addressBytes, portBytes } from '../../base/address.ts';
import type { Loaded } from '../../kernel/nftables-kernel.ts';
import { numberWord, protocolWord } from '../../proxy/modes/nft-table/bytes.ts';
import type { State } from './fates.ts';
import { isLocal } from './matching.ts';
import type { NodeFacts, Packet } from './packet.ts';

/** IPS_DST_NAT (linux/netfilter/nf_conntrack_common.h) */
const STATUS_TRANSLATED = 32;
/** Bits of the connection state in nft's form: 1 for invalid, 8 for new (nft_ct.c). */
const STATES: Readonly<Record<Packet['state'], number>> = { INVALID: 1, NEW: 8 };
/** RTN_LOCAL and RTN_UNICAST (linux/rtnetlink.h) */
const KINDS = { local: 2, unicast: 1 } as const;

export function loaded(
  what: Loaded,
  state: State,
  { packet, facts }: { readonly packet: Packet; readonly facts: NodeFacts },
): string {
  const kindOf = (address: State['destination']) =>
    numberWord(isLocal(address, { facts, servers: undefined }) ? KINDS.local : KINDS.unicast);
  switch (what) {
    case 'source address':
      return addressBytes(packet.source);
    case 'destination address':
      return addressBytes(state.destination);
    case 'protocol':
      return protocolWord(packet.protocol);
    case 'destination port':
      return `${portBytes(state.port)}\0\0`;
    case 'mark':
      return numberWord(state.mark);
    case 'input interface':
      return (packet.device ?? '').padEnd(16, '\0');
    case 'connection state':
      return numberWord(STATES[packet.state]);
    case 'connection status':
      return numberWord(state.dnat === undefined ? 0 : STATUS_TRANSLATED);
    case 'kind of source address':
      return kindOf(packet.source);
    case 'kind of destination address':
      return kindOf(state.destination);
  }
}
