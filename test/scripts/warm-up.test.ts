/** The start of an agent for which the build compiles the program. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { warmUp } from '../../scripts/executable/warm-up.ts';

test('a warm-up whose first sync never comes ends with an error: the build does not wait for ever', async () => {
  await assert.rejects(warmUp({}, 500), { message: 'the agent of the warm-up has no complete first sync after 0.5 s' });
});
