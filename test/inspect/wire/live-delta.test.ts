/** The events of the live page: a reader that takes each change has what a reader that begins now gets. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type LiveDelta, liveSchema } from '../../../src/inspect/wire/live.ts';
import { liveDelta, withDelta } from '../../../src/inspect/wire/live-delta.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { pageNode } from '../overview/page-node.ts';

const web = (name: string) => service({ name, spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } });
const endpoint = (host: number) => slice({ name: 'web-1', service: 'web', endpoints: [`10.244.1.${host}`] });
const bad = (port: number) => service({ name: 'bad', spec: { clusterIP: '10.96.0.11', ports: [{ port }] } });

const aStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('change' as const), host: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('sync' as const), took: fc.integer({ min: 0, max: 5000 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), time: fc.integer({ min: 1, max: 400_000 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fault' as const), port: fc.constantFrom(0, 80, 70_000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('health' as const), ill: fc.boolean() }) },
  { weight: 3, arbitrary: fc.constant({ do: 'look' } as const) },
);

describe('the events of the live page', () => {
  it('make the whole of each moment from the whole of the first one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { maxLength: 40 }), async (steps) => {
        const { recorded: node, overview, reasons } = pageNode();
        node.put(web('web'));
        await node.sync('start');
        let known = overview.live(0);
        let shown = known;
        let revision = 0;
        for (const step of [...steps, { do: 'look' } as const]) {
          revision += 1;
          if (step.do === 'change') node.put(endpoint(step.host));
          else if (step.do === 'sync') await node.sync('changes', step.took);
          else if (step.do === 'wait') node.clock.advance(step.time);
          else if (step.do === 'fault') node.put(bad(step.port));
          else if (step.do === 'health') reasons.splice(0, 9, ...(step.ill ? ['the kernel cannot be written'] : []));
          else {
            const now = overview.live(revision);
            shown = withDelta(shown, throughJson(liveDelta(known, now)));
            known = now;
            assert.deepEqual(shown, now);
            liveSchema.parse(now);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('have only what changed', async () => {
    const { recorded: node, overview } = pageNode();
    node.put(web('web'));
    await node.sync('start');
    const before = overview.live(1);
    node.clock.advance(1000);
    assert.deepEqual(Object.keys(liveDelta(before, overview.live(1))), ['by']);
    node.put(endpoint(1));
    await node.sync();
    const delta = liveDelta(before, overview.live(2));
    assert.deepEqual(Object.keys(delta).sort(), ['by', 'lastChange', 'latency', 'objects', 'revision', 'syncs']);
    assert.deepEqual(
      delta.syncs?.map(({ number }) => number),
      [2],
    );
    assert.equal(delta.lastChange?.object, 'Service default/web');
    assert.equal((await overview.services({ search: '', offset: 0, limit: 1 }, NEVER)).rows[0]?.endpoints, 1);
  });
});

function throughJson(delta: LiveDelta): LiveDelta {
  return JSON.parse(JSON.stringify(delta));
}
