/** The answers to what operators ask, word by word, in all modes. After a wanted change: `node test/explain/situations.ts`. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { explanationSchema } from '../../src/answers/explanation.ts';
import { askedNode, MODES } from '../helpers/asking.ts';
import { nodeOf } from '../helpers/objects.ts';
import { fileOf, SITUATIONS, told } from './situations.ts';

describe('answers', () => {
  for (const situation of SITUATIONS) {
    it(`about ${situation.name}`, async () => {
      assert.equal(await told(situation), readFileSync(fileOf(situation), 'utf8'));
    });
  }

  it('have the form that programs read', async () => {
    for (const mode of MODES) {
      for (const { modes = MODES, options, objects, questions, known } of SITUATIONS) {
        if (!modes.includes(mode)) continue;
        const node = askedNode(mode, options);
        node.rig.put(nodeOf('zone-a'), ...objects);
        await node.sync();
        for (const [from, to] of questions) {
          const answer = await node.ask(from, to, { ...known, rules: true });
          assert.deepEqual(explanationSchema.strict().parse(answer), answer);
        }
      }
    }
  });
});
