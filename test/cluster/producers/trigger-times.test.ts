/** The time from which the latency of a change is measured. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TriggerTimes } from '../../../src/cluster/producers/trigger-times.ts';
import { podView, serviceView } from '../../helpers/cluster/producers/producing.ts';

const service = serviceView({ createdAt: 100 });
const readySince = (n: number, at: number) => podView(n, { readySince: at });

describe('the time of a change', () => {
  it('is the creation of the Service at its first call, regardless of its Pods', () => {
    assert.equal(new TriggerTimes().take(service, [readySince(1, 50), readySince(2, 500)]), 100);
  });

  it('is the earliest change of a Pod since the last call', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    assert.equal(times.take(service, [readySince(2, 300), readySince(1, 400)]), 300);
    assert.equal(times.take(service, [readySince(1, 400), readySince(2, 350)]), 350);
  });

  it('is unknown when no Pod has a changed time, as after a deletion', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200), readySince(2, 300)]);
    assert.equal(times.take(service, [readySince(1, 200)]), 0);
    assert.equal(times.take(service, [readySince(1, 200), readySince(3, 0)]), 0);
  });

  it('is returned again when the Pod comes back', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    times.take(service, []);
    assert.equal(times.take(service, [readySince(1, 200)]), 200);
  });

  it('is the creation of a recreated Service, with or without a notice of the deletion', () => {
    const times = new TriggerTimes();
    times.take(service, []);
    assert.equal(times.take(serviceView({ createdAt: 600 }), []), 600);
    times.forget(service.key);
    assert.equal(times.take(serviceView({ createdAt: 600 }), [readySince(1, 200)]), 600);
  });

  it('is separate for each Service', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    assert.equal(times.take(serviceView({ name: 'other', createdAt: 150 }), [readySince(1, 200)]), 150);
  });
});
