/** From when on the latency of a change is counted. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TriggerTimes } from '../../src/producers/trigger-times.ts';
import { podView, serviceView } from '../helpers/producing.ts';

const service = serviceView({ createdAt: 100 });
const readySince = (n: number, at: number) => podView(n, { readySince: at });

describe('the time of a change', () => {
  it('is that of the creation of a Service that is seen first, whatever its Pods', () => {
    assert.equal(new TriggerTimes().take(service, [readySince(1, 50), readySince(2, 500)]), 100);
  });

  it('is the earliest at which a Pod changed since', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    assert.equal(times.take(service, [readySince(2, 300), readySince(1, 400)]), 300);
    assert.equal(times.take(service, [readySince(1, 400), readySince(2, 350)]), 350);
  });

  it('is not known when no Pod says that it changed, as when one goes', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200), readySince(2, 300)]);
    assert.equal(times.take(service, [readySince(1, 200)]), 0);
    assert.equal(times.take(service, [readySince(1, 200), readySince(3, 0)]), 0);
  });

  it('is told again when the Pod comes back', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    times.take(service, []);
    assert.equal(times.take(service, [readySince(1, 200)]), 200);
  });

  it('is that of the creation of a Service made anew, noticed or not', () => {
    const times = new TriggerTimes();
    times.take(service, []);
    assert.equal(times.take(serviceView({ createdAt: 600 }), []), 600);
    times.forget(service.key);
    assert.equal(times.take(serviceView({ createdAt: 600 }), [readySince(1, 200)]), 600);
  });

  it('is kept for each Service', () => {
    const times = new TriggerTimes();
    times.take(service, [readySince(1, 200)]);
    assert.equal(times.take(serviceView({ name: 'other', createdAt: 150 }), [readySince(1, 200)]), 150);
  });
});
