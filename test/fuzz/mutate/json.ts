/** Mutations of JSON that keep it JSON: values of another type, odd texts and numbers, other keys, depth and length. */
import type { Random } from '../random.ts';
import { mutateBytes } from './bytes.ts';
import { ODD_TEXTS } from './text.ts';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Stand for what `JSON.stringify` cannot write. */
const RAW = { '@huge@': '1e999', '@deep@': '', '@minus@': '-0' } as const;

const ODD_VALUES: readonly Json[] = [
  null,
  true,
  false,
  0,
  -1,
  1,
  1.5,
  80,
  65_535,
  65_536,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  1e308,
  5e-324,
  '@huge@',
  '@minus@',
  [],
  {},
  [null],
  [[]],
  [{}],
  { toString: 1 },
  { toJSON: 1, valueOf: null },
  { length: -1 },
  { constructor: { prototype: null } },
];

const ODD_KEYS = ['__proto__', 'constructor', 'toString', 'toJSON', 'length', '', 'a.b', '0', 'then', 'é', 'x\ny'];

interface Place {
  readonly holder: Json[] | { [key: string]: Json };
  readonly key: string | number;
}

/** All places of a value that can hold another one. */
function placesOf(value: Json, found: Place[] = []): Place[] {
  if (typeof value !== 'object' || value === null) return found;
  const entries: (readonly [string | number, Json])[] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  for (const [key, inner] of entries) {
    found.push({ holder: value, key });
    placesOf(inner, found);
  }
  return found;
}

function valueAt({ holder, key }: Place): Json {
  return Array.isArray(holder) ? (holder[Number(key)] ?? null) : (holder[key] ?? null);
}

/** `__proto__` is a key like any other. */
function put({ holder, key }: Place, value: Json): void {
  if (Array.isArray(holder)) holder[Number(key)] = value;
  else Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });
}

function removeFrom({ holder, key }: Place): void {
  if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else delete holder[key];
}

function oddValue(random: Random): Json {
  if (random.once(3)) return random.pick(ODD_TEXTS);
  if (random.once(400)) return '@deep@';
  return structuredClone(random.pick(ODD_VALUES));
}

/** A change of a text that leaves most of it. */
function oddText(random: Random, text: string): string {
  const at = random.below(text.length + 1);
  const end = at + random.below(3);
  return text.slice(0, at) + random.pick(ODD_TEXTS) + text.slice(end);
}

type Mutation = (random: Random, place: Place, others: readonly Place[]) => void;

const MUTATIONS: readonly Mutation[] = [
  (random, place) => put(place, oddValue(random)),
  (random, place) => {
    const value = valueAt(place);
    if (typeof value === 'string') put(place, oddText(random, value));
    else if (typeof value === 'number') put(place, random.pick([value + 1, -value, value / 2, value * 65_536, 0]));
    else put(place, oddValue(random));
  },
  (_random, place) => removeFrom(place),
  (random, place) => {
    const key = random.once(2) || random.pick([0, 1]) === 0 ? random.pick(ODD_KEYS) : random.pick(ODD_TEXTS);
    put({ holder: place.holder, key: Array.isArray(place.holder) ? 0 : key }, valueAt(place));
  },
  (random, place, others) => put(place, structuredClone(valueAt(random.pick(others)))),
  (random, place) => put(place, random.once(2) ? [valueAt(place)] : { '': valueAt(place) }),
  (random, place) => {
    const value = valueAt(place);
    if (!Array.isArray(value) || value.length === 0) return put(place, oddValue(random));
    const times = random.once(100) ? 1 + random.below(1500) : 1 + random.below(3);
    for (let i = 0; i < times; i++) value.push(structuredClone(random.pick(value)));
  },
];

/** As JSON, with numbers and depths that no value has. */
function textOf(random: Random, value: Json): string {
  const text = JSON.stringify(value);
  if (!text.includes('"@')) return text;
  const depth = random.pick([50, 101, 1000, 20_000]);
  const [open, close] = random.once(2) ? ['[', ']'] : ['{"a":', '}'];
  return text
    .replaceAll('"@huge@"', RAW['@huge@'])
    .replaceAll('"@minus@"', RAW['@minus@'])
    .replaceAll('"@deep@"', `${open.repeat(depth)}1${close.repeat(depth)}`);
}

/** The seed with one to four changes. */
export function mutateValue(random: Random, seed: Json, other: Json): Json {
  const whole: Json = { root: seed };
  const others = placesOf({ root: other });
  for (let left = 1 + random.below(4); left > 0; left--) {
    const places = placesOf(whole);
    if (places.length > 0) random.pick(MUTATIONS)(random, random.pick(places), others);
  }
  return whole.root ?? null;
}

/** A text of JSON from two of the seeds, which are JSON; a tenth of them with changed bytes. */
export function mutateJson(random: Random, seeds: readonly Buffer[]): Buffer {
  const [seed, other] = [random.pick(seeds), random.pick(seeds)].map((text): Json => JSON.parse(text.toString()));
  const text = Buffer.from(textOf(random, mutateValue(random, seed ?? null, other ?? null)));
  return random.once(10) ? mutateBytes(random, text, seeds) : text;
}
