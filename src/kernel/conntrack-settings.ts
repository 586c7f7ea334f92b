/** The kernel's settings of conntrack, which every mode writes as kube-proxy does (docs/semantics.md 8.4). */
import { causeOf } from '../base/cause.ts';
import { type SettingFiles, type SettingWrite, type Sysctls, settingKey } from './sysctls.ts';

/** Times are in milliseconds. 0 and false leave the kernel's value unchanged. */
export interface ConntrackSettings {
  /** Entries for each core. 0 leaves the size of the table unchanged. */
  readonly maxPerCore: number;
  /** Entries in all, at least. */
  readonly min: number;
  readonly tcpEstablishedTimeout: number;
  readonly tcpCloseWaitTimeout: number;
  /** Packets outside the window of a connection count as valid. */
  readonly tcpBeLiberal: boolean;
  readonly udpTimeout: number;
  readonly udpStreamTimeout: number;
}

/** Every kernel with conntrack has both, and every container shows them: the entries of the table, and their limit. */
export const CONNTRACK_COUNT = 'net/netfilter/nf_conntrack_count';
export const CONNTRACK_MAX = 'net/netfilter/nf_conntrack_max';
const LIBERAL = 'net/netfilter/nf_conntrack_tcp_be_liberal';
const HASH_SIZE = '/sys/module/nf_conntrack/parameters/hashsize';
/** The number of cores makes no table larger than this (Kubernetes 1.36). */
const MAX_BY_CORES = 1_048_576;
/** Average number of entries in a bucket of the full hash table. */
const DEPTH = 4;

/** The desired number of entries of the table; 0 leaves it unchanged. */
export function conntrackMax({ maxPerCore, min }: ConntrackSettings, cores: number): number {
  if (maxPerCore === 0) return 0;
  const scaled = maxPerCore * cores;
  return scaled > MAX_BY_CORES ? MAX_BY_CORES : Math.max(scaled, min);
}

/** A setting to write. */
export interface ConntrackWrite extends SettingWrite {
  /** The flag and value that stop slicewire from changing it. */
  readonly leftBy: string;
}

/** A setting that cannot be written on this node. */
export interface BarredWrite extends ConntrackWrite {
  readonly cause: string;
}

/** Separates settings that can be written from those that cannot, as far as this can be known without writing. */
export async function sortWrites(
  writes: readonly ConntrackWrite[],
  files: SettingFiles,
): Promise<{ readonly possible: readonly ConntrackWrite[]; readonly barred: readonly BarredWrite[] }> {
  const possible: ConntrackWrite[] = [];
  const barred: BarredWrite[] = [];
  for (const write of writes) {
    const cause = await whyItStays(write.name, files).catch(causeOf);
    if (cause === undefined) possible.push(write);
    else barred.push({ ...write, cause });
  }
  return { possible, barred };
}

/** undefined where no obstacle is known. Rejects when it cannot be found out. */
async function whyItStays(name: string, files: SettingFiles): Promise<string | undefined> {
  return (await files.whyNotWritable(name)) ?? (await whyHashSizeStays(name, files));
}

/**
 * The size of the hash table: outside the first network namespace its file can be opened, but the kernel refuses every write
 * (nf_conntrack_core.c, nf_conntrack_set_hashsize). The size of the table is read-only there (nf_conntrack_standalone.c).
 */
async function whyHashSizeStays(name: string, files: SettingFiles): Promise<string | undefined> {
  if (name !== HASH_SIZE || !(await files.isReadOnly(CONNTRACK_MAX))) return undefined;
  return 'only the first network namespace of the machine can set it';
}

/** The message about a setting that cannot be written. */
export function barredText({ name, from, to, leftBy, cause }: BarredWrite): string {
  const stays = from === undefined ? `its value should be ${to}` : `it stays ${from} instead of ${to}`;
  return `${settingKey(name)} cannot be changed on this node: ${cause}; ${stays}; ${leftBy} stops slicewire from changing it`;
}

/** Writes for the settings that differ from the kernel's values, in the order of writing. A setting that cannot be read is written. */
export async function conntrackWrites(
  settings: ConntrackSettings,
  { cores, sysctls }: { cores: number; sysctls: Sysctls },
): Promise<ConntrackWrite[]> {
  const max = conntrackMax(settings, cores);
  const seconds = (milliseconds: number) => Math.floor(milliseconds / 1000);
  const { tcpEstablishedTimeout, tcpCloseWaitTimeout, tcpBeLiberal, udpTimeout, udpStreamTimeout } = settings;
  const wanted: readonly DesiredSetting[] = [
    { name: CONNTRACK_MAX, value: max, flag: 'max-per-core' },
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

/** A value of 0 leaves the kernel's value unchanged. */
interface DesiredSetting {
  readonly name: string;
  readonly value: number;
  /** Without `--conntrack-`. */
  readonly flag: string;
  /** A larger value in the kernel is right, too. */
  readonly mayBeMore?: boolean;
}

/** undefined when the setting is missing or cannot be read: the write then fails with the cause. */
async function readable(name: string, sysctls: Sysctls): Promise<string | undefined> {
  try {
    return await sysctls.read(name);
  } catch {
    return undefined;
  }
}
