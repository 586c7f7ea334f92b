/** The stories cover what they must, and docs/reference/conformance.md says what is so now. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { REGRESSIONS, ROWS } from './coverage.ts';
import { ENHANCEMENTS } from './enhancements.ts';
import { IPTABLES } from './iptables.ts';
import { IPVS } from './ipvs.ts';
import { NFTABLES } from './nftables.ts';
import { conformanceReport, heldBy, REPORT, ROOT, storiesFor, testsFor } from './report.ts';
import { STORIES } from './stories/index.ts';

describe('the conformance suite', () => {
  it('has a story for every row', () => {
    assert.deepEqual(
      Object.keys(ROWS).filter((id) => storiesFor(id).length === 0),
      [],
    );
  });

  it('has a story or a test for every regression', () => {
    const withoutStory = Object.keys(REGRESSIONS).filter(
      (id) => storiesFor(id).length === 0 && testsFor(id).length === 0,
    );
    assert.deepEqual(withoutStory, []);
  });

  it('has a story or a test for every enhancement, and says where it stands', () => {
    const without = Object.entries(ENHANCEMENTS).filter(
      ([id, { here, shown }]) => here === '' || heldBy(id, shown).length === 0,
    );
    assert.deepEqual(without, []);
    const shown = Object.values(ENHANCEMENTS).flatMap((one) => one.shown ?? []);
    assert.deepEqual(
      shown.filter((file) => !existsSync(join(ROOT, file))),
      [],
    );
  });

  it('refers to rows that there are', () => {
    const ids = STORIES.flatMap((story) => story.covers).filter((id) => /^\d/.test(id));
    assert.deepEqual(
      ids.filter((id) => !(id in ROWS)),
      [],
    );
  });

  it('has one story to a title', () => {
    const titles = STORIES.map((story) => story.title);
    assert.deepEqual(
      titles.filter((title, i) => titles.indexOf(title) !== i),
      [],
    );
  });

  it('has one story to an id, and every id that a mode differs from is a story', () => {
    const ids = STORIES.map(({ id }) => id);
    assert.deepEqual(
      ids.filter((id, i) => ids.indexOf(id) !== i || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(id)),
      [],
    );
    const differs = [IPTABLES, IPVS, NFTABLES].flatMap((mode) => Object.keys(mode.differs));
    assert.notEqual(differs.length, 0);
    assert.deepEqual(
      differs.filter((id) => !ids.includes(id)),
      [],
    );
  });

  it('is told in docs/reference/conformance.md as it is now (npm run conformance writes it)', async () => {
    const written = (await readFile(REPORT, 'utf8')).split('\n');
    const now = (await conformanceReport()).split('\n');
    assert.deepEqual(
      now.filter((line) => !written.includes(line)),
      [],
    );
    assert.equal(written.length, now.length);
  });
});
