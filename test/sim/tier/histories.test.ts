/** The same histories each time, and new ones. `npm run sim` runs as many as it is told. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { resultText } from '../campaign.ts';
import { runCampaign } from '../parallel.ts';

/** Milliseconds after which a slow machine stops. */
const TIME = 240_000;

describe('histories hold, whatever fails in them', () => {
  for (const [what, first, most] of [
    ['from seed 1', 1, 20],
    // Printed with each that fails: `npm run sim -- --seed N` repeats it.
    ['from a seed that is new each time', Math.floor(Math.random() * 2 ** 31), 200],
  ] as const) {
    it(what, async (t) => {
      const lines: string[] = [];
      const print = (line: string) => lines.push(line);
      // The file beside it has the other processor.
      const result = await runCampaign({ first, most, time: TIME, keepsGoing: true, print }, 1);
      t.diagnostic(`from seed ${first}: ${resultText(result)}`);
      assert.deepEqual(result.failed, [], lines.join('\n'));
      assert.ok(result.histories >= 20, resultText(result));
    });
  }
});
