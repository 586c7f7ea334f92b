/** A TCP segment that belongs to a connection but is outside its window: connection tracking takes it as INVALID (k8s#74839). */
import { AF_INET, close, receive, SOCK_RAW, sendTo, socket } from '../../../native/libc.ts';
import { type Address, addressBytes } from '../../../src/base/address.ts';
import { until } from '../../helpers/base/until.ts';
import { inNamespace } from '../../helpers/kernel/namespace-sockets.ts';

const IPPROTO_TCP = 6;
const PUSH_AND_ACK = 0x18;
const ACK = 0x10;
/** Further away than any window. */
const OUTSIDE = 0x4000_0000;

export interface Ends {
  /** Of the server, whose namespace it is. */
  readonly own: string;
  readonly peer: string;
  readonly port: number;
}

interface Seen {
  readonly peerPort: number;
  readonly sequence: number;
  readonly acknowledged: number;
}

/**
 * Send one to the client of a connection, as its server. `speak` makes the client send something: from it the numbers of the connection
 * are known, and its acknowledgement is the right one, so that a reset in answer would end the connection.
 */
export async function injectOutOfWindow(namespace: string, ends: Ends, speak: () => Promise<unknown>): Promise<void> {
  const descriptor = inNamespace(namespace, () => socket(AF_INET, SOCK_RAW, IPPROTO_TCP));
  try {
    await speak();
    let last: Seen | undefined;
    await until('a segment of the client', () => {
      for (let seen = next(descriptor, ends); seen !== undefined; seen = next(descriptor, ends)) last = seen;
      return last !== undefined;
    });
    if (last !== undefined) sendTo(descriptor, segment(ends, last), socketAddress(ends.peer));
  } finally {
    close(descriptor);
  }
}

/** The next segment of the client that has come; undefined: none. */
function next(descriptor: number, { port }: Ends): Seen | undefined {
  const buffer = Buffer.alloc(2048);
  for (;;) {
    let length = 0;
    try {
      length = receive(descriptor, buffer);
    } catch {
      return undefined;
    }
    const start = ((buffer[0] ?? 0) & 15) * 4;
    if (length < start + 20 || buffer.readUInt16BE(start + 2) !== port) continue;
    if (((buffer[start + 13] ?? 0) & ACK) === 0) continue;
    const payload = length - start - ((buffer[start + 12] ?? 0) >> 4) * 4;
    return {
      peerPort: buffer.readUInt16BE(start),
      sequence: (buffer.readUInt32BE(start + 4) + payload) >>> 0,
      acknowledged: buffer.readUInt32BE(start + 8),
    };
  }
}

/** RFC 9293, 3.1. */
function segment({ own, peer, port }: Ends, { peerPort, sequence, acknowledged }: Seen): Buffer {
  const bytes = Buffer.alloc(24);
  bytes.writeUInt16BE(port, 0);
  bytes.writeUInt16BE(peerPort, 2);
  bytes.writeUInt32BE((acknowledged + OUTSIDE) >>> 0, 4);
  bytes.writeUInt32BE(sequence, 8);
  bytes.writeUInt8(5 << 4, 12);
  bytes.writeUInt8(PUSH_AND_ACK, 13);
  bytes.writeUInt16BE(1000, 14);
  bytes.write('boom', 20);
  const pseudo = Buffer.concat([bytesOf(own), bytesOf(peer), Buffer.of(0, IPPROTO_TCP, 0, bytes.length)]);
  bytes.writeUInt16BE(checksum(Buffer.concat([pseudo, bytes])), 16);
  return bytes;
}

/** RFC 1071, of an even number of bytes. */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

const bytesOf = (address: string) => Buffer.from(addressBytes(address as Address), 'latin1');

/** struct sockaddr_in */
function socketAddress(address: string): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt16LE(AF_INET, 0);
  bytesOf(address).copy(bytes, 4);
  return bytes;
}
