/** docs/explain.md shows what slicewire answers now, and the answers say what the situation is. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { QUESTIONS } from './questions.ts';
import { masked, type Told, tellAll, transcript, transcriptInDocument } from './transcript.ts';

describe('ten questions of operators, on a real node', () => {
  let told: readonly Told[] = [];
  before(async () => {
    told = await tellAll();
  });

  for (const [i, { title, says }] of QUESTIONS.entries()) {
    it(`${title}: the answer names the cause`, () => {
      const text = transcript(told.slice(i, i + 1));
      assert.ok(says.length > 0 && text !== '', title);
      for (const pattern of says) assert.match(text, pattern);
    });
  }

  it('are in docs/explain.md with these answers', () => {
    const sentences = (text: string) => masked(text).split(/(?<=[.)]) /);
    const [now, written] = [sentences(transcript(told)), sentences(transcriptInDocument())];
    assert.deepEqual(
      { answered: now.filter((one) => !written.includes(one)), missing: written.filter((one) => !now.includes(one)) },
      { answered: [], missing: [] },
      'run node test/questions/transcript.ts',
    );
    assert.equal(now.join(' '), written.join(' '));
  });
});
