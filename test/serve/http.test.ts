/** The HTTP server among strangers: malformed requests, slow clients, many connections. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Address } from '../../src/base/address.ts';
import { HttpServer, keepOpen, textAnswer } from '../../src/serve/http.ts';
import { metricsHandler, scrapeHandler } from '../../src/serve/metrics-server.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { until } from '../helpers/base/until.ts';
import { OWN_FACTS } from '../helpers/serve/own-facts.ts';

const LOOPBACK = '127.0.0.1' as Address;

/** Send bytes; resolves with what came until the other side closed. */
function raw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(port, LOOPBACK, () => socket.write(bytes));
    socket.on('data', (data) => (text += data.toString()));
    socket.on('error', () => resolve(text));
    socket.on('close', () => resolve(text));
  });
}

/** Takes the processor for some milliseconds, as a long text of metrics does. */
function holdLoop(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

/** Hangs up before its last piece. */
async function* brokenOff(hangUp: (() => void) | undefined): AsyncGenerator<Uint8Array> {
  yield Buffer.from('begun');
  hangUp?.();
}

describe('the HTTP server', () => {
  let server: HttpServer;
  const sockets: Socket[] = [];
  let served = 0;
  before(async () => {
    server = await HttpServer.open({ address: LOOPBACK, port: 0 }, ({ path, hangUp, mayWait }) => {
      if (path === '/late' || path === '/long') mayWait?.();
      if (path === '/long') return { ...textAnswer(200, path), isLong: true };
      if (path === '/bad') throw new Error('no answer');
      if (path === '/slow') {
        served += 1;
        holdLoop(8);
      }
      if (path === '/hang-up') return { status: 200, body: brokenOff(hangUp) };
      return textAnswer(200, path);
    });
  });
  after(async () => {
    for (const socket of sockets) socket.destroy();
    await server.close();
  });
  it('drops the bound on silence where the handler has decided to answer late, and for no path before', async (t) => {
    const bounds: number[] = [];
    const set = Socket.prototype.setTimeout;
    t.mock.method(Socket.prototype, 'setTimeout', function (this: Socket, bound: number, call?: () => void) {
      if (this.localPort === server.port) bounds.push(bound);
      return set.call(this, bound, call);
    });
    const silenced = async (path: string) => {
      bounds.length = 0;
      await (await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { connection: 'close' } })).text();
      const at = bounds.indexOf(0);
      return at < 0 ? undefined : bounds.slice(at + 1).find((bound) => bound > 0);
    };
    assert.equal(await silenced('/late'), 30_000, 'it counts again when the answer is there');
    assert.equal(await silenced('/long'), undefined, 'the answer itself may take long');
    for (const path of ['/programmed?wait=5m', '/drained?pod=a/b', '/debug/x', '/recording', '/healthz'])
      assert.equal(await silenced(path), undefined, path);
  });

  it('ends the connection of an answer that hangs up', async () => {
    const text = await raw(server.port, 'GET /hang-up HTTP/1.1\r\nhost: a\r\n\r\n');
    assert.ok(!text.endsWith('0\r\n\r\n'), `the last piece is missing: ${text}`);
  });

  const ask = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${server.port}${path}`, init);

  it('refuses what is not HTTP, headers that are too large, and goes on', async () => {
    assert.match(await raw(server.port, 'nonsense\r\n\r\n'), /^HTTP\/1.1 400/);
    assert.match(await raw(server.port, 'GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n'), /^HTTP\/1.1 400/);
    assert.match(
      await raw(server.port, `GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(20_000)}\r\n\r\n`),
      /^HTTP\/1.1 400/,
    );
    assert.equal(await (await ask('/a?b')).text(), '/a');
  });

  it('answers an internal error with 500, and HEAD without a body', async () => {
    assert.equal((await ask('/bad')).status, 500);
    const head = await ask('/a', { method: 'HEAD' });
    assert.deepEqual([head.headers.get('content-length'), await head.text()], ['2', '']);
  });

  it('closes a connection whose request does not arrive', async () => {
    const begun = performance.now();
    const text = await raw(server.port, 'GET / HTTP/1.1\r\nhost:');
    assert.match(text, /^(HTTP\/1.1 4|$)/);
    assert.ok(performance.now() - begun < 60_000);
  });

  /** Connections that have had an answer, so that the server knows them. */
  function connected(count: number): Promise<Socket[]> {
    return Promise.all(
      Array.from({ length: count }, async () => {
        const socket = connect(server.port, LOOPBACK);
        sockets.push(socket);
        socket.write('GET /a HTTP/1.1\r\nhost: a\r\n\r\n');
        await once(socket, 'data');
        return socket;
      }),
    );
  }

  /** The most requests that one round of the event loop answers, where all clients send these bytes at once. */
  async function answersOfRounds(open: readonly Socket[], bytes: string): Promise<number> {
    let answers = 0;
    const most: number[] = [];
    for (const socket of open) {
      socket.on('data', () => (answers += 1));
      socket.write(bytes);
    }
    // All of them wait in the kernel when the loop goes on.
    holdLoop(20);
    let before = served;
    const round = () => {
      most.push(served - before);
      before = served;
      if (answers < open.length) setImmediate(round);
    };
    round();
    await until('all answers', () => answers === open.length, 60_000);
    for (const socket of sockets.splice(0)) socket.destroy();
    return Math.max(...most);
  }

  it('answers many requests that come at once in several rounds of the event loop', async () => {
    assert.ok((await answersOfRounds(await connected(16), 'GET /slow HTTP/1.1\r\nhost: a\r\n\r\n')) <= 4);
  });

  it('answers those that have sent most of their head before in several rounds, too', async () => {
    const open = await connected(16);
    for (const socket of open) socket.write('GET /slow HTTP/1.1\r\nhost: a\r\n\r');
    await pause(50);
    assert.ok((await answersOfRounds(open, '\n')) <= 4);
  });

  const fair = 'answers a client after those that came before it, and before those that ask again and again';
  it(fair, { timeout: 60_000 }, async () => {
    const open = await connected(16);
    const [last, ...greedy] = open as [Socket, ...Socket[]];
    // Each has more requests than can be answered meanwhile, and sends the next ones at once.
    for (const socket of greedy) socket.write('GET /slow HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(100));
    await pause(50);
    const before = served;
    last.write('GET /a HTTP/1.1\r\nhost: a\r\n\r\n');
    await once(last, 'data');
    assert.ok(served - before <= 2 * greedy.length, `${served - before} requests were answered before`);
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  it('answers beside a thousand connections that say nothing', async () => {
    await Promise.all(
      Array.from(
        { length: 1000 },
        () =>
          new Promise<void>((resolve, reject) => {
            const socket = connect(server.port, LOOPBACK, () => resolve());
            socket.on('error', reject);
            sockets.push(socket);
          }),
      ),
    );
    assert.equal((await ask('/a')).status, 200);
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  it('retries until its port is free, reports each failure, and closes when it is stopped', async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const failures: string[] = [];
    const opened: number[] = [];
    const port = server.port;
    const running = keepOpen({
      listen: { address: LOOPBACK, port },
      handler: () => textAnswer(200, 'again'),
      clock,
      signal: stop.signal,
      onFailure: (error) => failures.push(error.message),
      onOpen: () => opened.push(failures.length),
    });
    await until('the port is not had', () => failures.length === 1);
    assert.deepEqual(opened, []);
    await server.close();
    clock.advance(5000);
    let said = '';
    for (let tries = 0; tries < 100 && said !== 'again'; tries++) {
      await pause(20);
      said = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } }).then(
        (answer) => answer.text(),
        () => '',
      );
    }
    assert.equal(said, 'again');
    stop.abort();
    await running;
    await assert.rejects(fetch(`http://127.0.0.1:${port}/`));
    assert.match(failures.join(), /EADDRINUSE/);
    assert.deepEqual(opened, [failures.length]);
  });
});

describe('an address for Prometheus', () => {
  it('serves metrics, and nothing of what the metrics server has beside them', async () => {
    const handler = scrapeHandler(() => ({ contentType: 'text/plain; version=0.0.4', text: async () => 'a 1\n' }));
    const server = await HttpServer.open({ address: LOOPBACK, port: 0 }, handler);
    try {
      const ask = async (path: string, init?: RequestInit) => {
        const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
        return [answer.status, await answer.text()] as const;
      };
      assert.deepEqual(await ask('/metrics?x=1'), [200, 'a 1\n']);
      const others = ['/', '/configz', '/proxyMode', '/healthz', '/statusz', '/flagz', '/status', '/explain', '/live'];
      for (const path of [...others, '/debug/pprof/', '/recording', '/metrics/'])
        assert.deepEqual(await ask(path), [404, '404 page not found\n'], path);
      assert.equal((await ask('/debug/flags/v', { method: 'PUT', body: '9' }))[0], 405);
    } finally {
      await server.close();
    }
  });
});

describe('the metrics server', () => {
  let hasProfiling = false;
  let verbosity = 0;
  const handler = metricsHandler({
    mode: () => 'iptables',
    config: () => ({ kind: 'KubeProxyConfiguration' }),
    metrics: () => ({ contentType: 'text/plain; version=0.0.4', text: () => Promise.resolve('a 1\n') }),
    hasProfiling: () => hasProfiling,
    questions: { byPath: new Map(), isLocal: () => true },
    readPage: () => Promise.resolve(gzipSync('page')),
    component: OWN_FACTS,
    setVerbosity: (value) => (verbosity = value),
  });
  let server: HttpServer;
  before(async () => {
    server = await HttpServer.open({ address: LOOPBACK, port: 0 }, handler);
  });
  after(() => server.close());
  const ask = async (path: string, init?: RequestInit) => {
    const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
    return [answer.status, answer.headers.get('content-type'), await answer.text()] as const;
  };

  it('answers at each of kube-proxy’s paths', async () => {
    assert.deepEqual(await ask('/proxyMode'), [200, 'text/plain; charset=utf-8', 'iptables']);
    assert.deepEqual(await ask('/metrics'), [200, 'text/plain; version=0.0.4', 'a 1\n']);
    assert.deepEqual(await ask('/healthz'), [200, 'text/plain; charset=utf-8', 'ok']);
    assert.deepEqual(await ask('/configz'), [
      200,
      'application/json',
      '{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration"}}',
    ]);
    assert.equal((await ask('/other'))[0], 404);
    assert.equal((await ask('/metrics', { method: 'POST', body: 'x' }))[0], 405);
  });

  it('takes profiles, one at a time, and changes the log, only with enableProfiling', async () => {
    assert.equal((await ask('/debug/pprof/profile?seconds=1'))[0], 404);
    assert.equal((await ask('/debug/flags/v', { method: 'PUT', body: '4' }))[0], 405);
    hasProfiling = true;
    const [first, second] = await Promise.all([
      ask('/debug/pprof/profile?seconds=0.5'),
      ask('/debug/pprof/heap?seconds=0.5'),
    ]);
    const [taken, refused] = first[0] === 200 ? [first, second] : [second, first];
    assert.deepEqual([taken[0], refused[0]], [200, 503]);
    const profile = JSON.parse((await ask('/debug/pprof/profile?seconds=0.1'))[2]) as { nodes: unknown[] };
    assert.ok(profile.nodes.length > 0);
    assert.ok('head' in JSON.parse((await ask('/debug/pprof/heap?seconds=0.1'))[2]));
    assert.equal((await ask('/debug/pprof/profile?seconds=9999'))[0], 400);
    assert.equal((await ask('/debug/flags/v', { method: 'PUT', body: '4' }))[0], 200);
    assert.equal((await ask('/debug/flags/v', { method: 'PUT', body: 'x' }))[0], 400);
    assert.equal(verbosity, 4);
  });
});
