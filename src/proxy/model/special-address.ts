/** Special-purpose addresses: those that are not the address of one machine, and those that the internet does not route. Pure. */
import { type Address, addressOctets, cidrContains, isLoopback, parseCidr } from '../../base/address.ts';

/** The kind of a special-purpose address (IANA's registries); undefined for one that can belong to one machine. */
export function specialKind(address: Address): string | undefined {
  const [first = 0, second = 0] = addressOctets(address);
  const isV6 = address.includes(':');
  return address === '0.0.0.0' || address === '::'
    ? 'the unspecified address'
    : isLoopback(address)
      ? 'a loopback address (127.0.0.0/8, ::1)'
      : (isV6 ? first === 0xfe && (second & 0xc0) === 0x80 : first === 169 && second === 254)
        ? 'a link-local address (169.254.0.0/16, fe80::/10)'
        : (isV6 ? first === 0xff : first >= 224 && first < 240)
          ? 'a multicast address (224.0.0.0/4, ff00::/8)'
          : address === '255.255.255.255'
            ? 'the broadcast address'
            : undefined;
}

/**
 * The endpoints that a program of this node may connect to for a client: none at an address such as a loopback one. The API refuses
 * these as addresses of endpoints, and a program may trust every client that connects from there.
 */
export function relayable<E extends { readonly address: Address }>(endpoints: readonly E[]): readonly E[] {
  return endpoints.filter(({ address }) => specialKind(address) === undefined);
}

/** RFC 1918, RFC 6598, RFC 4193. */
const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7'].flatMap(
  (text) => parseCidr(text) ?? [],
);

/** Whether the internet may have a route to the address: it is neither special (`specialKind`) nor private. */
export function isPublic(address: Address): boolean {
  return specialKind(address) === undefined && !PRIVATE.some((range) => cidrContains(range, address));
}
