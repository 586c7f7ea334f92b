/** ClientIP affinity by the match `recent` (iptables-extensions(8)). Each endpoint has a list of clients, named like its chain. */
import type { Family } from '../../../base/address.ts';

const MASKS = { IPv4: '255.255.255.255', IPv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' } as const;

/** Remember the client. */
export function rememberClient(list: string, family: Family): string {
  return `-m recent --set --name ${list} --mask ${MASKS[family]} --rsource`;
}

/** Matches a client that was seen within `seconds`. */
export function knownClient(list: string, family: Family, seconds: number): string {
  return `-m recent --rcheck --seconds ${seconds} --reap --name ${list} --mask ${MASKS[family]} --rsource`;
}
