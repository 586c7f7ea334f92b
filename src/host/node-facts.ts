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

/** Whether this network namespace has tables of iptables' legacy variant. */
export async function hasLegacyTables(): Promise<boolean> {
  const names = await readFile('/proc/net/ip_tables_names', 'utf8').catch(() => '');
  return names.includes('mangle');
}

/** Whether the module of IPVS is loaded. Loads no module. */
export async function hasIpvs(): Promise<boolean> {
  return await access('/proc/net/ip_vs').then(
    () => true,
    () => false,
  );
}

/** Whether the kernel has the family switched on (/proc/net/if_inet6 and disable_ipv6 in Documentation/networking/ip-sysctl.rst). */
export async function hasFamily(family: Family): Promise<boolean> {
  if (family === 'IPv4') return true;
  const disabled = await readFile('/proc/sys/net/ipv6/conf/all/disable_ipv6', 'utf8').catch(() => '1');
  const present = await readFile('/proc/net/if_inet6', 'utf8').then(
    () => true,
    () => false,
  );
  return present && disabled.trim() !== '1';
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
