/** Histories of the same seeds each time, and of seeds that nobody has run before. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { it } from 'node:test';
import { resultText, runCampaign } from '../campaign.ts';

const RUNS = [
  { which: 'the same histories as ever', first: () => 1, most: 60, least: 10, minutes: 2 },
  { which: 'histories that nobody has run before', first: () => randomInt(2 ** 40), most: 200, least: 20, minutes: 5 },
] as const;

for (const { which, first, most, least, minutes } of RUNS) {
  it(`${which} hold, whatever fails in them`, async (t) => {
    const lines: string[] = [];
    const print = (line: string) => lines.push(line);
    const result = await runCampaign({ first: first(), most, time: minutes * 60_000, keepsGoing: true, print });
    t.diagnostic(resultText(result));
    assert.deepEqual(result.failed, [], lines.join('\n'));
    assert.ok(result.histories >= least, resultText(result));
  });
}
