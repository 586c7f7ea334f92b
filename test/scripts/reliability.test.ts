/** docs/reliability.md is what docs/reliability.json says: `node test/reliability/main.ts` writes it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { joined } from '../reliability/histories.ts';
import type { RecordedHistories } from '../reliability/recorded.ts';
import { page } from '../reliability/report.ts';
import { PARTS, readPage, readResults } from '../reliability/results.ts';

describe('docs/reliability.md', () => {
  it('has the recorded figures', () => assert.equal(readPage(), page(readResults())));

  it('says what is not recorded', () => assert.equal(page({}).match(/^Not recorded yet\.$/gm)?.length, PARTS.length));
});

describe('recorded histories', () => {
  const found = { histories: 10, failed: [3], calls: 1, commits: 2, faults: 3, starts: 4, simulated: 5 };
  const former: RecordedHistories = { ranAt: '2026-01-01', machine: 'm', commit: 'a', first: 1, found, compared: 1 };
  const later = { ...former, ranAt: '2026-01-02', first: 11, found: { ...found, failed: [12] } };

  it('are summed up where the later ones follow on the same commit', () => {
    assert.deepEqual(joined(former, later), {
      ...{ ranAt: '2026-01-02', machine: 'm', commit: 'a', first: 1, compared: 2 },
      found: { histories: 20, failed: [3, 12], calls: 2, commits: 4, faults: 6, starts: 8, simulated: 10 },
    });
  });

  for (const [why, first, second] of [
    ['nothing was recorded', undefined, later],
    ['a seed is missing between', former, { ...later, first: 12 }],
    ['the source has changed', former, { ...later, commit: 'b' }],
    ['the commit is unknown', { ...former, commit: 'unknown' }, { ...later, commit: 'unknown' }],
    ['the source is no commit', { ...former, commit: 'a with changes' }, { ...later, commit: 'a with changes' }],
  ] as const) {
    it(`stand alone where ${why}`, () => assert.equal(joined(first, second), second));
  }
});
