/** Whatever the objects are: modes that work break no rule at any commit, and end as the oracle says. What walks remember is what they would find. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { walk } from '../../../src/inspect/explain/walk.ts';
import { aStep, type Step } from '../../helpers/cluster/histories.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import { fatesText } from './kernel-views.ts';
import { liveness } from './liveness.ts';
import { MODES, SENDERS } from './mode-world.ts';
import { Walks } from './walks.ts';
import { aWorld, type CheckedWorld } from './worlds.ts';

/** The same histories each time: SIM_SEED asks for others. */
const SEED = Number(process.env.SIM_SEED ?? 18);

async function follow(world: CheckedWorld, steps: readonly Step[]): Promise<void> {
  for (const step of [...steps, { kind: 'sync' } as const]) {
    if (step.kind === 'put') world.put(step.object);
    else if (step.kind === 'zone') world.put(nodeOf(step.zone));
    else if (step.kind === 'remove') world.remove(...(step.id.split(' ') as ['Service', string]));
    else await world.sync();
  }
}

describe('a mode that works', () => {
  for (const mode of MODES) {
    it(`breaks no rule at any commit, and ends as the oracle says: ${mode}`, async () => {
      let commits = 0;
      const history = fc.array(aStep, { minLength: 5, maxLength: 30, size: 'max' });
      const property = fc.asyncProperty(history, async (steps) => {
        const world = aWorld(mode);
        // On a node without rules IPVS mode has addresses before it has source ranges (docs/ipvs.md): here the rules are there already.
        await follow(world, mode === 'ipvs' ? [{ kind: 'sync' }, ...steps] : steps);
        assert.deepEqual(world.violations, []);
        assert.equal(world.check.skipped, 0);
        const { views, versions } = world;
        assert.deepEqual(await liveness({ views, versions, senders: SENDERS, ask: undefined }), []);
        commits += world.commits();
      });
      await fc.assert(property, { numRuns: 25, seed: SEED });
      assert.ok(commits > 50, `${commits} commits`);
    });

    it(`is walked again where something changed: ${mode}`, async () => {
      const walks = new Walks();
      let asked = 0;
      const both: typeof walk = (view, packet, facts) => {
        const remembered = walks.walk(view, packet, facts);
        assert.equal(fatesText(remembered.fates), fatesText(walk(view, packet, facts).fates));
        asked += 1;
        return remembered;
      };
      const history = fc.array(aStep, { minLength: 10, maxLength: 30, size: 'max' });
      const property = fc.asyncProperty(history, async (steps) => await follow(aWorld(mode, { walk: both }), steps));
      await fc.assert(property, { numRuns: 5, seed: SEED });
      assert.ok(walks.made > 0 && walks.made < asked * 0.8, `${walks.made} walks of ${asked}`);
    });
  }
});
