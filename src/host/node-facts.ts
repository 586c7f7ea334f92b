/** Facts about this node that the rules depend on. */
import { access, readFile } from 'node:fs/promises';
import { type Address, FAMILIES, type Family, familyOf, isLoopback } from '../model/address.ts';
import { localAddresses } from './devices.ts';

const CAP_NET_ADMIN = 12n;

/** Whether this process has the capability NET_ADMIN, as root or by itself (capabilities(7)). */
export async function mayChangeNetwork(): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8');
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> CAP_NET_ADMIN) & 1n) === 1n;
}

/** Whether this network namespace has tables of iptables' legacy variant. Throws the error of the file, unless it is not there. */
export async function hasLegacyTables(): Promise<boolean> {
  // Without root's rights the names cannot be read, nor can the tables be used.
  const names = await readIfThere('/proc/net/ip_tables_names', ['ENOENT', 'EACCES']);
  return names?.includes('mangle') ?? false;
}

/** Whether the module of IPVS is loaded. Loads no module. Throws the error of the file, unless it is not there. */
export async function hasIpvs(): Promise<boolean> {
  return (await ifThere(access('/proc/net/ip_vs').then(() => true))) ?? false;
}

/** undefined: there is no such file. Throws other errors: a file that cannot be read is not a missing one. */
export async function readIfThere(path: string, missing?: readonly string[]): Promise<string | undefined> {
  return await ifThere(readFile(path, 'utf8'), missing);
}

/** `missing`: the codes of errors of a file that is not there. */
async function ifThere<T>(reading: Promise<T>, missing: readonly string[] = ['ENOENT']): Promise<T | undefined> {
  return await reading.catch((error: NodeJS.ErrnoException) => {
    if (missing.includes(error.code ?? '')) return undefined;
    throw error;
  });
}

/** Whether the kernel has the family switched on (/proc/net/if_inet6 and disable_ipv6 in Documentation/networking/ip-sysctl.rst). Throws the error of a file that is there. */
export async function hasFamily(family: Family): Promise<boolean> {
  if (family === 'IPv4') return true;
  const disabled = await readIfThere('/proc/sys/net/ipv6/conf/all/disable_ipv6');
  const present = await readIfThere('/proc/net/if_inet6');
  return present !== undefined && disabled !== undefined && disabled.trim() !== '1';
}

/** The families that the kernel has enabled. */
export async function localFamilies(): Promise<readonly Family[]> {
  const families: Family[] = [];
  for (const family of FAMILIES) if (await hasFamily(family)) families.push(family);
  return families;
}

/**
 * A family's addresses on all interfaces, without IPv6 link-local ones, and without those of Services on the device of IPVS mode.
 * Interfaces without a carrier count, such as a bridge without containers; Node.js omits them. Throws NetlinkError.
 */
export async function interfaceAddresses(family: Family): Promise<Address[]> {
  const { loopback, others } = await localAddresses(family);
  return [...new Set([...loopback, ...others])];
}

/** Addresses of a family that are not loopback. */
export function routable(addresses: readonly Address[], family: Family): Address[] {
  return addresses.filter((address) => familyOf(address) === family && !isLoopback(address));
}
