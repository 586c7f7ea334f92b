/** Who may ask the metrics server questions, and what it says to others and to wrong questions. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Address } from '../../src/base/address.ts';
import { NoAnswer, WrongQuestion } from '../../src/inspect/wire/envelope.ts';
import { type Answer, HttpServer } from '../../src/serve/http.ts';
import { metricsHandler } from '../../src/serve/metrics-server.ts';
import { isOwnHost, type QueryRoute } from '../../src/serve/query-handler.ts';
import { OWN_FACTS } from '../helpers/serve/own-facts.ts';

const QUESTIONS: ReadonlyMap<string, QueryRoute> = new Map<string, QueryRoute>([
  ['/status', { parameters: ['a', 'b'], answer: (of) => Promise.resolve({ a: of.get('a') }) }],
  ['/wrong', { parameters: [], answer: () => Promise.reject(new WrongQuestion('no Service shop/web')) }],
  ['/none', { parameters: [], answer: () => Promise.reject(new NoAnswer('not yet')) }],
  ['/fails', { parameters: [], answer: () => Promise.reject(new Error('the kernel does not answer')) }],
  ['/recording', { parameters: [], answer: () => Promise.resolve(pieces()) }],
  ['/slow', { parameters: [], answer: (_, signal) => untilAborted(signal), timeout: 50 }],
  ['/torn', { parameters: [], answer: () => Promise.resolve(torn()) }],
]);

const LIVE: Answer = { status: 200, headers: { 'content-type': 'text/event-stream' }, body: 'event: live\n\n' };

async function* pieces() {
  yield Buffer.from('one ');
  yield Buffer.from('two');
}

function untilAborted(signal: AbortSignal): Promise<object> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

async function* torn() {
  yield Buffer.from('one ');
  throw new Error('the disk is gone');
}

describe('questions to the metrics server', () => {
  let isLocal = true;
  let server: HttpServer;
  before(async () => {
    const handler = metricsHandler({
      mode: () => 'iptables',
      config: () => ({}),
      metrics: () => ({ contentType: 'text/plain', text: () => Promise.resolve('') }),
      hasProfiling: () => true,
      component: OWN_FACTS,
      setVerbosity: () => undefined,
      readPage: () => Promise.resolve(gzipSync('page')),
      questions: { byPath: QUESTIONS, isLocal: () => isLocal, live: () => LIVE },
    });
    // Not a loopback address where others can be: 127.0.0.1 is one of several ways to reach it.
    server = await HttpServer.open({ address: '::' as Address, port: 0 }, handler);
  });
  after(() => server.close());

  /** Status, headers and body; fetch would not send another Host. */
  function ask(
    path: string,
    { host = 'localhost', method = 'GET', at = '127.0.0.1', site = '' } = {},
  ): Promise<string> {
    return new Promise((resolve, reject) => {
      let text = '';
      const head = host === '' ? `${method} ${path} HTTP/1.0\r\n` : `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n`;
      const socket = connect(server.port, at, () =>
        socket.write(`${head}${site === '' ? '' : `sec-fetch-site: ${site}\r\n`}connection: close\r\n\r\n`),
      );
      socket.on('data', (data) => (text += data.toString()));
      socket.on('error', reject);
      socket.on('close', () => resolve(text));
    });
  }

  it('are given up in time, with the reason', async () => {
    const answer = await ask('/slow');
    assert.match(answer, /^HTTP\/1.1 503 .*\/slow: no answer within 0.05 s; reading the rules takes longer/s);
  });

  it('are answered in JSON, to GET and HEAD alone, without a header of CORS', async () => {
    const answer = await ask('/status?a=1');
    assert.match(answer, /^HTTP\/1.1 200 /);
    assert.match(answer, /content-type: application\/json\r\n/);
    assert.ok(answer.endsWith('\r\n\r\n{"a":"1"}\n'), answer);
    assert.doesNotMatch(answer, /access-control/i);
    assert.match(await ask('/status', { method: 'HEAD' }), /^HTTP\/1.1 200 [\s\S]*\r\n\r\n$/);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      assert.match(await ask('/status', { method }), /^HTTP\/1.1 405 /);
    }
  });

  it('are refused under a name that is not the server’s own (DNS rebinding)', async () => {
    for (const host of [
      'evil.example',
      'evil.example:10249',
      '127.0.0.1.evil.example',
      '10.0.0.1',
      '[::1]',
      'localhost.evil:1',
      '127.0.0.1@evil.example',
      '',
    ]) {
      const answer = await ask('/status', { host });
      assert.match(answer, /^HTTP\/1.1 403 /, host);
      assert.match(
        answer,
        /"kind":"Problem","message":"the header Host (is \\".*\\"|is missing), and must be localhost or .*127\.0\.0\.1: ask by address, not by a name"/,
        host,
      );
    }
    for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1', '127.0.0.1:10249']) {
      assert.match(await ask('/status', { host }), /^HTTP\/1.1 200 /, host);
    }
    assert.match(await ask('/status', { host: '[::1]:10249', at: '::1' }), /^HTTP\/1.1 200 /);
    for (const site of ['cross-site', 'same-site']) {
      const answer = await ask('/status', { site });
      assert.match(answer, /^HTTP\/1.1 403 /);
      assert.match(
        answer,
        new RegExp(`"a page of another site asks \\(Sec-Fetch-Site: ${site}\\): open http://localhost`),
      );
      assert.match(await ask('/', { site }), /^HTTP\/1.1 200 /, 'a link leads to the page');
    }
    for (const site of ['same-origin', 'none']) assert.match(await ask('/status', { site }), /^HTTP\/1.1 200 /);
  });

  it('are refused under another name, as metrics, configuration and profiling are', async () => {
    const host = 'node-a.example:10249';
    const profiling = ['/debug/pprof/', '/debug/pprof/heap?seconds=1'];
    const paths = ['/metrics', '/proxyMode', '/healthz', '/configz', ...profiling];
    isLocal = true;
    for (const path of paths) {
      assert.match(await ask(path, { host }), /^HTTP\/1.1 403 [\s\S]*the header Host/, path);
      assert.match(await ask(path, { site: 'cross-site' }), /^HTTP\/1.1 403 [\s\S]*a page of another site/, path);
    }
    assert.match(await ask('/debug/flags/v', { method: 'PUT', host }), /^HTTP\/1.1 403 /);
    for (const path of ['/metrics', '/proxyMode', '/healthz', '/configz'])
      assert.match(await ask(path), /^HTTP\/1.1 200 /, path);
    // Also where it listens for other machines: this request arrives at loopback (foreign-host.test.ts has the others).
    isLocal = false;
    for (const path of paths) assert.match(await ask(path, { host }), /^HTTP\/1.1 403 /, path);
    assert.match(await ask('/debug/flags/v', { method: 'PUT', host }), /^HTTP\/1.1 403 /);
    isLocal = true;
  });

  it('are refused with the sentence that the question deserves', async () => {
    const problem = (message: string) => `{"apiVersion":"slicewire/v1","kind":"Problem","message":"${message}"}\n`;
    const cases = [
      ['/wrong', 400, 'no Service shop/web'],
      ['/none', 503, 'not yet'],
      ['/fails', 500, 'the kernel does not answer'],
      ['/status?c=1', 400, '/status has no parameter c: it takes a, b'],
      ['/none?c=1', 400, '/none has no parameter c: it takes no parameter'],
      ['/status?a=1&a=2', 400, '/status: a is given twice; give it once'],
    ] as const;
    for (const [path, status, message] of cases) {
      const answer = await ask(path);
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), path);
      assert.ok(answer.endsWith(problem(message)), answer);
    }
    assert.match(await ask('/statusses'), /^HTTP\/1.1 404 /);
  });

  it('are answered with a file piece by piece; one that breaks off has no end', async () => {
    const answer = await ask('/recording');
    assert.match(answer, /content-type: application\/octet-stream\r\n/);
    assert.match(answer.replace(/\r\n\d\r\n/g, ''), /one two[\s\S]*\r\n$/);
    assert.match(answer, /\r\n0\r\n\r\n$/);
    const broken = await ask('/torn');
    assert.match(broken, /\r\none \r\n$/);
    assert.doesNotMatch(broken, /\r\n0\r\n\r\n$/);
  });

  it('about what happens are refused to the same clients', async () => {
    assert.match(await ask('/live'), /^HTTP\/1.1 200 [\s\S]*event: live\n\n$/);
    assert.doesNotMatch(await ask('/live'), /access-control/i);
    assert.match(await ask('/live', { host: 'evil.example' }), /^HTTP\/1.1 403 /);
    assert.match(
      await ask('/live?since=1'),
      /^HTTP\/1.1 400 [\s\S]*\/live has no parameter since: it takes no parameter/,
    );
    assert.match(await ask('/live', { method: 'POST' }), /^HTTP\/1.1 405 /);
  });

  it('are for this machine alone where the server is', async () => {
    const own = Object.values((await import('node:os')).networkInterfaces())
      .flatMap((all) => all ?? [])
      .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    if (own === undefined) return;
    const answer = await ask('/status', { at: own, host: own });
    assert.match(answer, /^HTTP\/1.1 403 [\s\S]*questions are answered on this machine alone/);
    assert.match(await ask('/live', { at: own, host: own }), /^HTTP\/1.1 403 /);
    isLocal = false;
    assert.match(await ask('/status', { at: own, host: own }), /^HTTP\/1.1 200 /);
    isLocal = true;
  });

  it('know their own Host in every form', () => {
    assert.ok(isOwnHost('[fe80::1]:80', 'fe80::1%eth0'));
    assert.ok(isOwnHost('10.0.0.1', '::ffff:10.0.0.1'));
    assert.ok(isOwnHost('[0:0:0:0:0:0:0:1]', '::1'));
    for (const host of [
      '',
      ':80',
      '[::1',
      '::1',
      '[::1]x',
      '127.0.0.1:80:80',
      '127.0.0.1:',
      'localhost:',
      '127.1',
      '[]',
    ]) {
      assert.ok(!isOwnHost(host, '127.0.0.1'), host);
      assert.ok(!isOwnHost(host, '::1'), host);
    }
  });
});
