/**
 * The client lists of the match `recent` (net/netfilter/xt_recent.c), in this process's network namespace. The kernel lists the time at which
 * it last saw a client in jiffies, the ticks of its clock. /proc/timer_list (kernel/time/timer_list.c) has the present jiffies and the time
 * since the start of the machine, from which their frequency follows; only root may read it.
 */
import { readFile } from 'node:fs/promises';
import { type Address, parseAddress } from '../base/address.ts';

const LISTS = '/proc/thread-self/net/xt_recent';
const TIMERS = '/proc/timer_list';
/** Our lists have names of iptables chains. A name becomes a file name. */
const NAME = /^KUBE-[A-Z0-9-]{1,24}$/;
/** Frequencies of jiffies (kernel/Kconfig.hz). */
const FREQUENCIES = [100, 250, 300, 1000] as const;
/** The jiffies begin 300 seconds before they exceed 32 bits (INITIAL_JIFFIES in linux/jiffies.h). */
const START = 2 ** 32;
const BEFORE = 300;

/** Reads one of these files. Rejects as `readFile`. */
export type ReadText = (path: string) => Promise<string>;

const readText: ReadText = (path) => readFile(path, 'utf8');

/**
 * Seconds since the client was last seen, accurate to a tick, by the name of the list, without the lists that do not have it. Throws
 * RangeError for a name that no list of ours has, and Error when a file cannot be read or understood.
 */
export async function sinceLastSeen(
  lists: readonly string[],
  client: Address,
  read: ReadText = readText,
): Promise<ReadonlyMap<string, number>> {
  const since = new Map<string, number>();
  for (const name of lists) {
    if (!NAME.test(name)) throw new RangeError(`no list of clients has the name ${JSON.stringify(name)}`);
    const text = await read(`${LISTS}/${name}`).catch(undefinedIfMissing);
    const seen = text === undefined ? undefined : lastSeen(text, client);
    if (seen === undefined) continue;
    // The time is read after the list, so that it is not earlier.
    const { jiffies, frequency } = jiffiesIn(await read(TIMERS));
    since.set(name, Math.max(0, (jiffies - seen) / frequency));
  }
  return since;
}

function undefinedIfMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}

/** `src=10.244.1.7 ttl: 64 last_seen: 4301320811 oldest_pkt: 1 4301320811`; an IPv6 address has all its digits. */
function lastSeen(list: string, client: Address): number | undefined {
  for (const line of list.split('\n')) {
    const [, source = '', seen] = /^src=(\S+) .*?\blast_seen: (\d+)/.exec(line) ?? [];
    if (seen !== undefined && parseAddress(source) === client) return Number(seen);
  }
  return undefined;
}

/** The present jiffies, and their number in a second; in the 300th second of a machine any number fits. Throws Error when the text has none. */
export function jiffiesIn(timers: string): { readonly jiffies: number; readonly frequency: number } {
  const jiffies = /^jiffies: (\d+)$/m.exec(timers)?.[1];
  const now = /^now at (\d+) nsecs$/m.exec(timers)?.[1];
  if (jiffies === undefined || now === undefined) throw new Error(`${TIMERS} does not tell the time in jiffies`);
  const ticks = Number(jiffies) - START;
  const seconds = Number(now) / 1e9 - BEFORE;
  const distance = (frequency: number) => Math.abs(ticks - seconds * frequency);
  const [frequency = FREQUENCIES[0]] = [...FREQUENCIES].sort((a, b) => distance(a) - distance(b));
  return { jiffies: Number(jiffies), frequency };
}
