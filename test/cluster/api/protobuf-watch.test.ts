/** Watches in protobuf say the same as watches in JSON; frames come in any pieces. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { describe, type TestContext } from 'node:test';
import fc from 'fast-check';
import { SERVICES } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice, SLICES } from '../../../src/cluster/api/decode/slice.ts';
import { BrokenStream, framesOf } from '../../../src/cluster/api/framing.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import type { Resource } from '../../../src/cluster/api/reflector.ts';
import { until } from '../../helpers/base/until.ts';
import { statusBody } from '../../helpers/cluster/api/api-answers.ts';
import { unreadableFrame } from '../../helpers/cluster/api/api-forms.ts';
import { eventFrame } from '../../helpers/cluster/api/api-protobuf.ts';
import { ApiServer, type ApiServerOptions } from '../../helpers/cluster/api/api-server.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { Following } from '../source/kubernetes-follow.ts';

function recorded(file: string): { readonly body: string; readonly headers: Readonly<Record<string, string>> } {
  return JSON.parse(readFileSync(new URL(`../../data/apiserver/protobuf/${file}.json`, import.meta.url), 'utf8'));
}

interface Told {
  readonly type: string;
  readonly object: { readonly metadata: { readonly namespace?: string; readonly name?: string } };
}

/** What follows from an event. */
function meaning({ type, object }: Told): unknown {
  const { namespace = '', name = '', ...metadata } = { resourceVersion: '', ...object.metadata };
  const known = { type, namespace, name, version: metadata.resourceVersion };
  return type === 'BOOKMARK' ? known : { ...known, event: decodeSlice(object, `${namespace}/${name}`) };
}

async function* inPieces(bytes: Buffer, ends: readonly number[]): AsyncGenerator<Buffer> {
  const all = [...new Set([...ends, bytes.length])].sort((a, b) => a - b);
  for (const [i, end] of all.entries()) yield bytes.subarray(all[i - 1] ?? 0, end);
}

/** Frames with these contents. */
function framed(...contents: readonly Buffer[]): Buffer {
  return Buffer.concat(
    contents.flatMap((content) => {
      const head = Buffer.alloc(4);
      head.writeUInt32BE(content.length);
      return [head, content];
    }),
  );
}

const WATCHED: Resource = { path: '/api/v1/services', protobuf: SERVICES };

function web(name: string, more: object = {}): object {
  return service({ name, spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }], ...more } });
}

async function serverWith(t: TestContext, names: readonly string[], options: ApiServerOptions = {}) {
  const server = await ApiServer.start(options);
  t.after(() => server.stop());
  for (const name of names) server.put(web(name));
  return server;
}

async function watching(t: TestContext, server: ApiServer): Promise<Following> {
  const following = new Following(t, server.url, { resource: WATCHED });
  await until('the watch', () => server.watches > 0);
  return following;
}

/** What the watches asked for, in order. */
function accepts(server: ApiServer): string[] {
  return server.requests({ kind: 'watch' }).map(({ headers }) => headers.accept?.split(/[;,]/)[0] ?? '');
}

const PROTOBUF = 'application/vnd.kubernetes.protobuf';

describe('frames', () => {
  test('of a real API server say what it says in JSON', async () => {
    const { body, headers } = recorded('watch-endpointslices');
    assert.equal(headers['content-type'], `${PROTOBUF};stream=watch`);
    const bytes = Buffer.from(body, 'base64');
    const frames = await Array.fromAsync(framesOf(inPieces(bytes, [1, 5, 700, 9000])));
    const events = frames.map((frame) => SLICES.event(frame) as Told);
    const lines = recorded('watch-endpointslices.as-json').body.split('\n').slice(0, -1);
    assert.equal(events.length, 15);
    assert.deepEqual(
      events.map(meaning),
      lines.map((line) => meaning(JSON.parse(line))),
    );
  });

  test('are whole wherever they are split', async () => {
    const contents = [Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(300, 7), Buffer.from('four')];
    const bytes = framed(...contents);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (ends) => {
        assert.deepEqual(await Array.fromAsync(framesOf(inPieces(bytes, ends))), contents);
      }),
    );
  });

  test('that are too long, or cut off, end the watch', async () => {
    const read = (bytes: Buffer) => Array.fromAsync(framesOf(inPieces(bytes, [2]), 10));
    assert.deepEqual(await read(framed(Buffer.alloc(10))), [Buffer.alloc(10)]);
    await assert.rejects(read(framed(Buffer.alloc(11))), /sent an event of more than 10 bytes/);
    // The length alone is enough: nobody waits for 4 GB.
    await assert.rejects(read(Buffer.from('ffffffff', 'hex')), BrokenStream);
    for (const length of [1, 4, 8])
      await assert.rejects(read(framed(Buffer.alloc(6)).subarray(0, length)), /was cut off in the middle of an event/);
  });
});

describe('an event in protobuf', () => {
  const object = { ...slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.1'] }), apiVersion: 'v1' };
  const frame = eventFrame('ADDED', object as never).subarray(4);

  test('that breaks off, or has an object of another kind, is refused', () => {
    for (let length = 0; length < frame.length - 4; length++)
      assert.throws(() => SLICES.event(frame.subarray(0, length)), ProtobufUnreadable, String(length));
    assert.throws(() => SERVICES.event(frame), /it is EndpointSlice, not Service/);
  });

  test('of the type ERROR has a Status', () => {
    const status = statusBody(410, { message: 'too old' });
    const event = SLICES.event(eventFrame('ERROR', status as never).subarray(4));
    const { message, code } = event.object as { message?: string; code?: number };
    assert.deepEqual([event.type, message, code], ['ERROR', 'too old', 410]);
  });
});

describe('a watch in protobuf', () => {
  test('tells of objects that come, change and go, and of bookmarks', async (t) => {
    const server = await serverWith(t, ['a']);
    const following = await watching(t, server);
    server.put(web('b'));
    server.put(web('b', { clusterIP: '10.96.0.9' }));
    server.delete('Service', 'default/a');
    await following.hears('gone default/a');
    assert.deepEqual(following.take(), [
      'set default/a 1001',
      'synced',
      'set default/b 1002',
      'set default/b 1003',
      'gone default/a',
    ]);
    assert.equal((following.objects.get('default/b') as { spec: { clusterIP: string } }).spec.clusterIP, '10.96.0.9');
    server.touch();
    server.bookmark();
    server.closeWatches();
    await until('the next watch', () => server.requests({ kind: 'watch' }).length === 2);
    // The bookmark moved the version.
    assert.equal(server.requests({ kind: 'watch' })[1]?.query.resourceVersion, '1005');
    assert.deepEqual(accepts(server), [PROTOBUF, PROTOBUF]);
  });

  test('whose version is too old leads to a new list', async (t) => {
    const server = await serverWith(t, ['a']);
    const following = await watching(t, server);
    server.compact();
    server.cutConnections();
    await following.hears('failed 1');
    server.put(web('b'));
    server.compact();
    await following.nextAttempt();
    await following.hears('set default/b 1003');
    assert.deepEqual(following.errors.length, 1);
    await until('the watch', () => server.watches === 1);
    assert.ok(accepts(server).every((type) => type === PROTOBUF));
  });

  test('with an event that cannot be read is asked for as JSON from then on; nothing is missed', async (t) => {
    const server = await serverWith(t, ['a']);
    const following = await watching(t, server);
    server.put(web('b'));
    server.sendRaw(unreadableFrame());
    await following.hears('failed 1');
    assert.match(
      following.errors[0] ?? '',
      /^\/api\/v1\/services: the protobuf answer cannot be read: .*; requesting JSON from now on$/,
    );
    server.put(web('c'));
    await following.nextAttempt();
    await following.hears('set default/c 1003');
    assert.deepEqual(accepts(server), [PROTOBUF, 'application/json']);
    assert.equal(server.requests({ kind: 'list' }).length, 1);
  });

  test('that breaks off in the middle of an event goes on from the last one, in protobuf', async (t) => {
    const server = await serverWith(t, ['a']);
    const following = await watching(t, server);
    server.put(web('b'));
    server.sendRaw(Buffer.from('000000ff0a', 'hex'));
    await following.hears('set default/b 1002');
    server.closeWatches();
    await following.hears('failed 1');
    assert.match(following.errors[0] ?? '', /the watch of \/api\/v1\/services was cut off in the middle of an event/);
    await following.nextAttempt();
    await until('the next watch', () => server.watches === 1);
    assert.equal(server.requests({ kind: 'watch' })[1]?.query.resourceVersion, '1002');
    assert.deepEqual(accepts(server), [PROTOBUF, PROTOBUF]);
  });

  test('is read as JSON where the server has JSON alone', async (t) => {
    const server = await serverWith(t, ['a'], { hasProtobuf: false });
    const following = await watching(t, server);
    server.put(web('b'));
    await following.hears('set default/b 1002');
    assert.deepEqual(following.errors, []);
    assert.deepEqual(accepts(server), [PROTOBUF]);
  });
});

describe('managedFields', () => {
  const managedFields = [{ manager: 'helm', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1' }];
  const managed = (name: string, port: number) => {
    const object = web(name, { ports: [{ port }] }) as { metadata: object };
    return { ...object, metadata: { ...object.metadata, managedFields } };
  };

  for (const protobuf of [undefined, SERVICES])
    for (const knowsDrop of [true, false])
      test(`are ${knowsDrop ? 'left out by a server that can' : 'skipped'}, in ${protobuf ? 'protobuf' : 'JSON'}`, async (t) => {
        const server = await serverWith(t, [], { knowsDrop });
        server.put(managed('a', 80));
        const resource: Resource = { path: WATCHED.path, ...(protobuf ? { protobuf } : {}) };
        const following = new Following(t, server.url, { resource });
        await until('the watch', () => server.watches === 1);
        server.put(managed('a', 81));
        await following.hears('set default/a 1002');
        const { metadata } = following.objects.get('default/a') as { metadata: object };
        assert.equal('managedFields' in metadata, !protobuf && !knowsDrop);
        for (const { headers } of server.requests()) {
          const [first = ''] = headers.accept?.split(',') ?? [];
          assert.ok(first.split(';').includes('drop=metadata.managedFields'), first);
        }
      });
});
