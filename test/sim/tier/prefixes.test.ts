/** Packets between all writes of random changes, for a minute. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { breachText, KINDS, randomWays, waysText } from '../prefixes/ways.ts';

const TIME = 60_000;

/** Another one each time: `npm run sim -- --prefixes --seed N` repeats it. */
const seed = Math.floor(Math.random() * 2 ** 31);

describe('each packet meets what was before or what comes, after each write', () => {
  for (const kind of KINDS) {
    it(`${kind.name}`, async (t) => {
      const ways = await randomWays(kind, seed, TIME);
      t.diagnostic(`seed ${seed}: ${waysText(ways)}`);
      assert.equal(ways.breaches.length, 0, `seed ${seed}\n${ways.breaches.map(breachText).join('\n')}`);
      assert.ok(ways.pairs > 20 && ways.cuts > ways.pairs, waysText(ways));
    });
  }
});
