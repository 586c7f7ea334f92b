/** Questions that wait for each other, and those that do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Queries } from '../../../src/agent/questions/queries.ts';
import type { QueryParts } from '../../../src/agent/questions/query-parts.ts';
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
