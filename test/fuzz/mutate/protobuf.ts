/** Answers in protobuf as trees of fields, and back (protobuf.dev, «Encoding»). */
import type { Random } from '../random.ts';
import { MAX_INPUT, mutateBytes } from './bytes.ts';
import { mutateTree, type Node } from './tree.ts';

const VARINT = 0;
const WITH_LENGTH = 2;
const WIDTHS: Readonly<Record<number, number>> = { 1: 8, 5: 4 };
/** `k8s\0` before every answer of an API server. */
const MAGIC = 4;

function varintAt(bytes: Buffer, start: number): { readonly value: number; readonly end: number } | undefined {
  let value = 0;
  for (let at = start; at < bytes.length && at < start + 7; at++) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * 2 ** (7 * (at - start));
    if (byte < 0x80) return { value, end: at + 1 };
  }
  return undefined;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) + 0x80);
  bytes.push(left);
  return Buffer.from(bytes);
}

/** `mark` is the key: number and wire type. undefined where the bytes are no fields. */
function fieldsIn(bytes: Buffer): Node[] | undefined {
  const nodes: Node[] = [];
  let at = 0;
  while (at < bytes.length) {
    const key = varintAt(bytes, at);
    if (key === undefined || key.value < 8) return undefined;
    const type = key.value & 7;
    const length = type === WITH_LENGTH ? varintAt(bytes, key.end) : undefined;
    const start = length?.end ?? key.end;
    const end = type === VARINT ? varintAt(bytes, start)?.end : start + (length?.value ?? WIDTHS[type] ?? Number.NaN);
    if (end === undefined || !(end <= bytes.length)) return undefined;
    const content = bytes.subarray(start, end);
    nodes.push({ mark: key.value, content: (type === WITH_LENGTH ? fieldsIn(content) : undefined) ?? content });
    at = end;
  }
  return nodes.length > 0 ? nodes : undefined;
}

function bytesOf(nodes: readonly Node[]): Buffer {
  const parts: Buffer[] = [];
  for (const { mark, content, lie } of nodes) {
    const value = Array.isArray(content) ? bytesOf(content) : content;
    parts.push(varint(mark));
    if ((mark & 7) === WITH_LENGTH) parts.push(varint(lie ?? value.length));
    parts.push(value);
  }
  return Buffer.concat(parts);
}

/** An answer from one of the seeds. */
export function mutateProtobuf(random: Random, seeds: readonly Buffer[]): Buffer {
  const seed = random.pick(seeds);
  const [nodes, others] = [seed, random.pick(seeds)].map((one) => fieldsIn(one.subarray(MAGIC)));
  if (nodes === undefined || random.once(10)) return mutateBytes(random, seed, seeds);
  mutateTree(random, nodes, others ?? [], seeds);
  const whole = Buffer.concat([seed.subarray(0, MAGIC), bytesOf(nodes)]).subarray(0, MAX_INPUT);
  return random.once(10) ? mutateBytes(random, whole, seeds) : whole;
}
