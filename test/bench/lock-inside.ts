/**
 * Takes the kernel's lock of nftables every few milliseconds, inside the node's namespace, by a transaction that changes nothing: it deletes
 * a table that does not exist.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { deleteTable } from '../../native/nft/table-requests.ts';
import { commit } from '../../native/nft/transaction.ts';
import { obey } from './inside.ts';

/** Milliseconds between two transactions. */
const BETWEEN = 2;

const socket = new NetlinkSocket(openTransport(NETLINK_NETFILTER));
const nothing = [deleteTable({ family: 'IPv4', table: 'none-of-this-name' })];
let longest = 0;
let isOver = false;

async function watch(): Promise<void> {
  while (!isOver) {
    const start = performance.now();
    commit(socket, nothing);
    longest = Math.max(longest, performance.now() - start);
    await pause(BETWEEN);
  }
  socket.close();
}

const watching = watch();
obey<'longest', number>(
  () => {
    const answer = longest;
    longest = 0;
    return answer;
  },
  async () => {
    isOver = true;
    await watching;
  },
);
