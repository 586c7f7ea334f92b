/** Events: what is written, how often, and that they are never in the way. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { type ClusterEvent, EventRecorder } from '../../../src/cluster/api/event-recorder.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';

const event = (note: string, name = 'web'): ClusterEvent => ({
  type: 'Warning',
  reason: 'SetAside',
  action: 'Sync',
  note,
  regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name },
});

async function start(t: TestContext) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const clock = new FakeClock();
  const failures: string[] = [];
  const abort = new AbortController();
  t.after(() => abort.abort());
  const recorder = new EventRecorder({
    cluster: { kubeconfig: await server.kubeconfig(), master: undefined },
    userAgent: 'test',
    reporter: { controller: 'slicewire', instance: 'slicewire-node-a' },
    clock,
    signal: abort.signal,
    onFailure: ({ message }) => failures.push(message),
  });
  return { server, clock, failures, recorder };
}

describe('events', () => {
  test('are what events.k8s.io/v1 asks for, in the namespace of the object', async (t) => {
    const { server, recorder } = await start(t);
    recorder.emit(event('x'.repeat(3000)));
    await until('the event', () => server.events.length === 1);
    const { metadata, note, ...rest } = server.events[0] as unknown as Record<string, unknown>;
    assert.deepEqual(rest, {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      eventTime: '2026-11-21T00:00:00.000000Z',
      reportingController: 'slicewire',
      reportingInstance: 'slicewire-node-a',
      type: 'Warning',
      reason: 'SetAside',
      action: 'Sync',
      regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web' },
    });
    assert.equal(String(note).length, 1024);
    assert.equal((metadata as { namespace: string }).namespace, 'shop');
    assert.match((metadata as { name: string }).name, /^web\.[0-9a-f]+$/);
    assert.match(
      server.requests({ kind: 'other' })[0]?.path ?? '',
      /^\/apis\/events.k8s.io\/v1\/namespaces\/shop\/events$/,
    );
  });

  test('are not repeated for ten minutes', async (t) => {
    const { server, clock, recorder } = await start(t);
    recorder.emit(event('a'));
    recorder.emit(event('a'));
    recorder.emit(event('b'));
    await until('two', () => server.events.length === 2);
    await aWhile();
    assert.equal(server.events.length, 2);
    clock.advance(10 * 60 * 1000);
    recorder.emit(event('a'));
    await until('the third', () => server.events.length === 3);
  });

  test('are 25 at once, then one each 12 s; of more than a hundred that wait the rest is dropped', async (t) => {
    const { server, clock, recorder } = await start(t);
    for (let i = 0; i < 300; i++) recorder.emit(event(`${i}`));
    await until('the first', () => server.events.length === 25);
    await aWhile();
    assert.equal(server.events.length, 25);
    for (let more = 1; more <= 3; more++) {
      clock.advance(12_000);
      await until('one more', () => server.events.length >= 25 + more);
      await aWhile();
      assert.equal(server.events.length, 25 + more, 'one, and no second with it');
    }
    for (let i = 0; i < 200; i++) {
      clock.advance(12_000);
      await new Promise((resolve) => setImmediate(resolve));
      if (i % 20 === 0) await aWhile();
    }
    await aWhile();
    assert.ok(server.events.length <= 102, `${server.events.length}`);
  });

  test('that cannot be written are reported once, and delay nothing else', async (t) => {
    const { server, failures, recorder } = await start(t);
    server.failNext(2, 403);
    for (const note of ['a', 'b', 'c']) recorder.emit(event(note));
    await until('the one that can', () => server.events.length === 1);
    assert.equal(failures.length, 1);
    assert.match(failures[0] ?? '', /403/);
  });

  test('of a namespace that is being deleted, or is gone, are no failure; others in between are', async (t) => {
    const { server, failures, recorder } = await start(t);
    server.leaving.add('shop');
    recorder.emit(event('a'));
    const tries = () => server.requests({ kind: 'other' }).length;
    await until('a try', () => tries() === 1);
    server.leaving.clear();
    server.gone.add('shop');
    recorder.emit(event('b'));
    await until('another try', () => tries() === 2);
    server.gone.clear();
    recorder.emit(event('c'));
    await until('one that is written', () => server.events.length === 1);
    assert.deepEqual(failures, []);
    server.failNext(1, 404);
    recorder.emit(event('d'));
    await until('a failure', () => failures.length === 1);
  });
});
