/** Streaming lists (KEP-3157): complete only at their end, and pages where a server cannot. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { breath } from '../../../src/base/clock.ts';
import { SERVICES as IN_PROTOBUF } from '../../../src/cluster/api/decode/service.ts';
import type { Resource } from '../../../src/cluster/api/reflector.ts';
import { STREAM_SILENCE } from '../../../src/cluster/api/streaming.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';
import { ApiServer, type ApiServerOptions } from '../../helpers/cluster/api/api-server.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { Following } from '../source/kubernetes-follow.ts';

const STREAMED: Resource = { path: '/api/v1/services', streams: true };

function web(name: string, clusterIP = '10.96.0.1'): object {
  return service({ name, spec: { clusterIP, ports: [{ port: 80 }] } });
}

async function serverWith(t: TestContext, names: string, options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await ApiServer.start({ streaming: 'served', ...options });
  t.after(() => server.stop());
  for (const name of names) server.put(web(name));
  return server;
}

function follow(t: TestContext, server: ApiServer, resource = STREAMED, clock = new FakeClock()): Following {
  return new Following(t, server.url, { resource, clock });
}

/** `list`, `stream`, or `watch` from a version, in the order in which they were asked for. */
function asked(server: ApiServer): string[] {
  return server
    .requests()
    .map(({ kind, query }) =>
      query.sendInitialEvents === 'true' ? 'stream' : kind === 'watch' ? `watch ${query.resourceVersion}` : kind,
    );
}

/** Makes the watch go away, and with it the history that the next one needs. */
async function relist(server: ApiServer, following: Following): Promise<void> {
  following.clock.advance(1000);
  server.compact();
  server.closeWatches();
  await until('the next watch', () => server.watches === 1);
}

describe('a streaming list', () => {
  for (const protobuf of [undefined, IN_PROTOBUF])
    test(`in ${protobuf ? 'protobuf' : 'JSON'} is one request, and the watch goes on`, async (t) => {
      const server = await serverWith(t, 'ab');
      const following = follow(t, server, { ...STREAMED, ...(protobuf ? { protobuf } : {}) });
      await following.hears('synced');
      server.put(web('c'));
      server.delete('Service', 'default/a');
      await following.hears('gone default/a');
      assert.deepEqual(following.reported, [
        'set default/a 1001',
        'set default/b 1002',
        'synced',
        'set default/c 1003',
        'gone default/a',
      ]);
      assert.deepEqual(asked(server), ['stream']);
      const { resourceVersion, resourceVersionMatch, allowWatchBookmarks } = server.requests()[0]?.query ?? {};
      assert.deepEqual(
        [resourceVersion, resourceVersionMatch, allowWatchBookmarks],
        [undefined, 'NotOlderThan', 'true'],
      );
    });

  test('of nothing is complete', async (t) => {
    const following = follow(t, await serverWith(t, ''));
    await following.hears('synced');
    assert.deepEqual(following.reported, ['synced']);
  });

  test('is followed by a watch from its version, or from the last event', async (t) => {
    const server = await serverWith(t, 'a');
    const following = follow(t, server);
    await following.hears('synced');
    following.clock.advance(1000);
    server.closeWatches();
    await until('the next watch', () => server.requests().length === 2);
    assert.deepEqual(asked(server), ['stream', 'watch 1001']);
  });

  test('after a version that is too old reports what is gone at its end, and nothing that is the same', async (t) => {
    const server = await serverWith(t, 'abc');
    const following = follow(t, server);
    await following.hears('synced');
    following.take();
    server.silence();
    server.delete('Service', 'default/a');
    server.put(web('b', '10.96.0.9'));
    await relist(server, following);
    await following.hears('gone default/a');
    assert.deepEqual(following.reported, ['set default/b 1005', 'gone default/a']);
    assert.deepEqual(asked(server), ['stream', 'watch 1003', 'stream']);
  });

  test('that breaks off removes nothing; the next list comes in pages, and the one after it as a stream', async (t) => {
    const server = await serverWith(t, 'ab', { streaming: 'unknown' });
    const following = follow(t, server);
    await following.hears('set default/b 1002');
    server.cutConnections();
    await following.hears('failed 1');
    assert.deepEqual([...following.objects.keys()], ['default/a', 'default/b']);
    assert.ok(!following.reported.includes('synced'));
    server.delete('Service', 'default/a');
    await following.nextAttempt();
    await until('the watch', () => server.watches === 1);
    assert.deepEqual(following.reported.slice(-4), ['failed 1', 'gone default/a', 'recovered 1', 'synced']);
    await relist(server, following);
    assert.deepEqual(asked(server), ['stream', 'list', 'watch 1003', 'watch 1003', 'stream']);
  });

  test('that ends in order without its end is a failure', async (t) => {
    const server = await serverWith(t, 'a', { streaming: 'unknown' });
    const following = follow(t, server);
    await following.hears('set default/a 1001');
    server.closeWatches();
    await following.hears('failed 1');
    assert.deepEqual(following.errors, ['the list of /api/v1/services as a stream broke off']);
  });

  test('changes and deletions before its end count', async (t) => {
    const server = await serverWith(t, 'ab', { streaming: 'unknown' });
    const following = follow(t, server);
    await following.hears('set default/b 1002');
    server.put(web('b', '10.96.0.9'));
    server.delete('Service', 'default/a');
    await following.hears('gone default/a');
    const end = { resourceVersion: '1004', annotations: { 'k8s.io/initial-events-end': 'true' } };
    // A bookmark without the annotation is not the end.
    server.sendRaw(JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '1003' } } }));
    server.sendRaw(JSON.stringify({ type: 'BOOKMARK', object: { metadata: end } }));
    await following.hears('synced');
    assert.deepEqual(following.reported.slice(2), ['set default/b 1003', 'gone default/a', 'synced']);
  });

  test('lets other work have its turn, and has its own turns beside work that never ends', async (t) => {
    const server = await serverWith(t, '');
    const count = 1000;
    for (let n = 0; n < count; n++) server.put(web(`web-${n}`));
    const clock = new FakeClock();
    const following = follow(t, server, STREAMED, clock);
    let turns = 0;
    await until('the list begins', () => following.reported.length > 0);
    while (!following.reported.includes('synced')) {
      const before = following.reported.length;
      // Other work takes longer than a turn may.
      clock.advance(10);
      await breath();
      if (following.reported.length > before) turns += 1;
    }
    assert.ok(turns > 5 && turns < count / 2, `${turns} turns`);
  });

  test('of a restored store is read again in pages, in which no object counts as unchanged', async (t) => {
    const server = await serverWith(t, 'a');
    const backup = server.version;
    const following = follow(t, server);
    await following.hears('synced');
    server.put(web('b', '10.96.0.2'));
    server.put(web('c', '10.96.0.3'));
    await following.hears('set default/c 1003');
    server.restore(backup);
    // The same version means another object now.
    server.put(web('c', '10.96.0.9'));
    server.failNext(1, 410, {}, { kind: 'watch' });
    await following.hears('failed 1');
    await following.nextAttempt();
    await following.hears('failed 2');
    await following.nextAttempt();
    await until('the watch', () => asked(server).at(-1) === 'watch 1002');
    assert.ok(following.reported.includes('restored 1003 1002'));
    assert.deepEqual([...following.objects.keys()].sort(), ['default/a', 'default/c']);
    const { spec } = following.objects.get('default/c') as { spec: { clusterIP: string } };
    assert.equal(spec.clusterIP, '10.96.0.9');
    assert.deepEqual(asked(server).slice(-3), ['stream', 'list', 'watch 1002']);
  });
});

describe('a server that cannot stream lists', () => {
  for (const status of [400, 422, 500])
    test(`is asked for pages at once where it says so with the status ${status}`, async (t) => {
      const server = await serverWith(t, 'ab');
      server.failNext(1, status, {}, { kind: 'watch' });
      const following = follow(t, server);
      await until('the watch', () => server.watches === 1);
      assert.deepEqual(following.reported, ['set default/a 1001', 'set default/b 1002', 'synced']);
      assert.deepEqual(
        [asked(server), following.clock.waits.filter((wait) => wait < STREAM_SILENCE)],
        [['stream', 'list', 'watch 1002'], []],
      );
    });

  test('is asked for pages at once where it says so with an event, and not for a stream again', async (t) => {
    const server = await serverWith(t, 'a', { streaming: 'refused' });
    const following = follow(t, server);
    await until('the watch', () => server.watches === 1);
    await relist(server, following);
    assert.deepEqual(asked(server), ['stream', 'list', 'watch 1001', 'watch 1001', 'list', 'watch 1002']);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
  });

  test('is asked for a stream again after its connection broke: it may be another version', async (t) => {
    const server = await serverWith(t, 'a', { streaming: 'refused' });
    const following = follow(t, server);
    await until('the watch', () => server.watches === 1);
    server.cutConnections();
    await following.hears('failed 1');
    server.compact();
    await following.nextAttempt();
    await until(
      'the watch',
      () => server.watches === 1 && asked(server).filter((one) => one === 'stream').length === 2,
    );
    assert.deepEqual(asked(server).slice(-2), ['list', 'watch 1002']);
  });

  test('sends no end where it does not know the parameter: after 30 s without an event it is asked for pages', async (t) => {
    const server = await serverWith(t, 'a', { streaming: 'unknown' });
    const following = follow(t, server);
    await following.hears('set default/a 1001');
    following.clock.advance(STREAM_SILENCE);
    await until('the watch', () => asked(server).length === 3 && server.watches === 1);
    assert.deepEqual(asked(server), ['stream', 'list', 'watch 1001']);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
    assert.equal(following.clock.pending, 0);
  });

  test('that refuses for other reasons has failed: it is asked again later', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(1, 429, { 'retry-after': '7' }, { kind: 'watch' });
    const following = follow(t, server);
    await following.hears('failed 1');
    await until('a wait', () => following.clock.waits.includes(7000));
    following.clock.finishWaits();
    await following.hears('synced');
    assert.deepEqual(asked(server).slice(0, 2), ['stream', 'list']);
  });
});
