/** Facts about this machine that the rules depend on. */
import { readFile } from 'node:fs/promises';
import { type Address, type Family, familyOf, isLoopback, parseAddress } from '../model/address.ts';

const CAP_NET_ADMIN = 12n;

/** Whether this process may change network state: root, or the capability alone (capabilities(7)). */
export async function mayChangeNetwork(): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8');
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> CAP_NET_ADMIN) & 1n) === 1n;
}

/** Whether the kernel has the family switched on (reference 1.7). */
export async function hasFamily(family: Family): Promise<boolean> {
  if (family === 'IPv4') return true;
  const disabled = await readFile('/proc/sys/net/ipv6/conf/all/disable_ipv6', 'utf8').catch(() => '1');
  const present = await readFile('/proc/net/if_inet6', 'utf8').then(
    () => true,
    () => false,
  );
  return present && disabled.trim() !== '1';
}

/**
 * A family's addresses of all interfaces, also of those without a carrier (a bridge without containers), which Node.js
 * leaves out; without IPv6 link-local ones.
 */
export async function interfaceAddresses(family: Family): Promise<Address[]> {
  const found =
    family === 'IPv4'
      ? localV4(await readFile('/proc/net/fib_trie', 'utf8'))
      : interfacesV6(await readFile('/proc/net/if_inet6', 'utf8').catch(() => ''));
  return [...new Set(found)];
}

/** What the routing table holds as local: an address, and below it `/32 host LOCAL`. */
export function localV4(trie: string): Address[] {
  const found = trie.matchAll(/\|-- ([\d.]+)\n\s+\/32 host LOCAL/g);
  return [...found].map(([, text = '']) => parseAddress(text)).filter((address) => address !== undefined);
}

/** Lines of address, interface, prefix length, scope (0x20: link), flags, name. */
export function interfacesV6(lines: string): Address[] {
  const found = lines.matchAll(/^([0-9a-f]{32}) \S+ \S+ (\S+) /gm);
  return [...found]
    .filter(([, , scope]) => scope !== '20')
    .map(([, digits = '']) => parseAddress(digits.replace(/(....)(?=.)/g, '$1:')))
    .filter((address) => address !== undefined);
}

/** Addresses of a family that are not loopback. */
export function routable(addresses: readonly Address[], family: Family): Address[] {
  return addresses.filter((address) => familyOf(address) === family && !isLoopback(address));
}
