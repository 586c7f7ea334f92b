/** Entries of sets: their bytes in the kernel, and the text that `ipset` prints. */
import type { EntryBytes } from '../../native/ipset.ts';
import { type Address, addressOctets, addressOfBytes } from '../base/address.ts';

/** `10.96.0.10,tcp:80,10.0.0.0/8` → its bytes. The entry of a bitmap is only a port. */
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

/** The text of an entry in a set of this type. A protocol that no Service has is printed as its number. */
export function entryText({ address, protocol, port, second, length }: EntryBytes, type: string): string {
  if (address === undefined) return String(port ?? '');
  const parts: string[] = [addressOfBytes(address)];
  if (port !== undefined) parts.push(`${protocol ?? ''}:${port}`);
  if (second !== undefined) {
    // The kernel omits the prefix length of a single address.
    const net = type.endsWith('net') ? `/${length ?? second.length * 8}` : '';
    parts.push(addressOfBytes(second) + net);
  }
  return parts.join(',');
}
