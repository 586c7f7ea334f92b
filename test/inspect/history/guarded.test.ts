/** A fault of the recorder stays its own: the agent goes on, nothing half-true is recorded, and it is reported once. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { guarded, Recorder } from '../../../src/inspect/history/recorder.ts';
import { ChangeLedger } from '../../../src/proxy/ledger/change-ledger.ts';
import { ChangeNumbers } from '../../../src/proxy/ledger/pending-changes.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const clock = new FakeClock();
const ledgerOf = (numbers?: ChangeNumbers) =>
  new ChangeLedger({ clock, hasChanges: () => false, ...(numbers === undefined ? {} : { numbers }) });
const gone = { kind: 'service', key: 'shop/web', service: undefined, faults: [] } as const;

describe('a guarded recorder', () => {
  it('records through the tap that it gave out', () => {
    const recorder = new Recorder(clock);
    const hooks = guarded(recorder, (error) => assert.fail(String(error)));
    const tap = hooks.tap(new Cache(), ledgerOf(recorder.numbers));
    hooks.syncBegan({ trigger: 'start', by: '' }, tap);
    tap.event(gone, undefined, recorder.numbers.next());
    assert.equal(recorder.log.blocks.flatMap((block) => block.lines()).length, 2);
    assert.equal(recorder.nextNumber, 3, 'the initial lists, and one change');
  });

  it('stops after its first fault, and throws nothing', () => {
    const faults: unknown[] = [];
    const hooks = guarded(
      {
        numbers: new ChangeNumbers(),
        tap: (objects, ledger) => ({ objects, ledger, event: () => assert.fail('no memory') }),
        syncBegan: () => assert.fail('it stopped'),
        planned: () => assert.fail('it stopped'),
        syncEnded: () => assert.fail('it stopped'),
        modeTime: () => 7,
      },
      (error) => faults.push(error),
    );
    const tap = hooks.tap(new Cache(), ledgerOf());
    tap.event(gone, undefined, 1);
    tap.event(gone, undefined, 1);
    hooks.syncBegan({ trigger: 'changes', by: '' }, tap);
    assert.match(String(faults), /no memory/);
    assert.equal(faults.length, 1);
    assert.equal(hooks.modeTime(), 7, 'the mode has its clock');
  });
});
