/** One mode takes over from another without a sync that fails: what the agent writes itself is no write of another program. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { MODES } from '../check/mode-world.ts';
import { simScene } from './scene.ts';

for (const from of MODES)
  for (const to of MODES.filter((mode) => mode !== from))
    it(`${to} mode takes over from ${from} mode, and each sync is complete`, async () => {
      for (const variant of ['nft', 'legacy'] as const) {
        const scene = simScene({ mode: from, variant });
        try {
          await scene.run(20_000);
          const since = scene.lines.length;
          scene.restartIn(to);
          await scene.run(20_000);
          const failed = scene.lines.slice(since).filter((line) => /"level":"(error|warn)"/.test(line));
          assert.deepEqual(failed, [], variant);
        } finally {
          scene.end();
        }
      }
    });
