/**
 * Takes the kernel's lock of nftables every few milliseconds, inside the node's namespace, by a transaction that changes nothing: it adds a
 * table that exists. One that fails would hold the lock itself (`__nf_tables_abort` waits for a grace period of RCU).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { addTable, deleteTable } from '../../native/nft/table-requests.ts';
import { commit } from '../../native/nft/transaction.ts';
import { obey } from './inside.ts';

/** Milliseconds between two transactions. */
const BETWEEN = 2;

const socket = new NetlinkSocket(openTransport(NETLINK_NETFILTER));
const table = { family: 'IPv4', table: 'bench-lock' } as const;
const nothing = [addTable(table, 'the benchmark of slicewire')];
let longest = 0;
let isOver = false;

async function watch(): Promise<void> {
  while (!isOver) {
    const start = performance.now();
    for (const error of commit(socket, nothing)) if (error !== undefined) throw error;
    longest = Math.max(longest, performance.now() - start);
    await pause(BETWEEN);
  }
  commit(socket, [deleteTable(table)]);
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
