/** Every recorded answer in protobuf says what its twin in JSON says, and the recorded streaming lists of 1.36 are followed. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, type TestContext, test } from 'node:test';
import { readStatus } from '../../../src/cluster/api/client.ts';
import { decodeNode } from '../../../src/cluster/api/decode/node.ts';
import { decodeService, SERVICES } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice, SLICES } from '../../../src/cluster/api/decode/slice.ts';
import { BrokenStream, framesOf } from '../../../src/cluster/api/framing.ts';
import { endsInitialEvents } from '../../../src/cluster/api/intake.ts';
import type { Resource } from '../../../src/cluster/api/reflector.ts';
import { until } from '../../helpers/base/until.ts';
import { bytesOf, type Recording, recording, recordingsIn } from '../../helpers/cluster/api/recordings.ts';
import { Following } from '../source/kubernetes-follow.ts';

const FOLDERS = ['protobuf/', '1.36/'];
const used = new Set<string>();

function use(name: string): Recording {
  used.add(name);
  return recording(name);
}

const KINDS = {
  services: { reader: SERVICES, decode: decodeService },
  endpointslices: { reader: SLICES, decode: decodeSlice },
} as const;

interface Told {
  readonly metadata: { readonly namespace?: string; readonly name?: string; readonly resourceVersion?: string };
}

/** What follows from an object: what the reflector and the decoder take of it. */
function meaning(kind: keyof typeof KINDS, object: unknown): unknown {
  const { namespace = '', name = '', resourceVersion } = (object as Told).metadata;
  const { decode } = KINDS[kind];
  return { namespace, name, resourceVersion, decoded: decode(object, `${namespace}/${name}`) };
}

/** The frames of some bytes that come in these pieces. */
async function frames(...pieces: readonly Buffer[]): Promise<Buffer[]> {
  return await Array.fromAsync(framesOf(arriving(pieces)));
}

async function* arriving(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

describe('a recorded list in protobuf is its twin in JSON, object by object:', () => {
  for (const [name, kind] of [
    ['protobuf/list-services', 'services'],
    ['protobuf/list-services-page1', 'services'],
    ['protobuf/list-endpointslices', 'endpointslices'],
    ['1.36/list-services', 'services'],
    ['1.36/list-endpointslices', 'endpointslices'],
  ] as const)
    test(name, () => {
      const { metadata, items } = KINDS[kind].reader.list(bytesOf(use(name)));
      const twin = JSON.parse(use(`${name}.as-json`).body);
      // Others write at the same time, but for a page of one moment.
      assert.equal((metadata.continue ?? '') === '', (twin.metadata.continue ?? '') === '');
      assert.match(metadata.resourceVersion ?? '', /^\d+$/);
      const wanted = twin.items.map((item: unknown) => meaning(kind, item));
      assert.ok(wanted.length > 0);
      assert.deepEqual(
        [...items].map((item) => meaning(kind, item)),
        wanted,
      );
    });

  test('protobuf/list-nodes, which no reader of another kind takes; Nodes are read as JSON', () => {
    assert.throws(() => SERVICES.list(bytesOf(use('protobuf/list-nodes'))), /it is NodeList, not ServiceList/);
    const nodes = JSON.parse(use('protobuf/list-nodes.as-json').body).items as Told[];
    assert.ok(nodes.length > 1);
    for (const node of nodes) {
      const event = decodeNode(node, node.metadata.name ?? '');
      assert.ok(event.kind === 'node' && event.faults.length === 0 && (event.node?.addresses.length ?? 0) > 0);
    }
  });
});

describe('a recorded watch in protobuf', () => {
  for (const [name, kind, count] of [
    ['protobuf/watch-endpointslices', 'endpointslices', 15],
    ['1.36/stream-services', 'services', 7],
    ['1.36/stream-endpointslices', 'endpointslices', 4],
  ] as const) {
    test(`${name} is its twin in JSON, event by event, with its bookmarks`, async () => {
      const read = (await frames(bytesOf(use(name)))).map((frame) => KINDS[kind].reader.event(frame));
      const lines = use(`${name}.as-json`).body.trimEnd().split('\n');
      const told = (event: { readonly type?: unknown; readonly object?: unknown }) => {
        const isBookmark = event.type === 'BOOKMARK';
        const { resourceVersion } = (event.object as Told).metadata;
        const what = isBookmark
          ? { resourceVersion, ends: endsInitialEvents(event.object) }
          : meaning(kind, event.object);
        return { type: event.type, what };
      };
      assert.equal(read.length, count);
      assert.deepEqual(
        read.map(told),
        lines.map((line) => told(JSON.parse(line))),
      );
    });

    test(`${name} is whole wherever it is split, and cut off wherever it ends within an event`, async () => {
      const bytes = bytesOf(use(name));
      const whole = await frames(bytes);
      assert.ok(whole.length > 0, name);
      let end = 0;
      const ends = new Set([0, ...whole.map(({ length }) => (end += length + 4))]);
      for (let at = 1; at < bytes.length; at++) {
        const [before, behind] = [bytes.subarray(0, at), bytes.subarray(at)];
        assert.deepEqual(await frames(before, behind), whole, `split at ${at}`);
        if (ends.has(at)) assert.ok((await frames(before)).length < whole.length);
        else await assert.rejects(frames(before), BrokenStream, `cut off at ${at}`);
      }
    });
  }
});

test('a recorded Status in protobuf has the message and the reasons of its twin', () => {
  const [protobuf, json] = [use('1.36/protobuf-stream-refused'), use('1.36/stream-refused')];
  const read = readStatus(bytesOf(protobuf), true);
  assert.deepEqual(read, readStatus(bytesOf(json), false));
  assert.deepEqual([protobuf.status, json.status, read.reasons], [422, 422, ['Invalid', 'FieldValueForbidden']]);
  assert.match(read.message ?? '', /forbidden for watch unless the WatchList feature gate is enabled/);
  const { message, reasons } = readStatus(bytesOf(use('protobuf/not-found')), true);
  assert.deepEqual([message, reasons], ['services "nothing" not found', ['NotFound']]);
});

/** Answers one request after the other with these; what comes after the last is a watch that stays open. */
async function replaying(t: TestContext, answers: readonly Recording[]): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = http.createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://server');
    const isStream = searchParams.get('sendInitialEvents') === 'true';
    asked.push(
      isStream ? 'stream' : searchParams.has('watch') ? `watch ${searchParams.get('resourceVersion')}` : 'list',
    );
    const answer = answers[asked.length - 1];
    response.writeHead(answer?.status ?? 200, answer?.headers);
    if (answer) response.end(bytesOf(answer));
    else response.flushHeaders();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

describe('kube-apiserver 1.36, with streaming lists wanted,', () => {
  const resource: Resource = { path: '/api/v1/namespaces/recorded/services', streams: true };

  for (const [form, name] of [
    ['JSON', '1.36/stream-services.as-json'],
    ['protobuf', '1.36/stream-services'],
  ] as const)
    test(`streams a list in ${form}: complete at its bookmark, then changes, and the next watch goes on`, async (t) => {
      const server = await replaying(t, [use(name)]);
      const protobuf = form === 'protobuf' ? { protobuf: SERVICES } : {};
      const following = new Following(t, server.url, { resource: { ...resource, ...protobuf } });
      await until('the next watch', () => server.asked.length === 2);
      const told = following.reported.map((text) => text.replace(/ \d+$/, ''));
      const set = (key: string) => `set recorded/${key}`;
      assert.deepEqual(told, [set('a'), set('b'), set('c'), 'synced', set('d'), 'gone recorded/b']);
      const last = JSON.parse(use('1.36/stream-services.as-json').body.trimEnd().split('\n').at(-1) ?? '');
      assert.deepEqual(server.asked, ['stream', `watch ${last.object.metadata.resourceVersion}`]);
    });

  for (const name of ['1.36/stream-refused', '1.36/protobuf-stream-refused', 'watch-sendInitialEvents'])
    test(`refuses as in ${name}: pages are asked for at once, and nothing is reported`, async (t) => {
      const server = await replaying(t, [recording(name), recording('1.36/list-services.as-json')]);
      const following = new Following(t, server.url, { resource: { ...resource, protobuf: SERVICES } });
      await until('the watch', () => server.asked.length === 3);
      assert.deepEqual(server.asked.slice(0, 2), ['stream', 'list']);
      assert.equal(following.reported.filter((text) => text.startsWith('set')).length, 3);
      assert.deepEqual([following.errors, following.reported.at(-1)], [[], 'synced']);
    });

  test('has no older version of ServiceCIDR: it is asked for both, then not for an hour', async (t) => {
    const absent = use('1.36/no-such-version');
    const server = await replaying(t, [absent, absent]);
    const paths = { path: '/apis/x/v1/servicecidrs', olderPath: '/apis/x/v1beta1/servicecidrs', mayLack: true };
    const following = new Following(t, server.url, { resource: paths });
    assert.equal(await following.nextAttempt(), 3_600_000);
    await until('it is asked again', () => server.asked.length === 3);
    assert.deepEqual(following.errors, []);
  });
});

after(() => {
  const recorded = FOLDERS.flatMap(recordingsIn);
  assert.deepEqual([...used].sort(), recorded.sort(), 'every recording in protobuf, and of 1.36, is used');
});
