/** Netlink messages as trees of attributes, and back (linux/netlink.h). */
import { ATTRIBUTE_HEADER, align, HEADER_LENGTH } from '../../../native/netlink.ts';
import type { Random } from '../random.ts';
import { mutateBytes } from './bytes.ts';
import { mutateTree, type Node } from './tree.ts';

interface Parsed {
  /** struct nlmsghdr and the header of the protocol. */
  readonly head: Buffer;
  readonly nodes: Node[];
}

/** The attributes in these bytes; undefined where they are none. */
function attributesIn(bytes: Buffer): Node[] | undefined {
  const nodes: Node[] = [];
  let at = 0;
  while (at + ATTRIBUTE_HEADER <= bytes.length) {
    const size = bytes.readUInt16LE(at);
    if (size < ATTRIBUTE_HEADER || at + size > bytes.length) return undefined;
    const content = bytes.subarray(at + ATTRIBUTE_HEADER, at + size);
    const mark = bytes.readUInt16LE(at + 2);
    nodes.push({ mark, content: (content.length >= 8 ? attributesIn(content) : undefined) ?? content });
    at += align(size);
  }
  return at >= bytes.length && nodes.length > 0 ? nodes : undefined;
}

function bytesOf(nodes: readonly Node[]): Buffer {
  const parts: Buffer[] = [];
  for (const { mark, content, lie } of nodes) {
    const value = Array.isArray(content) ? bytesOf(content) : content;
    const bytes = Buffer.alloc(align(ATTRIBUTE_HEADER + value.length));
    bytes.writeUInt16LE((lie ?? ATTRIBUTE_HEADER + value.length) & 0xffff, 0);
    bytes.writeUInt16LE(mark & 0xffff, 2);
    bytes.set(value, ATTRIBUTE_HEADER);
    parts.push(bytes);
  }
  return Buffer.concat(parts);
}

/** The messages of a datagram. Protocols have headers of 4 to 16 bytes: the first after which attributes follow is it. */
function messagesIn(datagram: Buffer): Parsed[] {
  const found: Parsed[] = [];
  for (let at = 0; at + HEADER_LENGTH <= datagram.length; ) {
    const size = datagram.readUInt32LE(at);
    if (size < HEADER_LENGTH || at + size > datagram.length) break;
    const message = datagram.subarray(at, at + size);
    const header = [4, 8, 12, 16, 0].find(
      (length) => attributesIn(message.subarray(HEADER_LENGTH + length)) !== undefined,
    );
    const start = header === undefined ? size : HEADER_LENGTH + header;
    found.push({ head: message.subarray(0, start), nodes: attributesIn(message.subarray(start)) ?? [] });
    at += align(size);
  }
  return found;
}

/** A datagram from one of the seeds. The lengths of messages are right nine times of ten. */
export function mutateNetlink(random: Random, seeds: readonly Buffer[]): Buffer {
  const seed = random.pick(seeds);
  if (random.once(10)) return mutateBytes(random, seed, seeds);
  const messages = messagesIn(seed);
  const others = messagesIn(random.pick(seeds)).flatMap(({ nodes }) => nodes);
  if (messages.length > 0) mutateTree(random, random.pick(messages).nodes, others, seeds);
  const parts = messages.map(({ head, nodes }) => {
    const body = bytesOf(nodes);
    const start = Buffer.from(head);
    if (random.once(20)) start.set(mutateBytes(random, start, seeds).subarray(0, start.length));
    if (!random.once(10)) start.writeUInt32LE(start.length + body.length, 0);
    return Buffer.concat([start, body]);
  });
  const whole = Buffer.concat(parts);
  return random.once(10) ? mutateBytes(random, whole, seeds) : whole;
}
