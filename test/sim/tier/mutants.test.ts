/** Each mutant that a test is named for is found by that test. `npm run sim:mutants` looks for the others with histories. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { find } from '../mutants/find.ts';
import { MUTANTS } from '../mutants/list.ts';

// A broken agent lets its test wait more than it computes.
describe('a mutant', { concurrency: 3 }, () => {
  for (const mutant of MUTANTS) {
    const { name, what, test } = mutant;
    if (test === undefined) continue;
    it(`${name} is found by ${test}`, async () => assert.ok(await find(mutant, 0), `this passes as well: ${what}`));
  }
});
