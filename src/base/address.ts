/**
 * IP addresses and CIDRs in canonical text, and the protocols above them.
 *
 * Only this file makes an `Address` or `Cidr`, so that no unchecked text from the API reaches a command line or a netlink message.
 * Parsing is as lenient as kube-proxy's: octets of IPv4 with leading zeros are decimal.
 */
import ipaddr from 'ipaddr.js';

export type Family = 'IPv4' | 'IPv6';
export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

export type Protocol = 'TCP' | 'UDP' | 'SCTP';
export const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

/** An IP address in canonical text: dotted decimal, or RFC 5952. */
export type Address = string & { readonly __address: true };
/** `address/length` with the bits after the length cleared. */
export type Cidr = string & { readonly __cidr: true };

/** Most addresses are canonical text already. */
const CANONICAL_V4 = /^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/;
const V4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;

/** Parses an address of either family. IPv4-mapped IPv6 becomes IPv4, as in Go's net.IP. Returns undefined for any other text. */
export function parseAddress(text: string): Address | undefined {
  if (CANONICAL_V4.test(text)) return text as Address;
  const v4 = V4.exec(text);
  if (v4) {
    const octets = v4.slice(1).map(Number);
    return octets.every((octet) => octet <= 255) ? (octets.join('.') as Address) : undefined;
  }
  if (!text.includes(':') || text.includes('%') || !ipaddr.IPv6.isValid(text)) return undefined;
  const v6 = ipaddr.IPv6.parse(text);
  return (v6.isIPv4MappedAddress() ? v6.toIPv4Address().toString() : v6.toRFC5952String()) as Address;
}

/** Parses the address of a socket as Node.js writes it, which may have a zone (`fe80::1%eth0`) or be IPv4-mapped. */
export function socketAddress(text: string): Address | undefined {
  return parseAddress(text.replace(/%.*$/, ''));
}

/** Parses `address/length` and clears the host bits. Returns undefined for any other text. */
export function parseCidr(text: string): Cidr | undefined {
  const [base, length, ...rest] = text.trim().split('/');
  const address = base === undefined ? undefined : parseAddress(base);
  if (address === undefined || length === undefined || rest.length > 0 || !/^\d{1,3}$/.test(length)) return undefined;
  const bits = Number(length);
  const width = addressWidth(familyOf(address));
  if (bits > width) return undefined;
  return `${fromBinary(addressBits(address).slice(0, bits).padEnd(width, '0'))}/${bits}` as Cidr;
}

/** The family of a canonical address or CIDR. */
export function familyOf(address: Address | Cidr): Family {
  return address.includes(':') ? 'IPv6' : 'IPv4';
}

/** Bits in an address of the family: 32 or 128. */
export function addressWidth(family: Family): number {
  return family === 'IPv4' ? 32 : 128;
}

/** The host CIDR of an address: `/32` or `/128`. */
export function hostCidr(address: Address): Cidr {
  return `${address}/${addressWidth(familyOf(address))}` as Cidr;
}

/** `ip:port`, with brackets for IPv6: the form of DNAT targets, and the order in which endpoints are sorted. */
export function endpointText(address: Address, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The address as a string of `0` and `1`, 32 or 128 long. */
export function addressBits(address: Address): string {
  const bytes = ipaddr.parse(address).toByteArray();
  let bits = '';
  for (const byte of bytes) bits += byte.toString(2).padStart(8, '0');
  return bits;
}

/** The address in network order, each byte a character of Latin-1. The kernel's tables are compared in this form. */
export function addressBytes(address: Address): string {
  const octets = addressOctets(address);
  const [a = 0, b = 0, c = 0, d = 0] = octets;
  return octets.length === 4 ? String.fromCharCode(a, b, c, d) : String.fromCharCode(...octets);
}

/** The address in network order: 4 or 16 bytes. IPv4 is read digit by digit, because callers convert thousands in a row. */
export function addressOctets(address: Address): Uint8Array {
  if (address.includes(':')) return Uint8Array.from(ipaddr.parse(address).toByteArray());
  const octets = new Uint8Array(4);
  let at = 0;
  for (let i = 0; i < address.length; i++) {
    const code = address.charCodeAt(i);
    if (code === DOT) at += 1;
    else octets[at] = (octets[at] ?? 0) * 10 + code - ZERO;
  }
  return octets;
}

const DOT = 46;
const ZERO = 48;

/** The canonical address of 4 or 16 bytes in network order. */
export function addressOfBytes(bytes: Uint8Array): Address {
  if (bytes.length === 4) return bytes.join('.') as Address;
  return (ipaddr.fromByteArray([...bytes]) as ipaddr.IPv6).toRFC5952String() as Address;
}

/** The next address; the first one after the last. */
export function nextAddress(address: Address): Address {
  const octets = addressOctets(address);
  for (let i = octets.length - 1; i >= 0; i--) {
    octets[i] = ((octets[i] ?? 0) + 1) & 0xff;
    if (octets[i] !== 0) break;
  }
  return addressOfBytes(octets);
}

/** A port in network order, as two characters of Latin-1. */
export function portBytes(port: number): string {
  return String.fromCharCode(port >> 8, port & 0xff);
}

/** The port of `portBytes`. */
export function portOf(bytes: string): number {
  return bytes.charCodeAt(0) * 256 + bytes.charCodeAt(1);
}

/** Address and port in network order, as 6 or 18 characters of Latin-1. */
export function socketBytes(address: Address, port: number): string {
  return addressBytes(address) + portBytes(port);
}

/** The canonical address of 4 or 16 bytes in network order, each a character of Latin-1. */
export function addressOfText(bytes: string): Address {
  return addressOfBytes(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
}

export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
}

/** Address and port of `socketBytes`. */
export function socketOf(bytes: string): SocketAddress {
  return { address: addressOfText(bytes.slice(0, -2)), port: portOf(bytes.slice(-2)) };
}

/** `ip:port` of `socketBytes`. */
export function socketText(bytes: string): string {
  const { address, port } = socketOf(bytes);
  return endpointText(address, port);
}

/** The canonical address of a string of 32 or 128 `0` and `1`. */
export function fromBinary(bits: string): Address {
  const bytes: number[] = [];
  for (let i = 0; i < bits.length; i += 8) bytes.push(Number.parseInt(bits.slice(i, i + 8), 2));
  const parsed = ipaddr.fromByteArray(bytes);
  return (parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString()) as Address;
}

/** Whether the CIDR contains the address; false when the families differ. */
export function cidrContains(cidr: Cidr, address: Address): boolean {
  if (familyOf(cidr) !== familyOf(address)) return false;
  const slash = cidr.indexOf('/');
  const length = Number(cidr.slice(slash + 1));
  const base = cidr.slice(0, slash) as Address;
  return addressBits(base).slice(0, length) === addressBits(address).slice(0, length);
}

/** A CIDR of length 0: every address of its family. */
export function holdsAll(cidr: Cidr): boolean {
  return cidr.endsWith('/0');
}

/** 127.0.0.0/8 or ::1. */
export function isLoopback(address: Address): boolean {
  return address.startsWith('127.') || address === '::1';
}
