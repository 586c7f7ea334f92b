/** Every fault at the calls of a short history, as many as fit in a minute for each mode. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { everyCall } from '../every-call.ts';

const TIME = 55_000;

it('an agent recovers from each fault at each call, in each mode', async (t) => {
  const lines: string[] = [];
  const status = await everyCall({ print: (line) => lines.push(line), time: TIME });
  assert.equal(status, 0, lines.join('\n'));
  for (const line of lines) t.diagnostic(line);
});
