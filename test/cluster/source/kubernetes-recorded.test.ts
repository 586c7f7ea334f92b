/** What the source does with each recorded answer of a real kube-apiserver (1.32). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { type TestContext } from 'node:test';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';
import { Following } from './kubernetes-follow.ts';

interface Recording {
  readonly request: { readonly method: string; readonly path: string };
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const FOLDER = new URL('../../data/apiserver/', import.meta.url);
const replayed = new Set<string>();

function recording(name: string): Recording {
  replayed.add(`${name}.json`);
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'));
}

/** The recorded list without the mark that more follows: a whole list. */
function asLastPage(page: Recording): Recording {
  const list = JSON.parse(page.body);
  const { continue: _, remainingItemCount: __, ...metadata } = list.metadata;
  return { ...page, body: JSON.stringify({ ...list, metadata }) };
}

interface Replay {
  readonly url: string;
  /** Path and query of each request, decoded. */
  readonly asked: string[];
}

/** Answer one request after the other; what comes after the last is a watch that stays open. `beforeAnswer` sees their numbers. */
async function replay(t: TestContext, answers: Recording[], beforeAnswer?: (n: number) => void): Promise<Replay> {
  const asked: string[] = [];
  const server = http.createServer((request, response) => {
    asked.push(decodeURIComponent((request.url ?? '').replaceAll('+', ' ')));
    const answer = answers[asked.length - 1];
    beforeAnswer?.(asked.length);
    response.writeHead(answer?.status ?? 200, answer?.headers);
    if (answer) response.end(answer.body);
    else response.flushHeaders();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const SERVICES = { path: '/api/v1/namespaces/golden/services' };
const SLICES = {
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  labelSelector: 'kubernetes.io/service-name in (web,topo)',
};

function watchFrom(asked: string | undefined): string | null {
  const query = new URLSearchParams(asked?.split('?')[1]);
  return query.get('watch') === '1' ? query.get('resourceVersion') : null;
}

test('two recorded pages become one list, asked for as they were recorded', async (t) => {
  const [first, second] = [recording('list-services-page1'), recording('list-services-page2')];
  const server = await replay(t, [first, second, asLastPage(second)]);
  const following = new Following(t, server.url, { resource: SERVICES, pageSize: 3 });
  await until('the watch', () => server.asked.length === 4);
  assert.deepEqual(server.asked.slice(0, 2), [first.request.path, second.request.path]);
  assert.deepEqual(following.reported, [
    'set golden/big 3455',
    'set golden/close 3448',
    'set golden/empty 3453',
    'set golden/head 3423',
    'set golden/headnoports 3424',
    'set golden/multi 3416',
    'synced',
  ]);
  assert.equal(watchFrom(server.asked[3]), '3952');
});

test('the recorded Services decode without a fault, headless ones to nothing', async (t) => {
  const [first, second] = [recording('list-services-page1'), recording('list-services-page2')];
  const server = await replay(t, [first, asLastPage(second)]);
  const following = new Following(t, server.url, { resource: SERVICES, pageSize: 3 });
  await following.hears('synced');
  const decoded = [...following.objects].map(([key, object]) => decodeService(object, key));
  assert.ok(decoded.every((event) => event.kind === 'service' && event.faults.length === 0));
  const used = decoded.flatMap((event) => (event.kind === 'service' && event.service ? [event.service] : []));
  assert.deepEqual(
    used.map(({ key, clusterIPs }) => `${key} ${clusterIPs}`),
    [
      'golden/big 10.96.201.25',
      'golden/close 10.100.32.190',
      'golden/empty 10.103.153.18',
      'golden/multi 10.97.81.118',
    ],
  );
  assert.deepEqual(used.at(-1)?.ports, [
    { name: 'a', protocol: 'TCP', port: 80, nodePort: 0 },
    { name: 'b', protocol: 'UDP', port: 90, nodePort: 0 },
  ]);
});

test('a page token that expired leads to a full list at once, in one piece, which reports objects that are gone', async (t) => {
  const [first, second] = [recording('list-services-page1'), recording('list-services-page2')];
  const server = await replay(t, [first, recording('list-continue-expired'), asLastPage(second)]);
  const following = new Following(t, server.url, { resource: SERVICES, pageSize: 3 });
  await until('the watch', () => server.asked.length === 4);
  assert.equal(server.asked[2], SERVICES.path);
  assert.deepEqual(following.reported.slice(3), [
    'set golden/head 3423',
    'set golden/headnoports 3424',
    'set golden/multi 3416',
    'gone golden/big',
    'gone golden/close',
    'gone golden/empty',
    'synced',
  ]);
  assert.equal(watchFrom(server.asked[3]), '3952');
});

test('a page token that is refused is a failure: reported, waited for, and the list is read from its start', async (t) => {
  const first = recording('list-services-page1');
  const server = await replay(t, [first, recording('list-continue-invalid'), asLastPage(first)]);
  const following = new Following(t, server.url, { resource: SERVICES, pageSize: 3 });
  assert.equal(await following.nextAttempt(), 800);
  await following.hears('synced');
  assert.deepEqual(following.reported.slice(3), ['failed 1', 'recovered 1', 'synced']);
  assert.match(following.errors[0] ?? '', /400 invalid continue token: continue key is not valid/);
  assert.equal(server.asked[2], `${SERVICES.path}?limit=3`);
});

for (const [name, reason] of [
  ['invalid-selector', /400 unable to parse requirement: found ''/],
  ['unauthorized', /401 Unauthorized/],
  ['not-found', /404 endpointslices\.discovery\.k8s\.io "nope" not found/],
] as const) {
  test(`${name}: a refused list is reported with the server's words, and retried later and later`, async (t) => {
    const refusal = recording(name);
    const server = await replay(t, [refusal, refusal, asLastPage(recording('list-services-page1'))]);
    const following = new Following(t, server.url, { resource: SERVICES });
    assert.deepEqual([await following.nextAttempt(), await following.nextAttempt()], [800, 1600]);
    await following.hears('synced');
    assert.deepEqual(following.reported.slice(0, 2), ['failed 1', 'failed 2']);
    for (const error of following.errors) assert.match(error, reason);
  });

  test(`${name}: a watch that is refused goes on from the same version, without a list`, async (t) => {
    const server = await replay(t, [asLastPage(recording('list-services-page1')), recording(name)]);
    const following = new Following(t, server.url, { resource: SERVICES });
    await following.hears('failed 1');
    assert.match(following.errors[0] ?? '', reason);
    await following.nextAttempt();
    await until('the second watch', () => server.asked.length === 3);
    assert.deepEqual(server.asked.slice(1).map(watchFrom), ['3952', '3952']);
  });
}

test('the recorded slices are listed and decode without a fault', async (t) => {
  const list = recording('list-endpointslices');
  const server = await replay(t, [list]);
  const following = new Following(t, server.url, { resource: SLICES });
  await until('the watch', () => server.asked.length === 2);
  assert.deepEqual(following.reported, ['set golden/topo-427xm 3934', 'set golden/web-wkqnr 3937', 'synced']);
  assert.equal(watchFrom(server.asked[1]), '3942');
  const [topo, web] = [...following.objects].map(([key, object]) => decodeSlice(object, key));
  assert.ok(topo?.kind === 'slice' && web?.kind === 'slice');
  assert.deepEqual([topo.faults, web.faults], [[], []]);
  assert.equal(topo.slice?.service, 'golden/topo');
  assert.deepEqual(topo.slice?.endpoints[0], {
    address: '10.244.3.10',
    ready: true,
    serving: true,
    terminating: false,
    nodeName: 'node-a',
    zoneHints: ['zone-1'],
    nodeHints: [],
  });
});

test('recorded events: an endpoint turns unready, leaves, and the slice goes; the next watch starts at the bookmark', async (t) => {
  const list = recording('list-endpointslices');
  const server = await replay(t, [list, recording('watch-events-and-bookmark')]);
  const following = new Following(t, server.url, { resource: SLICES });
  await until('the second watch', () => server.asked.length === 3);
  assert.deepEqual(following.reported.slice(3), [
    'set golden/close-wl8sw 3980',
    'set golden/close-wl8sw 3987',
    'set golden/close-wl8sw 3990',
    'gone golden/close-wl8sw',
  ]);
  assert.deepEqual(server.asked.slice(1).map(watchFrom), ['3942', '3998']);
});

test('the slices of the recorded events decode to what was happening', () => {
  const lines = recording('watch-events-and-bookmark').body.split('\n').slice(0, 4);
  const counts = lines.map((line) => {
    const event = decodeSlice(JSON.parse(line).object, 'golden/close-wl8sw');
    assert.ok(event.kind === 'slice' && event.faults.length === 0);
    const endpoints = event.slice?.endpoints ?? [];
    return [endpoints.length, endpoints.filter(({ ready }) => ready).length];
  });
  assert.deepEqual(counts, [
    [9, 8],
    [9, 7],
    [8, 7],
    [8, 7],
  ]);
});

test('a version that is too old leads to a new list at once, which reports only objects that differ', async (t) => {
  const list = recording('list-endpointslices');
  const server = await replay(t, [list, recording('watch-too-old'), list]);
  const following = new Following(t, server.url, { resource: SLICES });
  await until('the second watch', () => server.asked.length === 4);
  assert.deepEqual(
    following.reported.filter((text) => /^(set|gone|synced|failed)/.test(text)),
    ['set golden/topo-427xm 3934', 'set golden/web-wkqnr 3937', 'synced'],
  );
  assert.equal(watchFrom(server.asked[2]), null);
  assert.deepEqual(following.clock.waits, []);
});

for (const name of ['server-timeout-watch', 'watch-future-rv']) {
  test(`${name}: a watch that the server ends after its time is no error, and the next goes on from the same version`, async (t) => {
    const clock = new FakeClock();
    const answers = [recording('list-endpointslices'), recording(name), recording(name)];
    const server = await replay(t, answers, (n) => n > 1 && clock.advance(1000));
    const following = new Following(t, server.url, { resource: SLICES, clock });
    await until('the third watch', () => server.asked.length === 4);
    assert.deepEqual(server.asked.slice(1).map(watchFrom), ['3942', '3942', '3942']);
    assert.deepEqual(following.reported.slice(2), ['synced']);
    assert.deepEqual(clock.waits, []);
  });
}

test('an ERROR 500 as first event is a failure: reported, waited for, and watched again from the same version', async (t) => {
  const server = await replay(t, [recording('list-endpointslices'), recording('watch-sendInitialEvents')]);
  const following = new Following(t, server.url, { resource: SLICES });
  assert.equal(await following.nextAttempt(), 800);
  await until('the second watch', () => server.asked.length === 3);
  assert.deepEqual(following.reported.slice(2), ['synced', 'failed 1']);
  assert.match(following.errors[0] ?? '', /RequestWatchProgress is disabled/);
  assert.deepEqual(server.asked.slice(1).map(watchFrom), ['3942', '3942']);
});

test('a list is never asked for as a stream: servers before 1.34 refuse that', async (t) => {
  const server = await replay(t, [recording('list-endpointslices')]);
  new Following(t, server.url, { resource: SLICES });
  await until('the watch', () => server.asked.length === 2);
  for (const asked of server.asked) assert.doesNotMatch(asked, /sendInitialEvents/);
});

test('every recording is replayed', () => {
  // Those in protobuf are in a folder of their own (test/cluster/api/protobuf.test.ts).
  const recordings = readdirSync(FOLDER).filter((file) => file.endsWith('.json'));
  assert.deepEqual([...replayed].sort(), recordings.sort());
});
