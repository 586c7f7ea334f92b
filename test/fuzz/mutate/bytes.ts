/** Mutations of bytes that know nothing of their form. */
import type { Random } from '../random.ts';

/** Numbers at the edges of types and of bounds. */
const EDGES = [0, 1, 2, 3, 4, 7, 8, 15, 16, 127, 128, 255, 256, 4095, 4096, 32_767, 32_768, 65_535, 65_536];
const WIDE = [...EDGES, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff];
/** Bytes of the longest input that mutations make. */
export const MAX_INPUT = 256 * 1024;

type Mutation = (random: Random, bytes: Buffer, seeds: readonly Buffer[]) => Buffer;

const flipBit: Mutation = (random, bytes) => {
  const copy = Buffer.from(bytes);
  const at = random.below(copy.length);
  copy[at] = (copy[at] ?? 0) ^ (1 << random.below(8));
  return copy;
};
const setByte: Mutation = (random, bytes) => {
  const copy = Buffer.from(bytes);
  copy[random.below(copy.length)] = random.once(2) ? random.below(256) : random.pick(EDGES);
  return copy;
};
const setNumber: Mutation = (random, bytes) => {
  const size = random.pick([2, 4]);
  if (bytes.length < size) return bytes;
  const copy = Buffer.from(bytes);
  const at = random.below(copy.length - size + 1);
  const value = size === 2 ? random.pick(EDGES) & 0xffff : random.pick(WIDE);
  if (random.once(2)) copy.writeUIntLE(value, at, size);
  else copy.writeUIntBE(value, at, size);
  return copy;
};
const cut: Mutation = (random, bytes) => bytes.subarray(0, random.below(bytes.length + 1));
const remove: Mutation = (random, bytes) => {
  const [from, to] = range(random, bytes);
  return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
};
const repeat: Mutation = (random, bytes) => {
  const [from, to] = range(random, bytes);
  const times = random.once(200) ? 2 + random.below(500) : 2;
  const part = bytes.subarray(from, to);
  return Buffer.concat([bytes.subarray(0, from), ...Array.from({ length: times }, () => part), bytes.subarray(to)]);
};
const insert: Mutation = (random, bytes) => {
  const at = random.below(bytes.length + 1);
  const added = Buffer.from(Array.from({ length: 1 + random.below(8) }, () => random.below(256)));
  return Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at)]);
};
const splice: Mutation = (random, bytes, seeds) => {
  const other = random.pick(seeds);
  const [from, to] = range(random, bytes);
  const [start, end] = range(random, other);
  return Buffer.concat([bytes.subarray(0, from), other.subarray(start, end), bytes.subarray(to)]);
};

const MUTATIONS: readonly Mutation[] = [flipBit, setByte, setNumber, cut, remove, repeat, insert, splice];

function range(random: Random, bytes: Buffer): [from: number, to: number] {
  const from = random.below(bytes.length + 1);
  return [from, from + random.below(Math.min(bytes.length - from, random.once(4) ? bytes.length : 32) + 1)];
}

/** One to four mutations. */
export function mutateBytes(random: Random, bytes: Buffer, seeds: readonly Buffer[]): Buffer {
  let now = bytes;
  for (let left = 1 + random.below(4); left > 0; left--) {
    if (now.length === 0) now = random.pick(seeds);
    now = random.pick(MUTATIONS)(random, now, seeds);
  }
  return now.subarray(0, MAX_INPUT);
}
