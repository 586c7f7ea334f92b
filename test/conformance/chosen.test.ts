/** The stories that `npm test` and `npm run test:vm` send real packets for (test/netns/chosen-stories.ts): few, and none of the rows without one. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../src/base/address.ts';
import { chosenStories } from '../netns/chosen-stories.ts';
import { realStories } from '../netns/story-packets.ts';
import { kernelStories, STORIES_FOR } from '../vm/kernel-stories.ts';
import { ROWS } from './coverage.ts';
import { IPTABLES } from './iptables.ts';
import { IPVS } from './ipvs.ts';
import { NFTABLES } from './nftables.ts';

/** Rows that no story sends real packets for, and what checks them on a real kernel instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  '6.11': 'test/netns/localhost.test.ts',
  '7.8': 'test/netns/affinity.test.ts',
};

describe('the chosen stories', () => {
  it('cover every row in one of the modes', () => {
    const chosen = [IPTABLES, NFTABLES].flatMap((mode) => chosenStories(mode));
    const covered = new Set(chosen.flatMap(({ story }) => story.covers));
    assert.deepEqual(
      Object.keys(ROWS).filter((id) => !covered.has(id)),
      Object.keys(ELSEWHERE),
    );
  });

  for (const mode of [IPTABLES, NFTABLES, IPVS]) {
    for (const family of FAMILIES) {
      it(`${mode.mode}, ${family}: are about a third, and cover what all stories with real packets cover`, () => {
        const of = (stories: ReturnType<typeof realStories>) => stories.filter((real) => real.family === family);
        const [chosen, all] = [of(chosenStories(mode)), of(realStories(mode))];
        const rows = (stories: typeof all) =>
          new Set(stories.flatMap(({ story }) => story.covers).filter((id) => id in ROWS));
        assert.deepEqual([...rows(chosen)].sort(), [...rows(all)].sort());
        const share = chosen.length / all.length;
        assert.ok(share > 0.2 && share < 0.42, `${chosen.length} of ${all.length}`);
      });
    }
  }

  it('for another kernel are stories that there are', () => {
    const ids = Object.values(STORIES_FOR).flat();
    const found = new Set(kernelStories().map(({ story }) => story.id));
    assert.deepEqual(
      ids.filter((id) => !found.has(id)),
      [],
    );
  });
});
