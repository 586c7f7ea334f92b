/** The kernel's settings of conntrack that kube-proxy makes, in every mode (docs/semantics.md 8.4). */
import { type SettingWrite, settingKey } from '../reconcile/setting.ts';
import { isReadOnly, type Sysctls, whyNotWritable } from './sysctls.ts';

/** How the kernel tracks connections. Times in milliseconds; 0, and false, leave the kernel's value as it is. */
export interface ConntrackSettings {
  /** Entries for each core, and at least so many in all; 0 a core leaves the table's size as it is. */
  readonly maxPerCore: number;
  readonly min: number;
  readonly tcpEstablishedTimeout: number;
  readonly tcpCloseWaitTimeout: number;
  /** Take packets outside the window of a connection as valid. */
  readonly tcpBeLiberal: boolean;
  readonly udpTimeout: number;
  readonly udpStreamTimeout: number;
}

const MAX = 'net/netfilter/nf_conntrack_max';
const LIBERAL = 'net/netfilter/nf_conntrack_tcp_be_liberal';
const HASH_SIZE = '/sys/module/nf_conntrack/parameters/hashsize';
/** No table is made larger than this by the number of cores (Kubernetes 1.36). */
const LARGEST = 1_048_576;
/** Entries in one bucket of the hash table, on average when it is full. */
const DEPTH = 4;

/** Entries that the table should hold; 0 to leave it as it is. */
export function conntrackMax({ maxPerCore, min }: ConntrackSettings, cores: number): number {
  if (maxPerCore === 0) return 0;
  const scaled = maxPerCore * cores;
  return scaled > LARGEST ? LARGEST : Math.max(scaled, min);
}

/** A setting that is to be written. */
export interface ConntrackWrite extends SettingWrite {
  /** The flag that leaves it as it is. */
  readonly leftBy: string;
}

/** A setting that cannot be written here, and why. */
export interface BarredWrite extends ConntrackWrite {
  readonly cause: string;
}

/** Tell those that can be written from those that cannot, as far as the kernel says without being written to. */
export async function sortWrites(
  writes: readonly ConntrackWrite[],
): Promise<{ readonly possible: readonly ConntrackWrite[]; readonly barred: readonly BarredWrite[] }> {
  const possible: ConntrackWrite[] = [];
  const barred: BarredWrite[] = [];
  for (const write of writes) {
    const cause = (await whyNotWritable(write.name)) ?? (await whyHashSizeStays(write.name));
    if (cause === undefined) possible.push(write);
    else barred.push({ ...write, cause });
  }
  return { possible, barred };
}

/**
 * The file of the hash table can be opened everywhere, and what is written into it is refused outside the first network namespace
 * (nf_conntrack_core.c, nf_conntrack_set_hashsize), where the size of the table can only be read (nf_conntrack_standalone.c).
 */
async function whyHashSizeStays(name: string): Promise<string | undefined> {
  if (name !== HASH_SIZE || !(await isReadOnly(MAX))) return undefined;
  return 'the kernel takes it from the first network namespace of the machine alone';
}

/** Words for a setting that stays as it is. */
export function barredText({ name, from, to, leftBy, cause }: BarredWrite): string {
  const stays = from === undefined ? `${to} was wanted` : `it stays ${from}, ${to} was wanted`;
  return `${settingKey(name)} cannot be changed here: ${cause}; ${stays}; ${leftBy} leaves it`;
}

/** What of them differs from the kernel's values, in the order of writing. */
export async function conntrackWrites(
  settings: ConntrackSettings,
  { cores, sysctls }: { cores: number; sysctls: Sysctls },
): Promise<ConntrackWrite[]> {
  const max = conntrackMax(settings, cores);
  const seconds = (milliseconds: number) => Math.floor(milliseconds / 1000);
  const { tcpEstablishedTimeout, tcpCloseWaitTimeout, tcpBeLiberal, udpTimeout, udpStreamTimeout } = settings;
  const wanted: readonly Wanted[] = [
    { name: MAX, value: max, flag: 'max-per-core' },
    { name: HASH_SIZE, value: Math.floor(max / DEPTH), flag: 'max-per-core', mayBeMore: true },
    {
      name: tracked('tcp_timeout_established'),
      value: seconds(tcpEstablishedTimeout),
      flag: 'tcp-timeout-established',
    },
    { name: tracked('tcp_timeout_close_wait'), value: seconds(tcpCloseWaitTimeout), flag: 'tcp-timeout-close-wait' },
    { name: LIBERAL, value: tcpBeLiberal ? 1 : 0, flag: 'tcp-be-liberal' },
    { name: tracked('udp_timeout'), value: seconds(udpTimeout), flag: 'udp-timeout' },
    { name: tracked('udp_timeout_stream'), value: seconds(udpStreamTimeout), flag: 'udp-timeout-stream' },
  ];
  const writes: ConntrackWrite[] = [];
  for (const { name, value, flag, mayBeMore = false } of wanted) {
    if (value === 0) continue;
    const from = await readable(name, sysctls);
    const isRight = from === String(value) || (mayBeMore && Number(from) >= value);
    if (!isRight)
      writes.push({ name, from, to: String(value), leftBy: `--conntrack-${flag}=${name === LIBERAL ? 'false' : 0}` });
  }
  return writes;
}

function tracked(name: string): string {
  return `net/netfilter/nf_conntrack_${name}`;
}

/** A value of 0 leaves the kernel's. */
interface Wanted {
  readonly name: string;
  readonly value: number;
  /** Without `--conntrack-`. */
  readonly flag: string;
  readonly mayBeMore?: boolean;
}

/** undefined for what is not there or may not be read: writing it will tell why. */
async function readable(name: string, sysctls: Sysctls): Promise<string | undefined> {
  try {
    return await sysctls.read(name);
  } catch {
    return undefined;
  }
}
