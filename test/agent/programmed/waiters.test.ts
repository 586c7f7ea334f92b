/** Questions that wait until something is in the kernel. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_WAITERS, Waiters } from '../../../src/agent/programmed/waiters.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const NEVER = new AbortController().signal;

describe('a question that waits', () => {
  it('ends when it is so, when its time is over, or when nobody asks any more, and leaves no timer', async () => {
    const clock = new FakeClock();
    const waiters = new Waiters(clock);
    let isSo = false;
    const asking = new AbortController();
    const ended: string[] = [];
    const wait = (name: string, isDone: () => boolean, signal = NEVER) =>
      waiters.wait(isDone, 1000, signal).then(() => ended.push(name));
    const all = [wait('so', () => isSo), wait('late', () => false), wait('gone', () => false, asking.signal)];
    assert.equal(waiters.count, 3);
    waiters.check();
    await Promise.resolve();
    assert.deepEqual(ended, []);
    isSo = true;
    waiters.check();
    await all[0];
    asking.abort();
    await all[2];
    assert.deepEqual(ended, ['so', 'gone']);
    clock.advance(1000);
    await all[1];
    assert.deepEqual([ended, waiters.count, clock.pending], [['so', 'gone', 'late'], 0, 0]);
  });

  it('does not wait for what is so already, or without a time', async () => {
    const clock = new FakeClock();
    const waiters = new Waiters(clock);
    await waiters.wait(() => true, 1000, NEVER);
    await waiters.wait(() => false, 0, NEVER);
    await waiters.wait(() => false, 1000, AbortSignal.abort());
    assert.equal(clock.waits.length, 0);
  });

  it('is one of a thousand at most', async () => {
    const asking = new AbortController();
    const waiters = new Waiters(new FakeClock());
    const all = Array.from({ length: MAX_WAITERS }, () => waiters.wait(() => false, 1000, asking.signal));
    assert.equal(waiters.isFull, true);
    asking.abort();
    await Promise.all(all);
    assert.equal(waiters.isFull, false);
  });
});
