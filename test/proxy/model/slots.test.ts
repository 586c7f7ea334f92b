/** Slots by weights (docs/traffic.md): the parts are right within 1 % of all, and few slots change. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inSlots } from '../../../src/proxy/model/slots.ts';

const members = (weights: readonly number[]) =>
  weights.map((weight, i) => ({ text: `10.244.${i >> 8}.${i & 255}:8080`, weight }));

/** The largest difference of a part from what the weights say. */
function worstError(weights: readonly number[]): number {
  const all = members(weights);
  const slots = inSlots(all, 'weights');
  const sum = weights.reduce((a, b) => a + b, 0);
  const counts = Map.groupBy(slots, (one) => one);
  return Math.max(...all.map((one) => Math.abs((counts.get(one)?.length ?? 0) / slots.length - one.weight / sum)));
}

/** The number of slots that differ. */
function changed(before: readonly { text: string }[], after: readonly { text: string }[]): number {
  assert.equal(before.length, after.length);
  return before.filter(({ text }, i) => text !== after[i]?.text).length;
}

describe('slots', () => {
  const cases: Readonly<Record<string, readonly number[]>> = {
    'a canary of 10 % beside one': [100, 11],
    'a canary of 5 % beside three': [100, 100, 100, 16],
    'one in a thousand': [1000, 1],
    'one heavy beside three light ones': [1000, 1, 1, 1],
    'one heavy beside four light ones': [1000, 1, 1, 1, 1],
    'one heavy beside many light ones': [1000, ...Array(79).fill(1)],
    'five of which each has another weight': [10, 20, 30, 40, 50],
    'fifty canaries beside fifty': [...Array(50).fill(100), ...Array(50).fill(1)],
    'three hundred and one': [...Array(300).fill(100), 5],
    'two thousand and one': [...Array(2000).fill(100), 7],
  };
  for (const [name, weights] of Object.entries(cases)) {
    it(`are right within 1 % of all, and none is without: ${name}`, () => {
      const error = worstError(weights);
      assert.ok(error < 0.01, `${error}`);
      assert.equal(new Set(inSlots(members(weights), 'weights')).size, weights.length);
    });
  }

  it('of the canaries together are right within 1 %, too', () => {
    const all = members([...Array(50).fill(100), ...Array(50).fill(1)]);
    const canaries =
      inSlots(all, 'weights').filter(({ weight }) => weight === 1).length / inSlots(all, 'weights').length;
    assert.ok(Math.abs(canaries - 1 / 101) < 0.01, `${canaries}`);
  });

  it('change little where a weight changes a little', () => {
    const before = inSlots(members([100, 100, 100, 10]), 'weights');
    const after = inSlots(members([100, 100, 100, 20]), 'weights');
    // The fourth has 8 of 251 slots before, and 16 then.
    assert.ok(changed(before, after) <= 24, `${changed(before, after)}`);
  });
});

describe('slots that clients keep', () => {
  const even = (count: number) => members(Array(count).fill(1));

  const most = new Map([3, 5, 10, 12, 40].map((count) => [count, 1.2]));
  most.set(80, 1.5);
  for (const [count, parts] of most) {
    it(`of ${count} endpoints: one that leaves moves at most ${parts}/${count} of the clients, and all have even shares`, (t) => {
      const all = even(count);
      const before = inSlots(all, 'clients');
      const counts = [...Map.groupBy(before, ({ text }) => text).values()].map(({ length }) => length);
      const uneven = Math.max(...counts.map((slots) => Math.abs(slots * count - before.length) / before.length));
      assert.ok(uneven < 0.02, `${uneven}`);
      let worst = 0;
      // Each is like the others.
      for (const gone of all.slice(0, 10)) {
        const after = inSlots(
          all.filter((one) => one !== gone),
          'clients',
        );
        worst = Math.max(worst, changed(before, after) / before.length);
      }
      t.diagnostic(`${(worst * count).toFixed(3)}/${count} moved, shares even within ${(uneven * 100).toFixed(1)} %`);
      assert.ok(worst <= parts / count, `${worst * count}`);
    });
  }
});
