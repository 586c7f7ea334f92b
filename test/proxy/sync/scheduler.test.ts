/** The periods of docs/semantics.md 10.6, on a clock that the test moves. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { SyncScheduler } from '../../../src/proxy/sync/scheduler.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const stop = new AbortController();
after(() => stop.abort());

interface Bench {
  readonly clock: FakeClock;
  readonly scheduler: SyncScheduler;
  /** Start times of the runs. */
  readonly runs: number[];
  /** Results of the next runs; true when empty. */
  readonly answers: boolean[];
  /** Move the clock and let due work happen. */
  advance(milliseconds: number): Promise<void>;
}

const PERIODS = { min: 1000, retry: 30_000, max: 3_600_000 };

function bench(during?: (bench: Bench) => void, periods = PERIODS): Bench {
  const clock = new FakeClock();
  const runs: number[] = [];
  const answers: boolean[] = [];
  const run = async () => {
    runs.push(clock.now());
    during?.(made);
    await turn();
    return answers.shift() ?? true;
  };
  const scheduler = new SyncScheduler({ clock, run, ...periods });
  const made: Bench = {
    clock,
    scheduler,
    runs,
    answers,
    async advance(milliseconds) {
      clock.advance(milliseconds);
      for (let i = 0; i < 5; i++) await turn();
    },
  };
  void scheduler.start(stop.signal);
  return made;
}

describe('SyncScheduler', () => {
  it('runs at once after the first request', async () => {
    const { scheduler, runs, advance } = bench();
    await advance(5000);
    scheduler.request();
    await advance(0);
    assert.deepEqual(runs, [5000]);
  });

  it('does not pause before an urgent request, whenever it comes', async () => {
    const { scheduler, runs, advance } = bench();
    scheduler.request();
    await advance(0);
    scheduler.request();
    await advance(100);
    scheduler.request(true);
    await advance(0);
    assert.deepEqual(runs, [0, 100]);
    await advance(999);
    assert.equal(runs.length, 2);
    scheduler.request();
    await advance(1);
    assert.deepEqual(runs, [0, 100, 1100]);
    const during = bench(({ scheduler: own, runs: made }) => {
      if (made.length === 1) own.request(true);
    });
    during.scheduler.request();
    await during.advance(0);
    await during.advance(0);
    assert.deepEqual(during.runs, [0, 0]);
  });

  it('pauses for min after a run, and makes one run of all requests in the pause (invariant 9)', async () => {
    const { scheduler, runs, advance } = bench();
    scheduler.request();
    await advance(0);
    for (let i = 0; i < 10; i++) scheduler.request();
    await advance(999);
    assert.deepEqual(runs, [0]);
    await advance(1);
    assert.deepEqual(runs, [0, 1000]);
    await advance(5000);
    assert.deepEqual(runs, [0, 1000]);
  });

  it('makes one more run of all requests during a run', async () => {
    const { scheduler, runs, advance } = bench(({ runs: begun, scheduler: own }) => {
      if (begun.length === 1) for (let i = 0; i < 3; i++) own.request();
    });
    scheduler.request();
    await advance(0);
    await advance(1000);
    await advance(10_000);
    assert.deepEqual(runs, [0, 1000]);
  });

  it('runs again after retry when a run failed, unless a run in between succeeded', async () => {
    const { scheduler, runs, answers, advance } = bench();
    answers.push(false, false);
    scheduler.request();
    await advance(0);
    await advance(1000);
    await advance(28_999);
    assert.deepEqual(runs, [0]);
    await advance(1);
    assert.deepEqual(runs, [0, 30_000]);
    await advance(1000);
    scheduler.request();
    await advance(0);
    assert.deepEqual(runs, [0, 30_000, 31_000]);
    await advance(60_000);
    assert.deepEqual(runs, [0, 30_000, 31_000]);
  });

  it('goes on to try again for as long as runs fail', async () => {
    const { scheduler, runs, answers, advance } = bench();
    answers.push(false, false, false);
    scheduler.request();
    await advance(0);
    for (let i = 0; i < 5; i++) {
      await advance(1000);
      await advance(29_000);
    }
    assert.deepEqual(runs, [0, 30_000, 60_000, 90_000]);
  });

  it('tries again no later than max, where retry is longer', async () => {
    const { scheduler, runs, answers, advance } = bench(undefined, { min: 1000, retry: 60_000, max: 10_000 });
    answers.push(false);
    scheduler.request();
    await advance(0);
    await advance(1000);
    await advance(8999);
    assert.deepEqual(runs, [0]);
    await advance(1);
    assert.deepEqual(runs, [0, 10_000]);
  });

  it('does not try again before min, where retry is shorter', async () => {
    const { scheduler, runs, answers, advance } = bench(undefined, { min: 5000, retry: 1000, max: 10_000 });
    answers.push(false);
    scheduler.request();
    await advance(0);
    await advance(1000);
    await advance(3999);
    assert.deepEqual(runs, [0]);
    await advance(1);
    await advance(0);
    assert.deepEqual(runs, [0, 5000]);
    await advance(5000);
    await advance(4999);
    assert.equal(runs.length, 2);
    await advance(1);
    assert.deepEqual(runs, [0, 5000, 15_000]);
  });

  it('runs after max without any request', async () => {
    const { runs, advance } = bench();
    await advance(3_599_999);
    assert.deepEqual(runs, []);
    await advance(1);
    assert.deepEqual(runs, [3_600_000]);
    await advance(1000);
    await advance(3_599_000);
    assert.deepEqual(runs, [3_600_000, 7_200_000]);
  });

  it('ends when it is stopped, and refuses contradictory periods', async () => {
    const own = new AbortController();
    const scheduler = new SyncScheduler({ clock: new FakeClock(), run: async () => true, min: 1, retry: 1, max: 1 });
    const ended = scheduler.start(own.signal);
    own.abort();
    await ended;
    assert.throws(() => new SyncScheduler({ clock: new FakeClock(), run: async () => true, min: 2, retry: 1, max: 1 }));
  });
});
