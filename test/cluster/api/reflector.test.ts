/** List and watch against an API server that behaves like the real one, with time in the test's hands. */
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { describe, type TestContext } from 'node:test';
import { apiClient } from '../../../src/cluster/api/client.ts';
import { backoff, followAll, type ReflectorSink } from '../../../src/cluster/api/reflector.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { Following, type FollowOptions, SERVICES } from '../source/kubernetes-follow.ts';

function web(name: string, clusterIP = '10.96.0.1'): object {
  return service({ name, spec: { clusterIP, ports: [{ port: 80 }] } });
}

async function serverWith(t: TestContext, ...names: string[]): Promise<ApiServer> {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  for (const name of names) server.put(web(name));
  return server;
}

/** A reflector that has listed and watches. */
async function watching(t: TestContext, server: ApiServer, options: FollowOptions = {}): Promise<Following> {
  const following = new Following(t, server.url, options);
  await until('the watch', () => server.watches > 0);
  return following;
}

function clusterIp(object: unknown): string {
  return (object as { spec: { clusterIP: string } }).spec.clusterIP;
}

function keys(following: Following): string[] {
  return [...following.objects.keys()].sort();
}

/** Answer everything by a function; for what the server of the tests does not do. */
async function answering(t: TestContext, answer: http.RequestListener): Promise<string> {
  const server = http.createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('the first list', () => {
  test('reports each object, then once that the list is complete', async (t) => {
    const server = await serverWith(t, 'a', 'b');
    const following = await watching(t, server);
    assert.deepEqual(following.reported, ['set default/a 1001', 'set default/b 1002', 'synced']);
  });

  test('is complete when there is nothing', async (t) => {
    const following = await watching(t, await serverWith(t));
    assert.deepEqual(following.reported, ['synced']);
  });

  for (const items of ['null', '[]', undefined]) {
    test(`is complete when its items are ${items}`, async (t) => {
      const body = `{"metadata":{"resourceVersion":"7"}${items ? `,"items":${items}` : ''}}`;
      const url = await answering(t, (request, response) => {
        if (request.url?.includes('watch')) response.flushHeaders();
        else response.end(body);
      });
      const following = new Following(t, url);
      await following.hears('synced');
      assert.deepEqual(following.reported, ['synced']);
    });
  }

  for (const body of [
    'null',
    '[]',
    '{"items":[]}',
    '{"items":{},"metadata":{"resourceVersion":"1"}}',
    '{"items":[null]',
  ]) {
    test(`is not complete when the answer is ${body}`, async (t) => {
      const following = new Following(t, await answering(t, (_, response) => response.end(body)));
      await following.hears('failed 1');
      assert.deepEqual(following.reported, ['failed 1']);
    });
  }

  test('an item that is no object is a failure, not the end', async (t) => {
    const body = '{"items":[null],"metadata":{"resourceVersion":"1"}}';
    const following = new Following(t, await answering(t, (_, response) => response.end(body)));
    await following.hears('failed 1');
    await following.nextAttempt();
    await following.hears('failed 2');
  });

  test('comes in pages, and the watch goes on from the version of the list', async (t) => {
    const server = await serverWith(t, ...'abcdefg');
    const following = await watching(t, server, { pageSize: 3 });
    assert.equal(keys(following).length, 7);
    assert.equal(server.requests({ kind: 'list' }).length, 3);
    assert.deepEqual(
      server.requests({ kind: 'list' }).map(({ query }) => query.limit),
      ['3', '3', '3'],
    );
    assert.equal(server.requests({ kind: 'watch' })[0]?.query.resourceVersion, '1007');
  });

  test('a page token that expires leads to a whole list, whose version is watched', async (t) => {
    const server = await serverWith(t, ...'abcdefg');
    server.expireContinue();
    const following = await watching(t, server, { pageSize: 3 });
    assert.equal(keys(following).length, 7);
    assert.deepEqual(
      following.reported.filter((text) => !text.startsWith('set')),
      ['synced'],
    );
    const asked = server.requests({ kind: 'list' }).map(({ query }) => [query.limit, query.continue !== undefined]);
    assert.deepEqual(asked, [
      ['3', false],
      ['3', true],
      [undefined, false],
    ]);
  });

  test('is read again from its start after a failure between pages; objects that vanished meanwhile are reported as gone', async (t) => {
    let lists = 0;
    const item = (name: string) => ({ metadata: { name, namespace: 'default', resourceVersion: '5' } });
    const url = await answering(t, (request, response) => {
      if (request.url?.includes('watch')) return response.flushHeaders();
      lists += 1;
      const metadata = { resourceVersion: '9', ...(lists === 1 ? { continue: 'more' } : {}) };
      if (lists === 2) response.statusCode = 500;
      return response.end(JSON.stringify({ metadata, items: [item(lists === 1 ? 'old' : 'new')] }));
    });
    const following = new Following(t, url);
    await following.nextAttempt();
    await following.hears('synced');
    assert.deepEqual(following.reported, [
      'set default/old 5',
      'failed 1',
      'set default/new 5',
      'gone default/old',
      'recovered 1',
      'synced',
    ]);
  });
});

describe('events', () => {
  test('are reported as they come', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    following.take();
    server.put(web('b'));
    server.put(web('a', '10.96.0.2'));
    server.delete('Service', 'default/b');
    await following.hears('gone default/b');
    assert.deepEqual(following.reported, ['set default/b 1002', 'set default/a 1003', 'gone default/b']);
  });

  test('an object that leaves the selector is gone, and one that enters it is there', async (t) => {
    const server = await serverWith(t, 'a');
    const resource = { path: '/api/v1/services', labelSelector: '!mine', fieldSelector: 'spec.clusterIP!=None' };
    const following = await watching(t, server, { resource });
    server.put(service({ name: 'a', labels: { mine: '' }, spec: { clusterIP: '10.96.0.1' } }));
    await following.hears('gone default/a');
    server.put(service({ name: 'a', spec: { clusterIP: 'None' } }));
    server.put(web('a'));
    await following.hears('set default/a 1004');
    assert.deepEqual(following.reported.slice(2), ['gone default/a', 'set default/a 1004']);
  });

  test('of an object that was deleted and made again end with it there', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.delete('Service', 'default/a');
    server.put(web('a'));
    await following.hears('set default/a 1003');
    assert.deepEqual(keys(following), ['default/a']);
  });

  for (const line of [
    '{"type":"ADDED","obj',
    'null',
    '7',
    '{}',
    '{"type":"ADDED"}',
    '{"type":"ADDED","object":{"metadata":{}}}',
  ]) {
    test(`a line that is no event (${line}) is a failure; the watch goes on from the last version`, async (t) => {
      const server = await serverWith(t, 'a');
      const following = await watching(t, server);
      server.sendRaw(line);
      await following.hears('failed 1');
      await until('the watch is closed', () => server.watches === 0);
      server.put(web('b'));
      await following.nextAttempt();
      await following.hears('set default/b 1002');
      assert.equal(server.requests({ kind: 'list' }).length, 1);
    });
  }

  test('of a type that is not known change nothing', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.sendRaw('{"type":"NEWS","object":{"metadata":{"name":"a","namespace":"default","resourceVersion":"1001"}}}');
    server.put(web('b'));
    await following.hears('set default/b 1002');
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced', 'set default/b 1002']);
  });
});

describe('a watch that ends', () => {
  test('goes on from the last event, without a list', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.put(web('b'));
    await following.hears('set default/b 1002');
    server.closeWatches();
    await until('the second watch', () => server.requests({ kind: 'watch' }).length === 2);
    server.put(web('c'));
    await following.hears('set default/c 1003');
    assert.equal(server.requests({ kind: 'watch' })[1]?.query.resourceVersion, '1002');
    assert.equal(server.requests({ kind: 'list' }).length, 1);
    assert.deepEqual(following.clock.waits, []);
  });

  test('goes on from the last bookmark: history before it may be forgotten', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.put(web('b'));
    await following.hears('set default/b 1002');
    server.compact();
    server.bookmark();
    server.closeWatches();
    await until('the second watch', () => server.requests({ kind: 'watch' }).length === 2 && server.watches === 1);
    assert.equal(server.requests({ kind: 'watch' })[1]?.query.resourceVersion, server.version);
    assert.equal(server.requests({ kind: 'list' }).length, 1);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced', 'set default/b 1002']);
  });

  test('misses nothing of what was written meanwhile', async (t) => {
    const server = await serverWith(t, 'a', 'b');
    const following = await watching(t, server);
    server.put(web('b', '10.96.0.9'));
    await following.hears('set default/b 1003');
    server.failNext(1, 503, {}, { kind: 'watch' });
    server.closeWatches();
    await following.hears('failed 1');
    server.put(web('c'));
    server.delete('Service', 'default/a');
    await following.nextAttempt();
    await following.hears('gone default/a');
    assert.deepEqual(keys(following), ['default/b', 'default/c']);
    assert.equal(server.requests({ kind: 'list' }).length, 1);
  });

  test('after its time with nothing said is no failure', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    following.clock.advance(300_000);
    server.closeWatches();
    await until('the second watch', () => server.requests({ kind: 'watch' }).length === 2);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
  });

  test('at once with nothing said is a failure, so that a server that does so is not pestered', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.closeWatches();
    await following.hears('failed 1');
    await aWhile();
    assert.equal(server.requests({ kind: 'watch' }).length, 1);
  });

  test('by a cut connection is a failure, and goes on from the last version', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.cutConnections();
    await following.hears('failed 1');
    assert.match(following.errors[0] ?? '', /connection lost/);
    server.put(web('b'));
    await following.nextAttempt();
    await following.hears('set default/b 1002');
    assert.deepEqual(following.reported.slice(2, 3), ['failed 1']);
    assert.equal(server.requests({ kind: 'list' }).length, 1);
  });

  test('asks for bookmarks, and for an end after 5 to 10 minutes that differs from watch to watch', async (t) => {
    const server = await serverWith(t, 'a');
    const randoms = [0, 0.999];
    const following = await watching(t, server, { random: () => randoms.shift() ?? 0.5 });
    following.clock.advance(1000);
    server.closeWatches();
    await until('the second watch', () => server.requests({ kind: 'watch' }).length === 2);
    const asked = server.requests({ kind: 'watch' }).map(({ query }) => query);
    assert.deepEqual(
      asked.map(({ timeoutSeconds }) => timeoutSeconds),
      ['300', '600'],
    );
    assert.deepEqual(
      asked.map(({ allowWatchBookmarks }) => allowWatchBookmarks),
      ['true', 'true'],
    );
  });
});

describe('a version that is too old', () => {
  /** Bring about a relist while the watch is away, by an ERROR event or by the status 410. */
  async function relist(server: ApiServer, form: 'event' | 'status'): Promise<void> {
    if (form === 'event') server.compact();
    else server.failNext(1, 410, {}, { kind: 'watch' });
    server.closeWatches();
    await until('the second list', () => server.requests({ kind: 'list' }).length === 2);
    await until('the watch', () => server.watches === 1);
  }

  for (const form of ['event', 'status'] as const) {
    test(`(${form}) leads to a list at once; vanished objects are gone, unchanged objects are not reported again`, async (t) => {
      const server = await serverWith(t, 'a', 'b', 'c');
      const following = await watching(t, server);
      following.take();
      // The watch hears nothing of this.
      server.silence();
      server.delete('Service', 'default/a');
      server.put(web('b', '10.96.0.9'));
      server.put(web('d'));
      following.clock.advance(1000);
      await relist(server, form);
      assert.deepEqual(
        following.reported.filter((text) => !text.startsWith('recovered')),
        ['set default/b 1005', 'set default/d 1006', 'gone default/a'],
      );
      assert.deepEqual(following.clock.waits, []);
      server.put(web('e'));
      await until('the event', () => following.objects.has('default/e'));
    });
  }

  test('is of no interest to an operator: neither a failure nor a recovery is reported', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    following.clock.advance(1000);
    server.compact();
    server.closeWatches();
    await until('the second watch', () => server.watches === 1 && server.requests({ kind: 'list' }).length === 2);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
  });

  test('leads to no list without a pause, also when it comes again and again', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(Number.POSITIVE_INFINITY, 410, {}, { kind: 'watch' });
    new Following(t, server.url);
    await until('the second list', () => server.requests({ kind: 'list' }).length === 2);
    await aWhile();
    assert.ok(server.requests({ kind: 'list' }).length <= 3, `${server.requests({ kind: 'list' }).length} lists`);
  });

  test('of the list itself is a failure that is waited for', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(Number.POSITIVE_INFINITY, 410, {}, { kind: 'list' });
    const following = new Following(t, server.url);
    await following.nextAttempt();
    await aWhile();
    assert.ok(server.requests({ kind: 'list' }).length <= 8);
    server.recover();
    await following.nextAttempt();
    await following.hears('synced');
  });
});

describe('failures', () => {
  test('synced is reported once, however often the list is read', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    for (let lists = 2; lists < 5; lists += 1) {
      server.compact();
      following.clock.advance(1000);
      server.closeWatches();
      await until('a list', () => server.requests({ kind: 'list' }).length === lists && server.watches === 1);
    }
    assert.equal(following.reported.filter((text) => text === 'synced').length, 1);
  });

  for (const [status, header, least] of [
    [429, '7', 7000],
    [503, '120', 120_000],
    [429, '0', 800],
    [503, 'soon', 800],
    [500, '-5', 800],
  ] as const) {
    test(`${status} with Retry-After: ${header} is tried again after ${least} ms`, async (t) => {
      const server = await serverWith(t, 'a');
      server.failNext(1, status, { 'retry-after': header });
      const following = new Following(t, server.url);
      assert.equal(await following.nextAttempt(), least);
      await following.hears('synced');
    });
  }

  test('Retry-After longer than a timer can hold does not end the wait at once', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(1, 503, { 'retry-after': '99999999' });
    const wait = await new Following(t, server.url).nextAttempt();
    // setTimeout takes a longer wait for 1 ms.
    assert.ok(wait < 2 ** 31, `${wait} ms`);
  });

  test('Retry-After holds for a watch as well', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(1, 429, { 'retry-after': '9' }, { kind: 'watch' });
    const following = new Following(t, server.url);
    assert.equal(await following.nextAttempt(), 9000);
  });

  test('are waited for longer and longer, up to the ceiling, and are counted', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(8, 500);
    const following = new Following(t, server.url);
    const waits: number[] = [];
    for (let i = 0; i < 8; i += 1) waits.push(await following.nextAttempt());
    assert.deepEqual(waits, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    await following.hears('synced');
    assert.deepEqual(
      following.reported.slice(0, 8),
      [1, 2, 3, 4, 5, 6, 7, 8].map((n) => `failed ${n}`),
    );
    assert.ok(following.reported.includes('recovered 8'));
  });

  test('after a success are counted from 1 again', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(3, 500);
    const following = new Following(t, server.url);
    for (let i = 0; i < 3; i += 1) await following.nextAttempt();
    await until('the watch', () => server.watches === 1);
    server.cutConnections();
    assert.equal(await following.nextAttempt(), 800);
  });

  test('of fifty kinds and times do not make it give up', async (t) => {
    const server = await serverWith(t, 'a');
    const statuses = [0, 400, 401, 403, 404, 410, 429, 500, 503, 504];
    for (let i = 0; i < 50; i += 1) server.failNext(1, statuses[i % 10] ?? 0);
    const following = new Following(t, server.url, { clock: new FakeClock({ hurried: true }) });
    await following.hears('synced');
    assert.equal(server.requests({ kind: 'list' }).length, 51);
    await until('the watch', () => server.watches === 1);
  });

  test('of the watch alone lead to a new list after a while, in case its version is what is wrong', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(5, 500, {}, { kind: 'watch' });
    const following = new Following(t, server.url, { clock: new FakeClock({ hurried: true }) });
    await until('the watch', () => server.watches === 1);
    assert.equal(server.requests({ kind: 'list' }).length, 2);
    assert.deepEqual(keys(following), ['default/a']);
  });

  test('leave no listeners behind on the signal', async (t) => {
    const server = await serverWith(t, 'a');
    server.failNext(40, 500);
    const following = new Following(t, server.url, { clock: new FakeClock({ hurried: true }) });
    await until('the watch', () => server.watches === 1);
    const count = getEventListeners(following.signal, 'abort').length;
    assert.ok(count <= 3, `${count} listeners`);
  });

  test('what was known stays known while the server is away', async (t) => {
    const server = await serverWith(t, 'a', 'b');
    const following = await watching(t, server);
    server.failNext(20, 503);
    server.cutConnections();
    for (let i = 0; i < 10; i += 1) await following.nextAttempt();
    assert.deepEqual(keys(following), ['default/a', 'default/b']);
  });
});

describe('silence', () => {
  test('of a watch that stands is no failure, however long it is', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    // Nothing changed, so that a kube-apiserver has no bookmark to send.
    for (let minute = 0; minute < 30; minute += 1) {
      following.clock.advance(60_000);
      server.bookmark();
    }
    await aWhile();
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
    assert.equal(server.requests({ kind: 'watch' }).length, 1);
    server.put(web('b'));
    await following.hears('set default/b 1002');
  });
});

/** A reflector that has seen two Services, `b` and `c`, which the backup of the server's store lacks. */
async function knowingMoreThanBackup(t: TestContext) {
  const server = await serverWith(t, 'a');
  const backup = server.version;
  const following = await watching(t, server);
  server.put(web('b', '10.96.0.2'));
  server.put(web('c', '10.96.0.3'));
  await following.hears('set default/c 1003');
  return { server, backup, following };
}

describe('a version that goes back, as after a restore of etcd (KEP-5504)', () => {
  test('in a list: objects of a known version are reported again', async (t) => {
    const { server, backup, following } = await knowingMoreThanBackup(t);
    server.restore(backup);
    // The same versions mean other objects now.
    server.put(web('b', '10.96.0.9'));
    following.take();
    server.failNext(1, 410, {}, { kind: 'watch' });
    await following.nextAttempt();
    await until('the list', () => following.reported.includes('restored 1003 1002'));
    await until('the watch', () => server.watches === 1);
    assert.deepEqual(keys(following), ['default/a', 'default/b']);
    assert.equal(clusterIp(following.objects.get('default/b')), '10.96.0.9');
    server.put(web('d'));
    await following.hears('set default/d 1003');
  });

  test('passes on what differs in the order of the writes, so that an endpoint is in its new slice before it leaves the old one', async (t) => {
    const server = await serverWith(t, 'a');
    const backup = server.version;
    const following = await watching(t, server);
    for (const name of ['b', 'c', 'd']) server.put(web(name));
    await following.hears('set default/d 1004');
    server.restore(backup);
    server.put(web('b'));
    server.put(web('a'));
    following.take();
    server.failNext(1, 410, {}, { kind: 'watch' });
    await following.nextAttempt();
    await until('the watch', () => server.watches === 1);
    assert.deepEqual(following.reported.filter((text) => /^(set|gone) /.test(text)).slice(-4), [
      'set default/b 1002',
      'set default/a 1003',
      'gone default/c',
      'gone default/d',
    ]);
  });

  test('while the server was away: its watch says nothing of it, so the server is asked', async (t) => {
    const { server, backup, following } = await knowingMoreThanBackup(t);
    server.failNext(1, 0);
    server.restore(backup);
    await following.hears('failed 1');
    await following.nextAttempt();
    await following.hears('failed 2');
    await following.nextAttempt();
    await following.hears('restored 1003 1001');
    await until('the watch', () => server.watches === 1);
    assert.deepEqual(keys(following), ['default/a']);
  });

  test('while this process stood still: the server may have been away, so it is asked', async (t) => {
    const { server, backup, following } = await knowingMoreThanBackup(t);
    server.restore(backup);
    await following.hears('failed 1');
    await until('the pause', () => following.clock.pending > 0);
    following.clock.advance(20_000);
    await following.hears('restored 1003 1001');
    await until('the watch', () => server.watches === 1);
    assert.deepEqual(keys(following), ['default/a']);
  });

  test('in a bookmark: leads to a new list', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    server.put(web('b'));
    await following.hears('set default/b 1002');
    const back = { type: 'BOOKMARK', object: { kind: 'Service', metadata: { resourceVersion: '900' } } };
    server.sendRaw(JSON.stringify(back));
    await following.hears('restored 1002 900');
    await until('the second list', () => server.requests({ kind: 'list' }).length === 2 && server.watches === 1);
    assert.deepEqual(keys(following), ['default/a', 'default/b']);
  });

  test('of one kind counts for the others, whose version may have been given out anew', async (t) => {
    const [first, second] = [await serverWith(t, 'a'), await serverWith(t, 'b')];
    const abort = new AbortController();
    const reported: string[] = [];
    const kinds = [first, second].map((server) => {
      const client = apiClient({ server: server.url, apply: () => Promise.resolve() }, { userAgent: 'test' });
      t.after(() => client.close());
      const sink: ReflectorSink = {
        set: (key) => void reported.push(key),
        gone: () => assert.fail('nothing is gone'),
        restored: (from, to) => void reported.push(`restored ${from} ${to}`),
        synced: () => undefined,
        heard: () => undefined,
        opened: () => undefined,
        failed: () => undefined,
        recovered: () => undefined,
      };
      return { resource: SERVICES, client, clock: new FakeClock(), sink, random: () => 0.5, pageSize: 500 };
    });
    const ended = followAll(kinds, abort.signal);
    t.after(async () => {
      abort.abort();
      await ended;
    });
    await until('both watches', () => first.watches === 1 && second.watches === 1);
    second.sendRaw(
      JSON.stringify({ type: 'BOOKMARK', object: { kind: 'Service', metadata: { resourceVersion: '900' } } }),
    );
    await until('both lists', () => reported.length === 6 && first.watches === 1 && second.watches === 1);
    const twice = (text: string) => [text, text];
    assert.deepEqual(reported.sort(), ['default/a', 'default/b', 'restored 1001 900'].flatMap(twice));
    assert.deepEqual(
      [first, second].map((server) => server.requests({ kind: 'list' }).length),
      [2, 2],
    );
  });

  test('is none where versions are of different lengths, or no numbers', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    for (const version of ['1002', '9999', '10000', 'x-1', '10001']) {
      server.sendRaw(
        JSON.stringify({ type: 'BOOKMARK', object: { kind: 'Service', metadata: { resourceVersion: version } } }),
      );
    }
    await aWhile();
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
  });
});

describe('abort', () => {
  test('ends a watch that is open', async (t) => {
    const server = await serverWith(t, 'a');
    const following = await watching(t, server);
    await following.stop();
    await until('the watch is closed', () => server.watches === 0);
    assert.deepEqual(following.reported, ['set default/a 1001', 'synced']);
  });

  test('ends a list that is not answered', async (t) => {
    let asked = 0;
    const url = await answering(t, () => {
      asked += 1;
    });
    const following = new Following(t, url);
    await until('the request', () => asked === 1);
    await following.stop();
    assert.deepEqual(following.reported, []);
  });

  test('ends a list whose answer has only begun', async (t) => {
    const following = new Following(
      t,
      await answering(t, (_, response) => {
        response.write('{"items":[');
      }),
    );
    await aWhile();
    await following.stop();
    assert.deepEqual(following.reported, []);
  });

  test('ends the wait after a failure', async (t) => {
    const server = await serverWith(t);
    server.failNext(1, 500);
    const following = new Following(t, server.url);
    await until('the wait', () => following.clock.pending === 1);
    await following.stop();
    assert.equal(following.clock.pending, 0);
  });
});

describe('backoff', () => {
  test('spreads by half to one and a half, so that the nodes of a cluster do not come back together', () => {
    assert.deepEqual([backoff(1, 0), backoff(1, 0.5), backoff(1, 1)], [400, 800, 1200]);
    assert.deepEqual([backoff(100, 0), backoff(100, 1)], [15_000, 45_000]);
  });

  test('is finite and never nothing, however many failures there were', () => {
    for (const failures of [1, 2, 16, 17, 1000, 1e9]) {
      const wait = backoff(failures, 0);
      assert.ok(wait >= 400 && wait <= 45_000, `${failures}: ${wait}`);
    }
  });

  test('is never shorter than the server’s Retry-After, nor than the client’s own wait', () => {
    assert.equal(backoff(1, 0, 60_000), 60_000);
    assert.equal(backoff(8, 0.5, 1000), 30_000);
  });
});
