/** The kernel's settings of conntrack that kube-proxy makes, in every mode (reference 8.1). */
import type { SettingWrite } from '../reconcile/setting.ts';
import type { Sysctls } from './sysctls.ts';

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

/** What of them differs from the kernel's values, in the order of writing. */
export async function conntrackWrites(
  settings: ConntrackSettings,
  { cores, sysctls }: { cores: number; sysctls: Sysctls },
): Promise<SettingWrite[]> {
  const max = conntrackMax(settings, cores);
  const seconds = (milliseconds: number) => Math.floor(milliseconds / 1000);
  const wanted: readonly Wanted[] = [
    { name: MAX, value: max },
    { name: HASH_SIZE, value: Math.floor(max / DEPTH), mayBeMore: true },
    { name: 'net/netfilter/nf_conntrack_tcp_timeout_established', value: seconds(settings.tcpEstablishedTimeout) },
    { name: 'net/netfilter/nf_conntrack_tcp_timeout_close_wait', value: seconds(settings.tcpCloseWaitTimeout) },
    { name: 'net/netfilter/nf_conntrack_tcp_be_liberal', value: settings.tcpBeLiberal ? 1 : 0 },
    { name: 'net/netfilter/nf_conntrack_udp_timeout', value: seconds(settings.udpTimeout) },
    { name: 'net/netfilter/nf_conntrack_udp_timeout_stream', value: seconds(settings.udpStreamTimeout) },
  ];
  const writes: SettingWrite[] = [];
  for (const { name, value, mayBeMore = false } of wanted) {
    if (value === 0) continue;
    const from = await readable(name, sysctls);
    const isRight = from === String(value) || (mayBeMore && Number(from) >= value);
    if (!isRight) writes.push({ name, from, to: String(value) });
  }
  return writes;
}

/** A value of 0 leaves the kernel's. */
interface Wanted {
  readonly name: string;
  readonly value: number;
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
