/** A fault of the recorder stays its own: the agent goes on, nothing half-true is recorded, and it is reported once. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { guarded } from '../../../src/inspect/history/guarded.ts';
import { Recorder } from '../../../src/inspect/history/recorder.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const gone = { kind: 'service', key: 'shop/web', service: undefined, faults: [] } as const;

describe('a guarded recorder', () => {
  it('records through the tap that it gave out', () => {
    const recorder = new Recorder(new FakeClock());
    const hooks = guarded(recorder, (error) => assert.fail(String(error)));
    const tap = hooks.tap(new Cache());
    hooks.syncBegan({ trigger: 'start', by: '' }, tap);
    tap.event(gone, undefined);
    assert.equal(recorder.nextNumber, 3, 'the initial lists, and one change');
  });

  it('stops after its first fault, and throws nothing', () => {
    const faults: unknown[] = [];
    const hooks = guarded(
      {
        tap: (objects) => ({ objects, event: () => assert.fail('no memory') }),
        syncBegan: () => assert.fail('it stopped'),
        planned: () => assert.fail('it stopped'),
        syncEnded: () => assert.fail('it stopped'),
        modeTime: () => 7,
      },
      (error) => faults.push(error),
    );
    const tap = hooks.tap(new Cache());
    tap.event(gone, undefined);
    tap.event(gone, undefined);
    hooks.syncBegan({ trigger: 'changes', by: '' }, tap);
    assert.match(String(faults), /no memory/);
    assert.equal(faults.length, 1);
    assert.equal(hooks.modeTime(), 7, 'the mode has its clock');
  });
});
