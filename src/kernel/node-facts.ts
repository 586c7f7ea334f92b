/** Facts about this node that the rules depend on. */
import { readFile, stat } from 'node:fs/promises';
import { type Address, FAMILIES, type Family, familyOf, isLoopback } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { localAddresses } from './devices.ts';
import { wholeListing } from './whole-listing.ts';

const CAP_NET_ADMIN = 12n;

/** A fact of this machine is unknown, because its file exists and cannot be read. */
export class FactUnknown extends Error {
  readonly code = 'FACT_UNKNOWN';

  constructor(path: string, cause: string) {
    super(`a fact of this node is unknown: ${path} cannot be read: ${cause}`);
  }
}

/** The files under /proc; both methods reject as those of node:fs. */
export interface ProcFiles {
  readonly read: (path: string) => Promise<string>;
  readonly stat: (path: string) => Promise<object>;
  /** Whether this process runs as root. */
  readonly isRoot: boolean;
}

const realFiles: ProcFiles = { read: (path) => readFile(path, 'utf8'), stat, isRoot: process.geteuid?.() === 0 };

/** The result of `read`; undefined for a missing file. Any other failure leaves the fact unknown (invariant 2). */
async function fact<T>(path: string, read: (path: string) => Promise<T>): Promise<T | undefined> {
  try {
    return await read(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new FactUnknown(path, causeOf(error));
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

/** Whether this process has the capability NET_ADMIN, as root or by itself (capabilities(7)). */
export async function mayChangeNetwork(): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8');
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> CAP_NET_ADMIN) & 1n) === 1n;
}

/**
 * The tables of iptables' legacy variant in this network namespace that this process may use, such as `nat`. Only root may read their names,
 * and only root can use the variant, whose lock is in /run. Throws FactUnknown.
 */
export async function legacyTables(family: Family, files: ProcFiles = realFiles): Promise<readonly string[]> {
  const read = async (path: string) => {
    try {
      return await files.read(path);
    } catch (error) {
      if (!files.isRoot && codeOf(error) === 'EACCES') return '';
      throw error;
    }
  };
  const path = family === 'IPv4' ? '/proc/thread-self/net/ip_tables_names' : '/proc/thread-self/net/ip6_tables_names';
  return ((await fact(path, read)) ?? '').split('\n').filter((name) => name !== '');
}

/** Whether the module of IPVS is loaded. Loads no module. Throws FactUnknown. */
export async function hasIpvs(files: ProcFiles = realFiles): Promise<boolean> {
  return (await fact('/proc/thread-self/net/ip_vs', files.stat)) !== undefined;
}

/** The names of the kernel's sets. Loads no module. Throws FactUnknown, NetlinkError, ListingUnsteady. */
export async function setNames(files: ProcFiles = realFiles): Promise<readonly string[]> {
  if ((await fact('/sys/module/ip_set', files.stat)) === undefined) return [];
  const [ipset, { NETLINK_NETFILTER }, { NetlinkSocket, openTransport }] = await Promise.all([
    import('../../native/ipset.ts'),
    import('../../native/nfnetlink.ts'),
    import('../../native/netlink-socket.ts'),
  ]);
  const socket = new NetlinkSocket(openTransport(NETLINK_NETFILTER));
  try {
    return await wholeListing(() => ipset.setNames(socket));
  } finally {
    socket.close();
  }
}

/** Whether the kernel has the family switched on (/proc/thread-self/net/if_inet6 and disable_ipv6 in Documentation/networking/ip-sysctl.rst). Throws FactUnknown. */
export async function hasFamily(family: Family, files: ProcFiles = realFiles): Promise<boolean> {
  if (family === 'IPv4') return true;
  const disabled = await fact('/proc/sys/net/ipv6/conf/all/disable_ipv6', files.read);
  if (disabled === undefined || disabled.trim() === '1') return false;
  return (await fact('/proc/thread-self/net/if_inet6', files.stat)) !== undefined;
}

/** The families that the kernel has enabled. Throws FactUnknown. */
export async function localFamilies(): Promise<readonly Family[]> {
  const families: Family[] = [];
  for (const family of FAMILIES) if (await hasFamily(family)) families.push(family);
  return families;
}

/**
 * A family's addresses on all interfaces, without IPv6 link-local ones, and without those of Services on the device of IPVS mode.
 * Interfaces without a carrier count, such as a bridge without containers, which Node.js omits. Throws NetlinkError.
 */
export async function interfaceAddresses(family: Family): Promise<Address[]> {
  const { loopback, others } = await localAddresses(family);
  return [...new Set([...loopback, ...others])];
}

/** The same addresses of both families. */
export async function allInterfaceAddresses(): Promise<Address[]> {
  return (await Promise.all(FAMILIES.map(interfaceAddresses))).flat();
}

/** Addresses of a family that are not loopback. */
export function routable(addresses: readonly Address[], family: Family): Address[] {
  return addresses.filter((address) => familyOf(address) === family && !isLoopback(address));
}
