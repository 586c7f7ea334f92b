/** Questions that wait for each other, and those that do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelLock } from '../../../src/agent/agent.ts';
import { MAX_DISTURBED_MS, Queries } from '../../../src/agent/questions/queries.ts';
import type { QueryParts } from '../../../src/agent/questions/query-parts.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

const BEGUN = 'the question about now has begun';

test('explain of now does not wait for one of the past, whose recording is on a disk that hangs; history does', async () => {
  let reads = 0;
  const archive = {
    objectsAt: () => {
      reads += 1;
      return new Promise(() => undefined);
    },
    history: () => {
      reads += 1;
      return Promise.reject(new Error('no history'));
    },
  };
  const isCertain = () => Promise.reject(new Error(BEGUN));
  const feed = { cache: { waitingFor: [] } };
  const kernelLock = { between: (work: () => unknown) => work(), syncs: 0 };
  const mode = { isObserved: true, inspection: { isCertain } };
  const parts = {
    who: 'agent',
    clock: { now: () => 0, wall: () => 1_000_000 },
    config: () => ({
      ...{ nodeName: 'node', mode: 'nftables', modeChoice: { by: 'flag' } },
      ...{ source: { kind: 'kubernetes' }, ipvs: {} },
    }),
    feed: () => feed,
    startedAt: 0,
    health: () => ({}),
    relay: () => ({}),
    agent: () => ({ mode, kernelLock, feed, onNode: { families: ['IPv4'] } }),
    recordings: { recorder: {}, fault: undefined, archive },
  };
  const queries = new Queries(parts as unknown as QueryParts);
  const client = new AbortController();
  const asked = { from: '10.0.0.1', to: '10.96.0.10:80' };
  const past = queries.explain({ ...asked, at: 1000 } as never, client.signal);
  await Promise.all([
    assert.rejects(queries.explain(asked as never, NEVER), { message: BEGUN }),
    assert.rejects(queries.history({} as never, AbortSignal.timeout(50)), { name: 'TimeoutError' }),
  ]);
  client.abort(new Error('the client has gone'));
  await assert.rejects(past, { message: 'the client has gone' });
  assert.equal(reads, 1);
});

test('verify reads beside syncs, and while they wait where that finds no end', async () => {
  const clock = new FakeClock();
  const kernelLock = new KernelLock();
  const readings: { readonly isAlone: boolean }[] = [];
  let isDisturbed = false;
  const compare = async (signal: AbortSignal) => {
    let hasSynced = false;
    const sync = kernelLock.sync(() => {
      hasSynced = true;
      return Promise.resolve();
    });
    await new Promise(setImmediate);
    readings.push({ isAlone: !hasSynced });
    if (hasSynced && isDisturbed) {
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => reject(signal.reason));
      await promise;
    }
    void sync;
    return { differences: [], compared: readings.length, lastWriter: undefined };
  };
  const parts = {
    ...{ who: 'agent', clock, startedAt: 0 },
    config: () => ({ nodeName: 'node', mode: 'nftables', modeChoice: { by: 'flag' }, source: { kind: 'kubernetes' } }),
    agent: () => ({ mode: { isObserved: true, inspection: { compare } }, kernelLock, loop: { refused: new Map() } }),
  };
  const queries = new Queries(parts as unknown as QueryParts);
  assert.equal((await queries.verify(NEVER)).compared, 1);
  assert.equal(clock.pending, 0);
  isDisturbed = true;
  const answer = queries.verify(NEVER);
  await new Promise((resolve) => setTimeout(resolve, 20));
  clock.advance(MAX_DISTURBED_MS);
  assert.equal((await answer).compared, 3);
  assert.deepEqual(readings, [{ isAlone: false }, { isAlone: false }, { isAlone: true }]);
  const client = new AbortController();
  const given = queries.verify(client.signal);
  await new Promise((resolve) => setTimeout(resolve, 20));
  client.abort(new Error('the client has gone'));
  await assert.rejects(given, { message: 'the client has gone' });
  assert.equal(readings.length, 4);
});
