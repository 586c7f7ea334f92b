/** As many histories as fit in three minutes. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { resultText, runCampaign } from '../campaign.ts';

const TIME = 180_000;
/** A faster machine stops here: `npm run sim` runs others. */
const MOST = 250;

it('histories hold, whatever fails in them', async (t) => {
  const lines: string[] = [];
  const print = (line: string) => lines.push(line);
  const result = await runCampaign({ first: 1, most: MOST, time: TIME, keepsGoing: true, print });
  t.diagnostic(resultText(result));
  assert.deepEqual(result.failed, [], lines.join('\n'));
  assert.ok(result.histories >= 20, resultText(result));
});
