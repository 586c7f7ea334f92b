/** The API server of the tests answers as the recorded one does. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { type TestContext } from 'node:test';
import { until } from '../../base/until.ts';
import { service, slice } from '../objects.ts';
import { ApiServer } from './api-server.ts';

interface Recording {
  readonly request: { readonly path: string };
  readonly status: number;
  readonly body: string;
}

function recording(name: string): Recording {
  return JSON.parse(readFileSync(new URL(`../../../data/apiserver/${name}.json`, import.meta.url), 'utf8'));
}

async function start(t: TestContext, token?: string): Promise<ApiServer> {
  const server = await ApiServer.start(token === undefined ? {} : { token });
  t.after(() => server.stop());
  return server;
}

async function ask(server: ApiServer, path: string): Promise<{ status: number; type: string | null; body: string }> {
  const answer = await fetch(server.url + path);
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.text() };
}

const SERVICES = '/api/v1/namespaces/golden/services';

/** A server with the Services of the recorded pages, and more behind them. */
async function withRecordedServices(t: TestContext): Promise<ApiServer> {
  const server = await start(t);
  const pages = ['list-services-page1', 'list-services-page2'].map((name) => JSON.parse(recording(name).body));
  for (const item of pages.flatMap(({ items }) => items)) server.put({ ...item, kind: 'Service' });
  for (const name of ['topo', 'udp', 'web', 'world']) {
    server.put(service({ name, namespace: 'golden', spec: { clusterIP: '10.96.0.1' } }));
  }
  return server;
}

test('lists in pages are those of a real API server', async (t) => {
  const server = await withRecordedServices(t);
  const first = JSON.parse((await ask(server, `${SERVICES}?limit=3`)).body);
  const wanted = JSON.parse(recording('list-services-page1').body);
  assert.deepEqual(Object.keys(first), Object.keys(wanted));
  assert.equal(first.metadata.remainingItemCount, 7);
  assert.deepEqual(
    first.items.map((item: object) => Object.keys(item)),
    wanted.items.map((item: object) => Object.keys(item)),
  );
  const token = (text: string) => ({ ...JSON.parse(Buffer.from(text, 'base64url').toString()), rv: 0 });
  assert.deepEqual(token(first.metadata.continue), token(wanted.metadata.continue));
  const second = JSON.parse((await ask(server, `${SERVICES}?limit=3&continue=${first.metadata.continue}`)).body);
  assert.deepEqual(
    second.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
    ['head', 'headnoports', 'multi'],
  );
  assert.equal(second.metadata.remainingItemCount, 4);
});

test('the pages of a list are of one moment', async (t) => {
  const server = await withRecordedServices(t);
  const first = JSON.parse((await ask(server, `${SERVICES}?limit=3`)).body);
  server.delete('Service', 'golden/head');
  server.put(service({ name: 'zzz', namespace: 'golden', spec: {} }));
  const rest = JSON.parse((await ask(server, `${SERVICES}?continue=${first.metadata.continue}`)).body);
  assert.equal(rest.metadata.resourceVersion, first.metadata.resourceVersion);
  assert.deepEqual(
    rest.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
    ['head', 'headnoports', 'multi', 'topo', 'udp', 'web', 'world'],
  );
});

test('a page token that was compacted away, and one that is none', async (t) => {
  const server = await withRecordedServices(t);
  const first = JSON.parse((await ask(server, `${SERVICES}?limit=3`)).body);
  server.compact();
  const expired = await ask(server, `${SERVICES}?limit=3&continue=${first.metadata.continue}`);
  const wanted = recording('list-continue-expired');
  assert.equal(expired.status, wanted.status);
  const { metadata, ...status } = JSON.parse(expired.body);
  const { metadata: _, ...wantedStatus } = JSON.parse(wanted.body);
  assert.deepEqual(status, wantedStatus);
  const onward = JSON.parse((await ask(server, `${SERVICES}?limit=3&continue=${metadata.continue}`)).body);
  assert.equal(onward.items[0].metadata.name, 'head');
  await sameAs(server, 'list-continue-invalid');
});

async function sameAs(server: ApiServer, name: string): Promise<void> {
  const { request, status, body } = recording(name);
  const answer = await ask(server, request.path);
  assert.deepEqual(
    { ...answer, body: JSON.parse(answer.body) },
    { status, type: 'application/json', body: JSON.parse(body) },
  );
}

test('errors are those of a real API server', async (t) => {
  const server = await start(t);
  await sameAs(server, 'invalid-selector');
  await sameAs(server, 'not-found');
  await sameAs(server, 'watch-sendInitialEvents');
  await sameAs(await start(t, 'secret'), 'unauthorized');
});

test('a watch from a version that is too old, and one that the server ends', async (t) => {
  const server = await start(t);
  server.compact();
  const answer = await ask(server, recording('watch-too-old').request.path);
  const wanted = recording('watch-too-old').body.replace('(3968)', `(${server.version})`);
  assert.deepEqual(answer, { status: 200, type: 'application/json', body: wanted });
  const future = await ask(server, recording('watch-future-rv').request.path.replace('=2', '=1'));
  assert.deepEqual(future, { status: 200, type: 'application/json', body: recording('watch-future-rv').body });
});

test('the events of a slice', async (t) => {
  const server = await start(t);
  const put = (...endpoints: string[]) =>
    server.put(slice({ name: 'close-1', service: 'close', namespace: 'golden', endpoints }));
  put('10.0.0.1', '10.0.0.2');
  const query = `watch=1&resourceVersion=${server.version}&allowWatchBookmarks=true&labelSelector=kubernetes.io/service-name in (close)`;
  const answer = ask(server, `/apis/discovery.k8s.io/v1/endpointslices?${query}`);
  await until('the watch', () => server.watches === 1);
  put('10.0.0.1');
  server.delete('EndpointSlice', 'golden/close-1');
  server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.3'] }));
  server.bookmark();
  server.closeWatches();
  const events = (await answer).body
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    events.map(({ type, object }) => `${type} ${object.metadata.resourceVersion}`),
    ['MODIFIED 1002', 'DELETED 1003', 'BOOKMARK 1004'],
  );
  const wanted = JSON.parse(recording('watch-events-and-bookmark').body.trimEnd().split('\n').at(-1) ?? '');
  wanted.object.metadata.resourceVersion = '1004';
  assert.deepEqual(events[2], wanted);
});
