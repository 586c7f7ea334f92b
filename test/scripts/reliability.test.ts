/** docs/reliability.md is what docs/reliability.json says: `node test/reliability/main.ts` writes it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { page } from '../reliability/report.ts';
import { PARTS, readPage, readResults } from '../reliability/results.ts';

describe('docs/reliability.md', () => {
  it('has the recorded figures', () => assert.equal(readPage(), page(readResults())));

  it('says what is not recorded', () => assert.equal(page({}).match(/^Not recorded yet\.$/gm)?.length, PARTS.length));
});
