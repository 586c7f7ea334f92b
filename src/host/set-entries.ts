/** Entries of sets: as the kernel tells them, and as `ipset` prints them. */
import type { EntryBytes } from '../../native/ipset.ts';
import { type Address, addressOctets, addressOfBytes } from '../model/address.ts';

/** `10.96.0.10,tcp:80,10.0.0.0/8` → its bytes; a bitmap's entry is a port alone. */
export function entryBytes(text: string): EntryBytes {
  if (/^\d+$/.test(text)) return { port: Number(text) };
  const [address = '', socket, second] = text.split(',');
  const [protocol, port] = socket?.split(':') ?? [];
  const [net, length] = second?.split('/') ?? [];
  return {
    address: addressOctets(address as Address),
    ...(socket === undefined ? {} : { protocol: protocolOf(protocol ?? ''), port: Number(port) }),
    ...(net === undefined ? {} : { second: addressOctets(net as Address) }),
    ...(length === undefined ? {} : { length: Number(length) }),
  };
}

function protocolOf(text: string): EntryBytes['protocol'] {
  return /^\d+$/.test(text) ? Number(text) : (text as 'tcp');
}

/** The other way round; a protocol that no Service has is its number. */
export function entryText({ address, protocol, port, second, length }: EntryBytes, type: string): string {
  if (address === undefined) return String(port ?? '');
  const parts: string[] = [addressOfBytes(address)];
  if (port !== undefined) parts.push(`${protocol ?? ''}:${port}`);
  if (second !== undefined) {
    // The kernel leaves out the length of a single address.
    const net = type.endsWith('net') ? `/${length ?? second.length * 8}` : '';
    parts.push(addressOfBytes(second) + net);
  }
  return parts.join(',');
}
