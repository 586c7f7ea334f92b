/** Whatever the objects are: modes that work break no rule at any commit, and end as the oracle says. What walks remember is what they would find. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { walk } from '../../../src/explain/walk.ts';
import { aStep, type Step } from '../../helpers/histories.ts';
import { nodeOf } from '../../helpers/objects.ts';
import { fatesText } from './kernel-views.ts';
import { liveness } from './liveness.ts';
import { Walks } from './walks.ts';
import { aWorld, type CheckedWorld, MODES, SENDERS } from './worlds.ts';

async function follow(world: CheckedWorld, steps: readonly Step[]): Promise<void> {
  for (const step of [...steps, { kind: 'sync' } as const]) {
    if (step.kind === 'put') world.put(step.object);
    else if (step.kind === 'zone') world.put(nodeOf(step.zone));
    else if (step.kind === 'remove') world.remove(...(step.id.split(' ') as ['Service', string]));
    else await world.sync();
  }
}

/**
 * IPVS mode writes servers before rules. A detour of an address that its Service has no more leads for a moment to the next owner of the
 * cluster IP, so here no Service gets the cluster IP of another.
 */
function ownClusterIPs(step: Step): Step {
  const name = step.kind === 'put' ? /^Service default\/(\w)$/.exec(step.id)?.[1] : undefined;
  if (step.kind !== 'put' || name === undefined) return step;
  const host = 1 + 'abcd'.indexOf(name);
  const own = (text: string) =>
    text.replace(/(?<="clusterIPs?":\[?(?:"10\.96\.0\.\d",)?"(?:10\.96\.0\.|fd00:96::))\d/g, `${host}`);
  const text = own(JSON.stringify(step.object))
    .replace('"externalIPs":["10.96.0.2"', '"externalIPs":["192.0.2.9"')
    .replace(',"10.96.0.2"', '');
  return { ...step, object: JSON.parse(text) };
}

describe('a mode that works', () => {
  for (const mode of MODES) {
    it(`breaks no rule at any commit, and ends as the oracle says: ${mode}`, async () => {
      let commits = 0;
      const history = fc.array(aStep, { minLength: 5, maxLength: 30, size: 'max' });
      const property = fc.asyncProperty(history, async (steps) => {
        const world = aWorld(mode);
        await follow(world, mode === 'ipvs' ? steps.map(ownClusterIPs) : steps);
        assert.deepEqual(world.violations, []);
        assert.equal(world.check.skipped, 0);
        const { views, versions } = world;
        assert.deepEqual(await liveness({ views, versions, senders: SENDERS, ask: undefined }), []);
        commits += world.commits();
      });
      await fc.assert(property, { numRuns: 25 });
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
      await fc.assert(property, { numRuns: 5 });
      assert.ok(walks.made > 0 && walks.made < asked * 0.8, `${walks.made} walks of ${asked}`);
    });
  }
});
