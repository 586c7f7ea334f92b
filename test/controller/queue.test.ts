import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import { WorkQueue } from '../../src/controller/queue.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const NEVER = new AbortController().signal;

function queueOf(...keys: string[]): { clock: FakeClock; queue: WorkQueue } {
  const clock = new FakeClock();
  const queue = new WorkQueue(clock);
  for (const key of keys) queue.add(key);
  return { clock, queue };
}

/** Take a key and fail with it, as often as it says; the milliseconds until each comes again. */
async function failures(times: number): Promise<number[]> {
  const { clock, queue } = queueOf('a');
  const waits: number[] = [];
  for (let n = 0; n < times; n++) {
    await queue.take(NEVER);
    const before = clock.now();
    queue.retry('a');
    queue.done('a');
    clock.finishWaits();
    waits.push(clock.now() - before);
  }
  return waits;
}

describe('keys to work on', () => {
  it('are given out in their order, each once', async () => {
    const { queue } = queueOf('a', 'b', 'a');
    assert.deepEqual([queue.depth, queue.adds], [2, 2]);
    assert.deepEqual([await queue.take(NEVER), await queue.take(NEVER)], ['a', 'b']);
    assert.equal(queue.depth, 0);
  });

  it('that are worked on come again when they were added meanwhile, and not before they are done', async () => {
    const { queue } = queueOf('a');
    await queue.take(NEVER);
    queue.add('a');
    queue.add('a');
    assert.equal(queue.depth, 0);
    queue.done('a');
    assert.deepEqual([queue.depth, queue.adds], [1, 2]);
    assert.equal(await queue.take(NEVER), 'a');
    queue.done('a');
    assert.deepEqual([queue.depth, queue.isIdle], [0, true]);
  });

  it('go to who waited first, and to one alone', async () => {
    const { queue } = queueOf();
    const taken: string[] = [];
    for (const taker of ['first', 'second']) void queue.take(NEVER).then((key) => taken.push(`${taker}: ${key}`));
    queue.add('a');
    queue.add('a');
    await breath();
    assert.deepEqual(taken, ['first: a']);
    queue.add('b');
    await breath();
    assert.deepEqual(taken, ['first: a', 'second: b']);
    assert.equal(queue.isIdle, false);
  });

  it('go to nobody whose signal aborted', async () => {
    const { queue } = queueOf();
    const stop = new AbortController();
    const given = queue.take(stop.signal);
    const other = queue.take(NEVER);
    stop.abort(new Error('stopped'));
    await assert.rejects(given, /stopped/);
    queue.add('a');
    assert.equal(await other, 'a');
    queue.add('b');
    await assert.rejects(queue.take(stop.signal), /stopped/);
    assert.equal(queue.depth, 1);
  });
});

describe('waiting', () => {
  it('ends when its time has come', () => {
    const { clock, queue } = queueOf();
    queue.addAfter('a', 500);
    clock.advance(499);
    assert.deepEqual([queue.depth, queue.isIdle], [0, false]);
    clock.advance(1);
    assert.deepEqual([queue.depth, clock.pending], [1, 0]);
  });

  it('of no time is none', () => {
    const { clock, queue } = queueOf();
    queue.addAfter('a', 0);
    assert.deepEqual([queue.depth, clock.pending], [1, 0]);
  });

  for (const waits of [
    [500, 2000],
    [2000, 500],
  ]) {
    it(`of ${waits.join(' and ')} ms ends after the shorter, once`, async () => {
      const { clock, queue } = queueOf();
      for (const wait of waits) queue.addAfter('a', wait);
      clock.advance(500);
      assert.equal(await queue.take(NEVER), 'a');
      queue.done('a');
      clock.advance(5000);
      assert.deepEqual([queue.depth, queue.isIdle], [0, true]);
    });
  }

  it('goes on when the key is added, as that may fail', async () => {
    const { clock, queue } = queueOf();
    queue.addAfter('a', 500);
    queue.add('a');
    assert.equal(await queue.take(NEVER), 'a');
    queue.done('a');
    clock.advance(500);
    assert.equal(queue.depth, 1);
  });

  it('that ends while the key is worked on brings it again afterwards', async () => {
    const { clock, queue } = queueOf('a');
    await queue.take(NEVER);
    queue.addAfter('a', 500);
    clock.advance(500);
    assert.equal(queue.depth, 0);
    queue.done('a');
    assert.equal(queue.depth, 1);
  });

  it('ends with everything else when the queue is closed', async () => {
    const { clock, queue } = queueOf('a', 'b');
    await queue.take(NEVER);
    queue.add('a');
    queue.retry('c');
    queue.close();
    queue.done('a');
    clock.advance(10_000);
    assert.deepEqual([queue.depth, clock.pending, queue.failures.of('c'), queue.isIdle], [0, 0, 0, true]);
  });
});

describe('failures', () => {
  it('wait a second, then twice as long each time, 1000 seconds at most', async () => {
    assert.deepEqual(
      (await failures(13)).map((milliseconds) => milliseconds / 1000),
      [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000],
    );
  });

  it('are counted until they are forgotten, and then wait a second again', () => {
    const { clock, queue } = queueOf();
    queue.retry('a');
    queue.retry('a');
    assert.deepEqual([queue.failures.of('a'), queue.failures.of('b'), queue.failures.retries], [2, 0, 2]);
    queue.failures.forget('a');
    assert.deepEqual([queue.failures.of('a'), queue.failures.retries], [0, 2]);
    clock.finishWaits();
    queue.retry('a');
    assert.equal(clock.waits.at(-1), 1000);
  });

  it('in quick succession do not put off the retry of the first', async () => {
    const { clock, queue } = queueOf();
    for (let n = 0; n < 10; n++) {
      queue.add('a');
      await queue.take(NEVER);
      queue.retry('a');
      queue.done('a');
    }
    clock.advance(1000);
    assert.equal(queue.depth, 1);
  });

  it('of many keys come back ten a second after the first hundred', () => {
    const { clock, queue } = queueOf();
    for (let n = 0; n < 130; n++) queue.retry(`key ${n}`);
    clock.advance(1000);
    // The hundred, and ten whose turn was before their second was over.
    assert.equal(queue.depth, 110);
    clock.advance(1000);
    assert.equal(queue.depth, 120);
    clock.advance(1000);
    assert.equal(queue.depth, 130);
  });

  it('after a rest of ten seconds have their hundred again, and no more', () => {
    const { clock, queue } = queueOf();
    for (let n = 0; n < 100; n++) queue.retry(`key ${n}`);
    clock.advance(60_000);
    for (let n = 0; n < 130; n++) queue.retry(`later ${n}`);
    clock.advance(1000);
    assert.equal(queue.depth, 100 + 110);
  });
});

describe('a queue is drained', () => {
  it('when no key is ready or with a worker, though some are delayed', async () => {
    const queue = new WorkQueue(new FakeClock());
    const told: string[] = [];
    for (const key of ['a', 'b']) queue.add(key);
    queue.addAfter('c', 1000);
    void queue.drain.next().then(() => told.push('drained'));
    for (const key of [await queue.take(NEVER), await queue.take(NEVER)]) {
      assert.deepEqual(told, []);
      queue.add('a');
      queue.done(key);
      await Promise.resolve();
    }
    assert.deepEqual(told, []);
    queue.done(await queue.take(NEVER));
    await Promise.resolve();
    assert.deepEqual(told, ['drained']);
  });

  it('when it is closed', async () => {
    const queue = new WorkQueue(new FakeClock());
    queue.add('a');
    const drained = queue.drain.next();
    queue.close();
    await drained;
  });
});
