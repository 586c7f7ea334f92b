/** Packed data comes back as it was, and takes little room. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { pack, unpack, WORDS } from '../../../src/cluster/producers/packing.ts';

function comesBack(value: unknown): void {
  const packed = pack(value);
  const again = unpack(packed);
  assert.deepStrictEqual(again, value);
  // The order of fields is that of the text to write.
  assert.equal(JSON.stringify(again), JSON.stringify(value));
  assert.ok(/^[\0-\xff]*$/.test(packed), 'it has characters of one byte alone');
}

/** Texts that have a form of their own, and texts that nearly have it. */
const texts = fc.oneof(
  fc.constantFrom(...WORDS, '0', '00', '01', '10', '999999999999999', '9999999999999999', '1e3', '-1', '1.5', ' 1'),
  fc.constantFrom('10.0.0.1', '255.255.255.255', '0.0.0.0', '256.0.0.1', '1.2.3', '1.2.3.4.5', '01.2.3.4', '1..2.3'),
  fc.constantFrom('2026-11-21T00:27:50Z', '2026-11-21T00:27:50.5Z', '2026-02-30T00:00:00Z', '1969-12-31T23:59:59Z'),
  fc.constantFrom(
    'web-7d9f8b6c5d-x2k4j',
    'web-7d9f8b6c5d-qqqqq',
    'web-7d9f8b6c5d',
    'é',
    'web-é',
    'web-日本',
    '😀',
    '\ud800',
  ),
  fc.constantFrom(
    'A5b74755-b878-4ebc-a823-c349f082a43f',
    'a5b74755-b878-4ebc-a823-c349f082a43',
    '__proto__',
    'toString',
  ),
  fc.uuid(),
  fc.ipV4(),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const data = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    texts,
    fc.constantFrom(null, undefined, true, false, -0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2 ** 53 - 1),
    fc.double(),
    fc.maxSafeInteger(),
    fc.array(tie('value'), { maxLength: 6 }),
    fc.dictionary(texts, tie('value'), { maxKeys: 6, noNullPrototype: true }),
  ),
})).value;

describe('packed data', () => {
  it('comes back as it was', () => {
    fc.assert(fc.property(data, (value) => comesBack(value)));
  });

  it('comes back when it is longer than anything before it', () => {
    comesBack({
      short: 'x'.repeat(5),
      long: 'y'.repeat(100_000),
      list: Array.from({ length: 20_000 }, (_, i) => `n-${i}`),
    });
  });

  it('comes back with more kinds of objects than are remembered', () => {
    const objects = Array.from({ length: 200 }, (_, i) => ({
      [`field-${i}`]: i,
      [`other-${i % 70}`]: `text-${i % 7}`,
    }));
    comesBack([...objects, ...objects]);
  });

  it('is independent of what was packed before', () => {
    const packed = [{ a: 'first-text' }, ['first-text', 'first-text'], 'first-text'].map((value) => pack(value));
    assert.deepEqual(packed.map(unpack), [{ a: 'first-text' }, ['first-text', 'first-text'], 'first-text']);
  });

  it('is data alone: a function is refused', () => {
    assert.throws(() => pack({ call: () => 1 }), /^TypeError: cannot pack a function$/);
  });
});

describe('the room of packed data', () => {
  const endpoint = (i: number) => ({
    addresses: [`10.1.2.${i}`],
    conditions: { ready: true, serving: true, terminating: false },
    targetRef: {
      kind: 'Pod',
      namespace: 'shop',
      name: `web-7d9f8b6c5d-x2k${i}`,
      uid: `a5b74755-b878-4ebc-a823-c349f082a0${i}`,
    },
    nodeName: 'node-17',
    zone: 'zone-1',
  });

  it('is 50 bytes for an endpoint of a slice that has others', () => {
    const slice = (count: number) => pack(Array.from({ length: count }, (_, i) => endpoint(i + 10)));
    const more = slice(20).length - slice(10).length;
    assert.ok(more <= 500, `10 more endpoints take ${more} bytes`);
  });

  it('has at most 224 words, each once', () => {
    assert.ok(WORDS.length <= 224);
    assert.equal(new Set(WORDS).size, WORDS.length);
  });
});
