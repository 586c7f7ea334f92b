/** The stories that `npm test`, and `npm run test:vm` in IPVS mode, send real packets for: together they cover every row that stories with real packets cover. */
import { FAMILIES } from '../../src/base/address.ts';
import { ROWS } from '../conformance/coverage.ts';
import type { ModeUnderTest } from '../conformance/suite.ts';
import { type RealStory, realStories } from './story-packets.ts';

/**
 * About a third of the stories of a mode, in each family. The one that covers the most rows comes first, then the one that
 * covers the most of the rows that are left, until nothing is gained: a new row has its story here without a list to edit.
 */
export function chosenStories(mode: ModeUnderTest): RealStory[] {
  const all = realStories(mode);
  return FAMILIES.flatMap((family) => cover(all.filter((real) => real.family === family)));
}

function cover(stories: readonly RealStory[]): RealStory[] {
  const left = new Set(Object.keys(ROWS));
  const gain = ({ story }: RealStory) => story.covers.filter((id) => left.has(id)).length;
  const chosen: RealStory[] = [];
  for (;;) {
    const best = stories.reduce<RealStory | undefined>(
      (found, real) => (gain(real) > (found === undefined ? 0 : gain(found)) ? real : found),
      undefined,
    );
    if (best === undefined) return stories.filter((real) => chosen.includes(real));
    chosen.push(best);
    for (const id of best.story.covers) left.delete(id);
  }
}
