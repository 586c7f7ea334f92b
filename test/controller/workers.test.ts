import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import { aborted } from '../../src/base/clock.ts';
import { ApiError } from '../../src/cluster/api/client.ts';
import { runWorkers, StaleCache, WorkQueue, workOff } from '../../src/controller/queue.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

type Sync = (key: string, signal: AbortSignal) => Promise<void>;

/** Workers, and what they tell. */
class Crew {
  readonly clock = new FakeClock();
  readonly queue = new WorkQueue(this.clock);
  readonly results: string[] = [];
  readonly reported: string[] = [];
  /** Keys that were worked on. */
  readonly synced: string[] = [];
  readonly running: Promise<void>;
  readonly #stop = new AbortController();

  constructor(sync: Sync, workers = 1) {
    this.running = runWorkers(
      {
        queue: this.queue,
        workers,
        sync: (key, signal) => {
          this.synced.push(key);
          return sync(key, signal);
        },
        onResult: (result) => this.results.push(result),
        onFailure: (key, { message }, isLast) => this.reported.push(`${key}: ${message}${isLast ? ', the last' : ''}`),
      },
      this.#stop.signal,
    );
  }

  async add(...keys: string[]): Promise<void> {
    for (const key of keys) this.queue.add(key);
    await breath();
  }

  /** Let the longest wait end. */
  async wait(): Promise<void> {
    this.clock.finishWaits();
    await breath();
  }

  /** Let all waits end, one after another, until none is left. */
  async waits(): Promise<void> {
    while (this.clock.pending > 0) {
      this.clock.finishWaits();
      await breath();
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('stopped'));
    await this.running;
  }
}

/** Fails as often as it says, then no more. */
function failing(times: number, error: unknown): Sync {
  let left = times;
  return () => (left-- > 0 ? Promise.reject(error) : Promise.resolve());
}

describe('workers', () => {
  it('work on the keys of the queue, and report them done', async () => {
    const crew = new Crew(() => Promise.resolve());
    await crew.add('a', 'b');
    assert.deepEqual([crew.synced, crew.results, crew.reported], [['a', 'b'], ['success', 'success'], []]);
    assert.equal(crew.queue.isIdle, true);
    await crew.stop();
  });

  it('work on as many keys at a time as there are workers, and never on one key twice', async () => {
    const work = Promise.withResolvers<void>();
    const crew = new Crew(() => work.promise, 2);
    await crew.add('a', 'b', 'c', 'a');
    assert.deepEqual([crew.synced, crew.queue.depth], [['a', 'b'], 1]);
    work.resolve();
    await breath();
    assert.deepEqual(crew.synced, ['a', 'b', 'c', 'a']);
    await crew.stop();
  });

  it('retry failed keys later, report each failure, and forget the failures of a key that succeeds', async () => {
    const crew = new Crew(failing(2, new Error('broken')));
    await crew.add('a');
    assert.deepEqual([crew.synced.length, crew.queue.failures.of('a')], [1, 1]);
    crew.clock.advance(1000);
    await breath();
    assert.deepEqual([crew.synced.length, crew.queue.failures.of('a')], [2, 2]);
    await crew.waits();
    assert.deepEqual(crew.reported, ['a: broken', 'a: broken']);
    assert.deepEqual([crew.results, crew.queue.failures.of('a')], [['error', 'error', 'success'], 0]);
    await crew.stop();
  });

  it('report thrown values that are no Error', async () => {
    const crew = new Crew(failing(1, 'just a text'));
    await crew.add('a');
    assert.deepEqual(crew.reported, ['a: just a text']);
    await crew.stop();
  });

  it('try 15 times again, then leave it, until it is added, or half a day is over', async () => {
    const crew = new Crew(failing(17, new Error('broken')));
    await crew.add('a');
    for (let waits = 1; waits <= 15; waits++) await crew.wait();
    assert.equal(crew.synced.length, 16);
    assert.deepEqual(crew.reported.slice(-2), ['a: broken', 'a: broken, the last']);
    assert.deepEqual([crew.queue.failures.of('a'), crew.clock.waits.at(-1)], [0, 12 * 3_600_000]);
    await crew.add('a');
    assert.deepEqual([crew.reported.at(-1), crew.queue.failures.of('a')], ['a: broken', 1]);
    await crew.waits();
    assert.deepEqual([crew.results.at(-1), crew.queue.isIdle], ['success', true]);
    await crew.stop();
  });

  it('wait as long as the API server asks for', async () => {
    const crew = new Crew(failing(1, new ApiError('too many requests', 429, { retryAfter: 30_000 })));
    await crew.add('a');
    assert.deepEqual(crew.clock.waits, [30_000]);
    await crew.stop();
  });

  it('take nothing while they do not run, and forget waiting keys when they end', async () => {
    const clock = new FakeClock();
    const queue = new WorkQueue(clock, { isOpen: false });
    queue.add('early');
    queue.addAfter('early', 10);
    const stop = new AbortController();
    const synced: string[] = [];
    const sync = (key: string) => {
      synced.push(key);
      return key === 'bad' ? Promise.reject(new Error('broken')) : Promise.resolve();
    };
    const reported = { onResult: () => undefined, onFailure: () => undefined };
    const working = workOff(['good', 'bad'], { queue, workers: 1, sync, ...reported }, stop.signal);
    await breath();
    assert.deepEqual(synced, ['good', 'bad']);
    stop.abort(new Error('stopped'));
    await working;
    queue.add('late');
    assert.deepEqual([queue.depth, queue.isIdle, clock.pending], [0, true, 0]);
  });

  it('wait for a stale cache without a word, however long that takes', async () => {
    const crew = new Crew(failing(20, new StaleCache('out of date')));
    await crew.add('a');
    assert.deepEqual([crew.results, crew.reported, crew.queue.failures.of('a')], [['stale'], [], 0]);
    await crew.waits();
    assert.deepEqual([crew.results.length, crew.results.at(-1), crew.reported], [21, 'success', []]);
    await crew.stop();
  });

  it('count a wait for a stale cache as no failure: an error after many of them is retried after a second', async () => {
    let next: Error | undefined = new StaleCache('out of date');
    const crew = new Crew(() => (next === undefined ? Promise.resolve() : Promise.reject(next)));
    await crew.add('a');
    for (let i = 0; i < 20; i++) await crew.add('a');
    assert.deepEqual([crew.queue.failures.of('a'), crew.queue.failures.has('a'), crew.clock.waits], [0, true, [1000]]);
    next = new Error('broken');
    await crew.add('a');
    assert.deepEqual(crew.reported, ['a: broken']);
    next = undefined;
    crew.clock.advance(1000);
    await breath();
    assert.deepEqual([crew.results.at(-1), crew.queue.failures.has('a')], ['success', false]);
    await crew.stop();
  });

  it('do not keep others from being worked on when one fails', async () => {
    const crew = new Crew((key) => (key === 'a' ? Promise.reject(new Error('broken')) : Promise.resolve()));
    await crew.add('a', 'b');
    assert.deepEqual(crew.results, ['error', 'success']);
    await crew.stop();
  });

  it('stop when the signal aborts, at once when they are idle', async () => {
    const crew = new Crew(() => Promise.resolve(), 3);
    await crew.stop();
    await crew.add('a');
    assert.deepEqual([crew.synced, crew.queue.depth], [[], 1]);
  });

  it('that stop leave unfinished keys in the queue, and report no failure', async () => {
    const crew = new Crew((_, signal) => aborted(signal));
    await crew.add('a', 'b');
    await crew.stop();
    assert.deepEqual([crew.synced, crew.results, crew.reported], [['a'], [], []]);
    assert.deepEqual([crew.queue.depth, crew.queue.failures.of('a')], [2, 0]);
  });

  it('that stop finish first what does not heed the signal', async () => {
    const work = Promise.withResolvers<void>();
    const crew = new Crew(() => work.promise);
    await crew.add('a', 'b');
    const stopped = crew.stop();
    let isStopped = false;
    void stopped.then(() => {
      isStopped = true;
    });
    await breath();
    assert.equal(isStopped, false);
    work.resolve();
    await stopped;
    assert.deepEqual([crew.synced, crew.results], [['a'], ['success']]);
  });
});
