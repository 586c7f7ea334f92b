/** One connection of HTTP/2 for all requests: how it is chosen, shared, asked whether it lives, and replaced. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import http2 from 'node:http2';
import type { RequestOptions } from 'node:https';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { describe, type TestContext } from 'node:test';
import { ApiError, apiClient, type OpenClient } from '../../../src/cluster/api/client.ts';
import { type ClusterConfig, loadCredentials } from '../../../src/cluster/api/credentials.ts';
import type { PingTimes } from '../../../src/cluster/api/http2.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { TcpRelay } from '../../helpers/cli/lab/tcp-relay.ts';
import { makeCertificate } from '../../helpers/cluster/api/api-certificate.ts';
import { ApiServer, type ApiServerOptions } from '../../helpers/cluster/api/api-server.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { Following } from '../source/kubernetes-follow.ts';

const NEVER = new AbortController().signal;
const SERVICES = '/api/v1/services';

async function start(t: TestContext, options: ApiServerOptions = { tls: true }): Promise<ApiServer> {
  const server = await ApiServer.start(options);
  t.after(() => server.stop());
  return server;
}

async function clientOf(t: TestContext, server: ApiServer, pings?: PingTimes): Promise<OpenClient> {
  const credentials = await loadCredentials(await configOf(server));
  const client = apiClient(credentials, { userAgent: 'slicewire/test', ...(pings ? { pings } : {}) });
  t.after(() => client.close());
  return client;
}

async function configOf(server: ApiServer): Promise<ClusterConfig> {
  return { kubeconfig: await server.kubeconfig(), master: undefined };
}

function web(name: string): object {
  return service({ name, spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } });
}

/** Begin a watch; it goes on until the signal aborts. */
function watch(
  client: OpenClient,
  signal: AbortSignal,
): { readonly events: unknown[]; readonly ended: Promise<unknown> } {
  const events: unknown[] = [];
  const run = async () => {
    for await (const event of client.watch(SERVICES, { watch: '1', resourceVersion: '1000' }, signal))
      events.push(event);
  };
  return { events, ended: run().then(() => 'the server ended it', String) };
}

describe('a server with HTTP/2', () => {
  test('is asked everything over one connection, watches too', async (t) => {
    const server = await start(t);
    const client = await clientOf(t, server);
    const stop = new AbortController();
    const watches = [1, 2, 3, 4].map(() => watch(client, stop.signal));
    await Promise.all([1, 2, 3, 4, 5].map(() => client.get(SERVICES, {}, NEVER)));
    await until('four watches', () => server.watches === 4);
    assert.equal(await server.connections(), 1);
    assert.deepEqual(new Set(server.requests().map(({ httpVersion }) => httpVersion)), new Set(['2.0']));
    server.put(web('a'));
    await until('the event on each', () => watches.every(({ events }) => events.length === 1));
    stop.abort(new Error('enough'));
    await Promise.all(watches.map(({ ended }) => ended));
    await until('the watches are closed', () => server.watches === 0);
    assert.deepEqual([await server.connections(), (await client.get(SERVICES, {}, NEVER)) !== undefined], [1, true]);
  });

  test('is asked for many large lists side by side', async (t) => {
    const server = await start(t);
    const endpoints = Array.from({ length: 100 }, (_, i) => `10.244.0.${i}`);
    for (let n = 0; n < 250; n++) server.put(slice({ name: `web-${n}`, service: 'web', endpoints }));
    const client = await clientOf(t, server);
    const path = '/apis/discovery.k8s.io/v1/endpointslices';
    const lists = await Promise.all([1, 2, 3, 4, 5, 6].map(() => client.get(path, {}, NEVER)));
    for (const list of lists) assert.equal((list as { items: unknown[] }).items.length, 250);
    assert.equal(await server.connections(), 1);
  });

  test('hears who asks, with a token and a body', async (t) => {
    const server = await start(t, { tls: true, token: 'secret' });
    const client = await clientOf(t, server);
    const path = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
    const body = { metadata: { name: 'web-1' }, addressType: 'IPv4', endpoints: [], ports: [] };
    await client.write({ method: 'POST', path, body }, NEVER);
    const headers = server.requests({ kind: 'write' })[0]?.headers ?? {};
    assert.deepEqual(
      [headers['user-agent'], headers['content-type'], headers.authorization],
      ['slicewire/test', 'application/json', 'Bearer secret'],
    );
    assert.equal(server.objects('EndpointSlice').length, 1);
  });

  test('refuses with the words of its Status', async (t) => {
    const client = await clientOf(t, await start(t));
    const wrong = client.get('/api/v1/services/nowhere', {}, NEVER);
    await assert.rejects(wrong, (error) => error instanceof ApiError && error.status === 404);
  });

  test('that cuts the connection fails what was under way; the next request has another connection', async (t) => {
    const server = await start(t);
    const client = await clientOf(t, server);
    const watched = watch(client, NEVER);
    await until('the watch', () => server.watches === 1);
    server.cutConnections();
    assert.match(String(await watched.ended), /connection lost: ./);
    await client.get(SERVICES, {}, NEVER);
    assert.equal(await server.connections(), 1);
  });

  test('is reached again by all who wait, over one new connection', async (t) => {
    const server = await start(t);
    const client = await clientOf(t, server);
    await client.get(SERVICES, {}, NEVER);
    server.cutConnections();
    await until('the connection is gone', async () => (await server.connections()) === 0);
    await aWhile();
    await Promise.all([1, 2, 3, 4].map(() => client.get(SERVICES, {}, NEVER)));
    assert.equal(await server.connections(), 1);
  });
});

describe('a server that is not there, or not who it should be', () => {
  test('is named with the reason', async (t) => {
    const server = await ApiServer.start({ tls: true });
    const client = await clientOf(t, server);
    await server.stop();
    await assert.rejects(client.get(SERVICES, {}, NEVER), (error) => {
      assert.ok(error instanceof ApiError);
      assert.match(error.message, /^https:\/\/127\.0\.0\.1:\d+ cannot be reached: .*ECONNREFUSED/);
      return error.lack === 'unreachable';
    });
  });

  test('whose certificate is another is not talked to', async (t) => {
    const server = await start(t, { tls: true, token: 'secret' });
    const other = await start(t);
    const credentials = await loadCredentials(await configOf(other));
    const { port } = new URL(server.url);
    const client = apiClient({ ...credentials, server: `https://127.0.0.1:${port}` }, { userAgent: 'test' });
    await assert.rejects(
      client.get(SERVICES, {}, NEVER),
      /cannot be reached: its certificate .*\(DEPTH_ZERO_SELF_SIGNED_CERT\)$/,
    );
    assert.deepEqual(server.requests(), []);
  });
});

describe('who stops while credentials are read', () => {
  test('hears the reason, and a connection that fails then is nobody else’s failure', async (t) => {
    const gone = net.createServer().listen(0, '127.0.0.1');
    await once(gone, 'listening');
    const { port } = gone.address() as AddressInfo;
    gone.close();
    await once(gone, 'close');
    const stop = new AbortController();
    const apply = async (options: RequestOptions) => {
      options.agent = false;
      stop.abort(new Error('enough'));
    };
    const client = apiClient({ server: `https://127.0.0.1:${port}`, apply }, { userAgent: 'test' });
    t.after(() => client.close());
    await assert.rejects(client.get(SERVICES, {}, stop.signal), /enough/);
    // A rejection that nobody handles fails this test.
    await aWhile();
  });
});

describe('a server that takes a connection and says nothing', () => {
  test('does not keep who stops, nor the connection', async (t) => {
    const sockets: net.Socket[] = [];
    const silent = net.createServer((socket) => void sockets.push(socket.on('error', () => undefined).resume()));
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    t.after(() => silent.close());
    const url = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const apply = async (options: RequestOptions) => {
      options.agent = false;
    };
    const client = apiClient({ server: url, apply }, { userAgent: 'test' });
    const stop = new AbortController();
    const [first, second] = [client.get(SERVICES, {}, stop.signal), client.get(SERVICES, {}, NEVER)];
    second.catch(() => undefined);
    await until('the connection', () => sockets.length === 1);
    stop.abort(new Error('enough'));
    await assert.rejects(first, /enough/);
    assert.equal(sockets[0]?.readyState, 'open', 'the other waits for it');
    client.close();
    await assert.rejects(second, /the client was closed/);
    await until('its end', () => sockets[0]?.destroyed === true || sockets[0]?.readyState !== 'open');
    sockets[0]?.destroy();
  });
});

describe('a server without HTTP/2', () => {
  test('is asked over HTTP/1.1: each watch has a connection of its own', async (t) => {
    const server = await start(t, { tls: 'http/1.1' });
    const client = await clientOf(t, server);
    const stop = new AbortController();
    const watches = [1, 2].map(() => watch(client, stop.signal));
    await until('two watches', () => server.watches === 2);
    await client.get(SERVICES, {}, NEVER);
    assert.equal(await server.connections(), 3);
    assert.deepEqual(new Set(server.requests().map(({ httpVersion }) => httpVersion)), new Set(['1.1']));
    stop.abort(new Error('enough'));
    await Promise.all(watches.map(({ ended }) => ended));
  });
});

/** A server of HTTP/2 that a test writes itself. */
async function serving(
  t: TestContext,
  answer: (stream: http2.ServerHttp2Stream, n: number) => void,
  pings: PingTimes = { every: 40, answer: 2000 },
) {
  const folder = await mkdtemp(join(tmpdir(), 'http2-'));
  t.after(() => rm(folder, { recursive: true }));
  const server = http2.createSecureServer(await makeCertificate(folder));
  const sessions: http2.ServerHttp2Session[] = [];
  let asked = 0;
  server.on('session', (session) => {
    sessions.push(session);
    session.on('error', () => undefined);
  });
  server.on('stream', (stream: http2.ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    asked += 1;
    answer(stream, asked);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  const ca = await readFile(`${folder}/tls.crt`);
  const apply = async (options: RequestOptions) => {
    Object.assign(options, { agent: false, ca });
  };
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = apiClient({ server: url, apply }, { userAgent: 'test', pings });
  t.after(() => client.close());
  return { client, sessions, count: () => asked };
}

const answerOk = (stream: http2.ServerHttp2Stream) => {
  stream.respond({ ':status': 200, 'content-type': 'application/json' });
  stream.end('{}');
};

describe('a connection that the server gives up', () => {
  test('by GOAWAY serves what is under way; other requests have another one', async (t) => {
    const held: http2.ServerHttp2Stream[] = [];
    const { client, sessions } = await serving(t, (stream, n) => (n === 1 ? void held.push(stream) : answerOk(stream)));
    const slow = client.get('/slow', {}, NEVER);
    await until('the request', () => held.length === 1);
    sessions[0]?.goaway();
    await aWhile();
    await client.get('/next', {}, NEVER);
    assert.equal(sessions.length, 2);
    held.forEach(answerOk);
    assert.deepEqual(await slow, {});
  });

  test('by GOAWAY goes on with a watch that is silent: no PING is answered on it any more', async (t) => {
    const streams: http2.ServerHttp2Stream[] = [];
    const { client, sessions } = await serving(
      t,
      (stream) => {
        stream.respond({ ':status': 200 });
        streams.push(stream);
      },
      { every: 20, answer: 40 },
    );
    const watched = watch(client, NEVER);
    await until('the watch', () => streams.length === 1);
    await aWhile();
    sessions[0]?.goaway();
    // Many times what a PING has for its answer.
    await aWhile(500);
    streams[0]?.write('{"a":1}\n');
    await until('its event', () => watched.events.length === 1);
  });

  test('is asked again what it refused before it did anything', async (t) => {
    const { NGHTTP2_REFUSED_STREAM } = http2.constants;
    const { client, count } = await serving(t, (stream, n) =>
      n === 1 ? stream.close(NGHTTP2_REFUSED_STREAM) : answerOk(stream),
    );
    assert.deepEqual(await client.get('/', {}, NEVER), {});
    assert.equal(count(), 2);
  });

  test('is not asked again what may have been done', async (t) => {
    const { NGHTTP2_INTERNAL_ERROR } = http2.constants;
    const { client, count } = await serving(t, (stream) => stream.close(NGHTTP2_INTERNAL_ERROR));
    await assert.rejects(client.write({ method: 'POST', path: '/', body: {} }, NEVER), /cannot be reached/);
    assert.equal(count(), 1);
  });

  test('within an answer is a lost connection', async (t) => {
    const { client } = await serving(t, (stream) => {
      stream.respond({ ':status': 200 });
      stream.write('{"items":[');
      setTimeout(() => stream.destroy(new Error('broken')), 20);
    });
    await assert.rejects(client.get('/', {}, NEVER), /connection lost: ./);
  });
});

describe('whether a connection lives', () => {
  test('is asked by PING: one that is answered is well, however silent its watches', async (t) => {
    const { client, sessions } = await serving(t, (stream) => stream.respond({ ':status': 200 }));
    let pings = 0;
    const watched = watch(client, NEVER);
    let end = '';
    void watched.ended.then((why) => {
      end = String(why);
    });
    await until('the connection', () => sessions.length === 1);
    sessions[0]?.on('ping', () => {
      pings += 1;
    });
    await until('many PINGs', () => pings >= 10);
    assert.deepEqual([end, sessions.length], ['', 1]);
  });

  test('a dead one is noticed, and what is watched goes on over another', async (t) => {
    const server = await start(t);
    const relay = await TcpRelay.to(Number(new URL(server.url).port));
    t.after(() => relay.stop());
    const { apply } = await loadCredentials(await configOf(server));
    const pings = { every: 60, answer: 240 };
    const following = new Following(t, `https://127.0.0.1:${relay.port}`, { apply, pings });
    await until('the watch', () => server.watches === 1);
    await aWhile();
    assert.deepEqual(following.reported, ['synced']);
    relay.freeze();
    server.put(web('a'));
    await following.hears('failed 1');
    assert.match(following.errors[0] ?? '', /connection lost: no answer to a PING: nothing was received for 0\.3 s/);
    await following.nextAttempt();
    await following.hears('set default/a 1001');
  });
});

describe('a watch that nobody ends', () => {
  for (const tls of [true, 'http/1.1'] as const) {
    test(`is ended by its client some time after its own (${tls === true ? 'HTTP/2' : 'HTTP/1.1'})`, async (t) => {
      const server = await start(t, { tls });
      const credentials = await loadCredentials(await configOf(server));
      const client = apiClient(credentials, { userAgent: 'test', overdue: 150 });
      t.after(() => client.close());
      const run = async () => {
        // The server of the tests takes this for no limit.
        const query = { watch: '1', resourceVersion: '1000', timeoutSeconds: '0' };
        for await (const _ of client.watch(SERVICES, query, NEVER));
      };
      await assert.rejects(run(), /the server did not end the watch within 0 s/);
    });
  }
});
