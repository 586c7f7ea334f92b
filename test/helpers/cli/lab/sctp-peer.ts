/**
 * An SCTP peer over raw sockets, for kernels without SCTP: the first two packets of an association (RFC 9260, 3.3.2 and
 * 3.3.3), with their checksums, so that conntrack and its translation see what they would see of a real one.
 *
 *     sctp-peer.ts serve ADDRESS-OF-CLIENT PORT TAG     answer every INIT to the port with an INIT ACK that has this tag
 *     sctp-peer.ts ask SERVICE-ADDRESS PORT             send an INIT; print the tag that is answered, or «silence»
 */
import { setTimeout as pause } from 'node:timers/promises';
import { AF_INET, AF_INET6, receive, SOCK_RAW, sendTo, socket } from '../../../../native/libc.ts';
import { type Address, addressBytes, familyOf } from '../../../../src/base/address.ts';

const IPPROTO_SCTP = 132;
const INIT = 1;
const INIT_ACK = 2;
const CLIENT_PORT = 40_000;
const CLIENT_TAG = 7;
const TRIES = 300;

/** CRC-32C (RFC 9260, appendix A). */
function crc32c(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

interface Chunk {
  readonly from: number;
  readonly to: number;
  /** Verification tag of the header: 0 in an INIT, the peer's own tag afterwards. */
  readonly verification: number;
  readonly type: number;
  readonly tag: number;
}

function encode({ from, to, verification, type, tag }: Chunk): Buffer {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(from, 0);
  packet.writeUInt16BE(to, 2);
  packet.writeUInt32BE(verification, 4);
  packet.writeUInt8(type, 12);
  packet.writeUInt16BE(20, 14);
  packet.writeUInt32BE(tag, 16);
  packet.writeUInt32BE(65_536, 20);
  packet.writeUInt16BE(1, 24);
  packet.writeUInt16BE(1, 26);
  packet.writeUInt32BE(1, 28);
  packet.writeUInt32LE(crc32c(packet), 8);
  return packet;
}

/** IPv4's raw sockets give the header of IP as well. */
function decode(datagram: Buffer, isV4: boolean): Chunk | undefined {
  const start = isV4 ? ((datagram[0] ?? 0) & 15) * 4 : 0;
  if (datagram.length < start + 20) return undefined;
  return {
    from: datagram.readUInt16BE(start),
    to: datagram.readUInt16BE(start + 2),
    verification: datagram.readUInt32BE(start + 4),
    type: datagram.readUInt8(start + 12),
    tag: datagram.readUInt32BE(start + 16),
  };
}

/** struct sockaddr_in or sockaddr_in6 without a port. */
function socketAddress(address: Address): Uint8Array {
  const bytes = Buffer.from(addressBytes(address), 'latin1');
  const isV4 = bytes.length === 4;
  const whole = Buffer.alloc(isV4 ? 16 : 28);
  whole.writeUInt16LE(isV4 ? AF_INET : AF_INET6, 0);
  bytes.copy(whole, isV4 ? 4 : 8);
  return whole;
}

/** Chunks as they come, until `tries` looks found nothing. */
async function* incoming(descriptor: number, { isV4, tries }: { isV4: boolean; tries: number }): AsyncGenerator<Chunk> {
  const buffer = Buffer.alloc(2048);
  for (let left = tries; left > 0; ) {
    let length = 0;
    try {
      length = receive(descriptor, buffer);
    } catch {
      left -= 1;
      await pause(5);
      continue;
    }
    const chunk = decode(buffer.subarray(0, length), isV4);
    if (chunk !== undefined) yield chunk;
  }
}

async function serve(peer: Address, port: number, tag: number): Promise<void> {
  const isV4 = familyOf(peer) === 'IPv4';
  const descriptor = socket(isV4 ? AF_INET : AF_INET6, SOCK_RAW, IPPROTO_SCTP);
  process.stdout.write('serving\n');
  for await (const chunk of incoming(descriptor, { isV4, tries: Number.POSITIVE_INFINITY })) {
    if (chunk.type !== INIT || chunk.to !== port) continue;
    const answer = encode({ from: port, to: chunk.from, verification: chunk.tag, type: INIT_ACK, tag });
    sendTo(descriptor, answer, socketAddress(peer));
  }
}

async function ask(service: Address, port: number): Promise<void> {
  const isV4 = familyOf(service) === 'IPv4';
  const descriptor = socket(isV4 ? AF_INET : AF_INET6, SOCK_RAW, IPPROTO_SCTP);
  const from = CLIENT_PORT + (process.pid % 10_000);
  const init = encode({ from, to: port, verification: 0, type: INIT, tag: CLIENT_TAG });
  sendTo(descriptor, init, socketAddress(service));
  for await (const chunk of incoming(descriptor, { isV4, tries: TRIES })) {
    // Translated back: it comes from the port that was asked, not from the endpoint's.
    if (chunk.type !== INIT_ACK || chunk.to !== from || chunk.from !== port) continue;
    process.stdout.write(`${chunk.tag}\n`);
    process.exit(0);
  }
  process.stdout.write('silence\n');
}

const [verb, address = '', port = '', tag = ''] = process.argv.slice(2);
if (verb === 'serve') await serve(address as Address, Number(port), Number(tag));
else await ask(address as Address, Number(port));
