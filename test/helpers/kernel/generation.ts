/** The generation of nftables' ruleset in a network namespace: a new number after each transaction of any program. */
import { NETLINK_NETFILTER } from '../../../native/nfnetlink.ts';
import { NftablesSocket } from '../../../native/nftables.ts';
import { transportsIn } from './namespace-sockets.ts';

export function generationIn(namespace: string): number {
  const open = transportsIn(namespace);
  const socket = new NftablesSocket(() => open(NETLINK_NETFILTER));
  try {
    return socket.generation();
  } finally {
    socket.close();
  }
}
