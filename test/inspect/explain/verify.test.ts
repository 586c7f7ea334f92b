/** The answer of `slicewire verify`, and its text. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verificationOf } from '../../../src/inspect/explain/verify.ts';
import type { AnsweredBy } from '../../../src/inspect/wire/schema-common.ts';
import { verificationSchema, verificationText } from '../../../src/inspect/wire/verification.ts';
import type { ObjectDifference } from '../../../src/proxy/modes/inspection.ts';

const BY: AnsweredBy = {
  who: 'agent',
  mode: 'nftables',
  node: 'node-1',
  version: '1.2.3',
  at: '2026-11-22T12:03:04.000Z',
};
const CHANGED: ObjectDifference = {
  family: 'IPv4',
  object: 'services 10.96.0.20 . tcp . 80',
  owner: 'shop/web',
  kind: 'changed',
  wanted: ['10.96.0.20 . tcp . 80 : goto cluster-ip-of-2'],
  found: ['10.96.0.20 . tcp . 80 : drop'],
  because: undefined,
  isRepaired: true,
};
const NFT = { pid: 4711, name: 'nft', isUs: false };

/** The answer of these differences, checked by its schema. */
function answer(differences: readonly ObjectDifference[], by = BY, lastWriter: typeof NFT | 'unknown' = NFT) {
  const comparison = { differences, compared: 12_345, lastWriter: lastWriter === 'unknown' ? undefined : lastWriter };
  return verificationSchema.parse(verificationOf(comparison, by));
}

const text = (...differences: readonly ObjectDifference[]) => verificationText(answer(differences));

describe('the answer of verify', () => {
  it('is equal without differences', () => {
    const { equal, compared, count, lastWriter } = answer([]);
    assert.deepEqual(
      { equal, compared, count, lastWriter },
      { equal: true, compared: 12_345, count: 0, lastWriter: { pid: 4711, name: 'nft', isSlicewire: false } },
    );
    assert.equal(
      text(),
      'The kernel is as desired: 12,345 objects compared.\nCompared on node node-1 in nftables mode, as of 2026-11-22T12:03:04.000Z.\n',
    );
  });

  it('names the object, its Service, what is found and what is wanted, who wrote last, and what follows', () => {
    assert.equal(
      text(CHANGED),
      `1 kernel object differs from the desired state: 12,345 objects compared.
Compared on node node-1 in nftables mode, as of 2026-11-22T12:03:04.000Z.

IPv4 services 10.96.0.20 . tcp . 80 of Service shop/web differs
  - 10.96.0.20 . tcp . 80 : drop
  + 10.96.0.20 . tcp . 80 : goto cluster-ip-of-2

The program that changed rules last is nft (process 4711).
slicewire repairs what another program changed after its next reading of the kernel, at the latest
after its sync period.
`,
    );
  });

  it('lists the first thousand, counts all, and puts first what another program changed', () => {
    const pending = Array.from({ length: 1200 }, (): ObjectDifference => ({ ...CHANGED, because: 'not written yet' }));
    const { differences, count, equal } = answer([...pending, CHANGED]);
    assert.deepEqual([differences.length, count, equal], [1000, 1201, false]);
    assert.equal(differences[0]?.because, '');
    assert.match(text(...pending, CHANGED), /^1,201 kernel objects differ.*… and 201 more differences\..*next sync/s);
  });

  it('takes what waits for connections for desired', () => {
    const waiting: ObjectDifference = { ...CHANGED, kind: 'foreign', because: 'waits for connections to end' };
    assert.equal(answer([waiting]).equal, true);
    assert.match(text(waiting), /^The kernel is as desired: 12,345 objects compared, 1 of them left until/);
    assert.match(text(waiting), /of Service shop\/web is removed when its connections end\n/);
    assert.equal(answer([waiting, CHANGED]).equal, false);
  });

  it('says what the kernel refuses, and what slicewire does not repair', () => {
    const refused: ObjectDifference = { ...CHANGED, because: 'refused by the kernel' };
    assert.match(text(refused), /of Service shop\/web is refused by the kernel.*tries again.*slicewire status/s);
    const order: ObjectDifference = {
      ...CHANGED,
      family: undefined,
      owner: undefined,
      kind: 'order',
      isRepaired: false,
    };
    assert.match(
      text(order),
      /\nservices 10\.96\.0\.20 \. tcp \. 80 has another order\n.*does not repair a rule of nftables/s,
    );
  });

  it('shortens a long difference', () => {
    const wanted = Array.from({ length: 40 }, (_, i) => `line ${i}`);
    assert.match(text({ ...CHANGED, wanted }), / {2}\+ line 10\n {2}… and 29 more lines\n/);
  });

  it('says where the last writer is unknown, or slicewire itself, and that no agent was asked', () => {
    assert.doesNotMatch(verificationText(answer([CHANGED], BY, 'unknown')), /changed rules last/);
    const us = verificationText(answer([CHANGED], BY, { ...NFT, isUs: true }));
    assert.match(us, /last is slicewire; who changed them before is\snot\sknown/);
    const command = verificationText(answer([CHANGED], { ...BY, who: 'command' }));
    assert.match(command, /"slicewire plan" shows the writes that repair it; no agent was asked\./);
  });
});
