/** The same histories each time, and as many new ones. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { resultText, runCampaign } from '../campaign.ts';

/** Milliseconds after which a slow machine stops. */
const TIME = 240_000;
const COUNT = 200;

describe('histories hold, whatever fails in them', () => {
  for (const [what, first] of [
    ['from seed 1', 1],
    // Printed with each that fails: `npm run sim -- --seed N` repeats it.
    ['from a seed that is new each time', Math.floor(Math.random() * 2 ** 31)],
  ] as const) {
    it(what, async (t) => {
      const lines: string[] = [];
      const print = (line: string) => lines.push(line);
      const result = await runCampaign({ first, most: COUNT, time: TIME, keepsGoing: true, print });
      t.diagnostic(`from seed ${first}: ${resultText(result)}`);
      assert.deepEqual(result.failed, [], lines.join('\n'));
      assert.ok(result.histories >= 20, resultText(result));
    });
  }
});
