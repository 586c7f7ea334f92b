/** How fast the controllers ask, and what they do when the API server asks them to wait. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import { type ApiClient, ApiError } from '../../src/cluster/api/client.ts';
import { ClientPace, type RequestRate } from '../../src/controller/pace.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const tooMany = (retryAfter?: number) => new ApiError('too many requests', 429, { retryAfter });

/** Clients with one pace, before a server that answers with these errors first. */
class Bench {
  readonly clock = new FakeClock();
  readonly waits: number[] = [];
  /** When the server was no longer busy. */
  readonly calm: number[] = [];
  /** When each request arrived. */
  readonly asked: number[] = [];
  readonly #pace: ClientPace;
  readonly #errors: Error[];

  constructor({ rate, errors = [] }: { rate?: RequestRate; errors?: readonly Error[] } = {}) {
    this.#errors = [...errors];
    this.#pace = new ClientPace({
      ...{ clock: this.clock, rate },
      onWait: (milliseconds) => this.waits.push(milliseconds),
      onCalm: () => this.calm.push(this.clock.now()),
    });
  }

  client(): ApiClient {
    const answer = () => {
      this.asked.push(this.clock.now());
      const error = this.#errors.shift();
      return error === undefined ? Promise.resolve('done') : Promise.reject(error);
    };
    return this.#pace.clientOf({
      server: 'https://api',
      get: answer,
      write: answer,
      async *watch() {
        yield { type: 'BOOKMARK' };
      },
    });
  }

  /** Let the time pass in small steps. */
  async pass(milliseconds: number): Promise<void> {
    for (let at = 0; at < milliseconds; at += 10) {
      this.clock.advance(10);
      await breath();
    }
  }
}

const write = (client: ApiClient, signal = NEVER) =>
  client.write({ method: 'POST', path: '/slices', body: {} }, signal);

describe('a rate of requests', () => {
  it('lets a burst pass at once, and then one after another in the order of asking', async () => {
    const bench = new Bench({ rate: { perSecond: 10, burst: 3 } });
    const client = bench.client();
    const done: number[] = [];
    for (let n = 0; n < 6; n++) void write(client).then(() => done.push(n));
    await breath();
    assert.deepEqual(done, [0, 1, 2]);
    await bench.pass(1000);
    assert.deepEqual(bench.asked, [0, 0, 0, 100, 200, 300]);
    assert.deepEqual(done, [0, 1, 2, 3, 4, 5]);
  });

  it('saves up no more than a burst while nothing is asked', async () => {
    const bench = new Bench({ rate: { perSecond: 10, burst: 2 } });
    const client = bench.client();
    await bench.pass(10_000);
    for (let n = 0; n < 3; n++) void client.get('/services/web', {}, NEVER);
    await breath();
    await bench.pass(1000);
    assert.deepEqual(bench.asked, [10_000, 10_000, 10_100]);
  });

  it('is that of each client, and watches are not in it', async () => {
    const bench = new Bench({ rate: { perSecond: 1, burst: 1 } });
    const [one, other] = [bench.client(), bench.client()];
    await write(one);
    await write(other);
    assert.deepEqual(bench.asked, [0, 0]);
    assert.deepEqual(await Array.fromAsync(one.watch('/services', {}, NEVER)), [{ type: 'BOOKMARK' }]);
  });

  it('keeps nobody who stops', async () => {
    const bench = new Bench({ rate: { perSecond: 1, burst: 1 } });
    const client = bench.client();
    await write(client);
    const stop = new AbortController();
    const stopped = assert.rejects(write(client, stop.signal), /stopped/);
    stop.abort(new Error('stopped'));
    await stopped;
    assert.deepEqual([bench.asked, bench.clock.pending], [[0], 0]);
  });
});

describe('a server that asks to wait', () => {
  it('gets the same request again after that time, and no other before', async () => {
    const bench = new Bench({ errors: [tooMany(2000)] });
    const first = write(bench.client());
    await breath();
    const second = write(bench.client());
    await bench.pass(1900);
    assert.deepEqual([bench.asked, bench.waits], [[0], [2000]]);
    await bench.pass(200);
    assert.deepEqual([await first, await second, bench.asked], ['done', 'done', [0, 2000, 2000]]);
  });

  it('is told of once, however many requests it refuses at a time', async () => {
    const bench = new Bench({ errors: [tooMany(1000), tooMany(1000), tooMany(1000)] });
    const client = bench.client();
    const all = Promise.all([write(client), write(client), write(client)]);
    await bench.pass(1100);
    await all;
    assert.deepEqual([bench.waits, bench.asked.length], [[1000], 6]);
  });

  it('gets no request before the longest of several waits has ended', async () => {
    const bench = new Bench({ errors: [tooMany(1000), tooMany(3000)] });
    const client = bench.client();
    const all = Promise.all([write(client), write(client)]);
    await breath();
    await bench.pass(2900);
    assert.deepEqual(bench.asked, [0, 0]);
    await bench.pass(200);
    await all;
    assert.deepEqual(bench.asked, [0, 0, 3000, 3000]);
  });

  it('gets it ten times more, and then the failure is that of the object', async () => {
    const bench = new Bench({ errors: Array.from({ length: 11 }, () => tooMany(100)) });
    const failed = assert.rejects(write(bench.client()), /too many requests/);
    await bench.pass(2000);
    await failed;
    assert.equal(bench.asked.length, 11);
  });

  for (const [name, error] of [
    ['does not say how long', tooMany()],
    ['failed otherwise', new ApiError('unavailable', 503, { retryAfter: 1000 })],
    ['gave no answer', new Error('connection reset')],
  ] as const) {
    it(`${name}: the failure is that of the object`, async () => {
      const bench = new Bench({ errors: [error] });
      await assert.rejects(write(bench.client()), error);
      assert.deepEqual([bench.asked, bench.waits], [[0], []]);
    });
  }
});

describe('an API server that was busy', () => {
  it('is calm when it takes a request a minute after the last wait, and only once', async () => {
    const bench = new Bench({ errors: [tooMany(1000), tooMany(1000)] });
    const client = bench.client();
    void write(client);
    await bench.pass(3000);
    void write(client);
    await bench.pass(10);
    assert.deepEqual([bench.waits.length, bench.calm.length], [2, 0], 'a busy server takes some requests');
    bench.clock.advance(60_000);
    await write(client);
    await write(client);
    assert.deepEqual(bench.calm, [63_010]);
  });
});
