/** One request of a connection at a time, over real sockets. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import type { Address } from '../../src/base/address.ts';
import { type Client, Clients } from '../../src/serve/clients.ts';
import { HttpServer, textAnswer } from '../../src/serve/http.ts';
import { MAX_BODY_BYTES, MAX_HEAD_BYTES } from '../../src/serve/http-connection.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { until } from '../helpers/base/until.ts';

const LOOPBACK = '127.0.0.1' as Address;
const GET = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nhost: a\r\n${more}\r\n`;

/** More than the kernel takes at once. */
const LARGE = 'x'.repeat(16_000_000);

class WatchedClients extends Clients {
  readonly #all = new Set<Client>();

  get idle(): number {
    return [...this.#all].filter(({ idleSince }) => idleSince !== undefined).length;
  }

  get only(): Client {
    const [client] = this.#all;
    return client ?? assert.fail('there is none');
  }

  override add(client: Client): void {
    super.add(client);
    this.#all.add(client);
  }

  override release(client: Client): void {
    super.release(client);
    this.#all.delete(client);
  }
}

describe('a connection', () => {
  let server: HttpServer;
  /** Requests that are being answered, and the most at once. */
  let open = 0;
  let most = 0;
  let handled = 0;
  let hold: Promise<void> | undefined;
  const clients = new WatchedClients({ clock: new FakeClock() });
  before(async () => {
    server = await HttpServer.open({ address: LOOPBACK, port: 0, clients }, async ({ path, body }) => {
      open += 1;
      handled += 1;
      most = Math.max(most, open);
      try {
        if (path === '/body') return textAnswer(200, await body());
        if (path === '/large') return textAnswer(200, LARGE);
        await (path === '/held' ? hold : pause(1));
        return textAnswer(200, path);
      } finally {
        open -= 1;
      }
    });
  });
  after(() => server.close());

  interface Talk {
    readonly socket: Socket;
    readonly text: () => string;
    readonly closed: Promise<void>;
  }

  function talk(...pieces: readonly (string | Buffer)[]): Talk {
    let text = '';
    const socket = connect(server.port, LOOPBACK);
    socket.on('data', (data) => (text += data.toString()));
    socket.on('error', () => undefined);
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    const write = async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await pause(2);
      }
    };
    void write();
    return { socket, text: () => text, closed };
  }

  const answers = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));

  it('answers requests one after another, however their bytes come', async () => {
    const [first, second] = [GET('/a'), GET('/b')];
    for (const pieces of [[first + second], [...(first + second)], [first.slice(0, 20), first.slice(20) + second]]) {
      most = 0;
      const { socket, text } = talk(...pieces);
      await until('both answers', () => text().includes('\r\n\r\n/b'));
      assert.deepEqual(answers(text()), [200, 200]);
      assert.equal(most, 1);
      socket.destroy();
    }
  });

  it('reads nothing of the next request before the answer to the first, and cuts off who sends much of it', async () => {
    const held = Promise.withResolvers<void>();
    hold = held.promise;
    handled = 0;
    const patient = talk(GET('/held') + GET('/b'));
    await until('the first request', () => handled === 1);
    const flood = talk(GET('/held') + GET('/x').repeat(2000));
    await flood.closed;
    await pause(50);
    assert.ok(handled <= 2, `${handled} requests were read`);
    held.resolve();
    await until('both answers', () => patient.text().includes('\r\n\r\n/b'));
    patient.socket.destroy();
    assert.ok(clients.turnedAway.some(({ reason }) => reason === 'pipelining'));
  });

  it('counts as idle whatever empty lines come, and reads the next request after them', async () => {
    await until('those of other tests are over', () => clients.count === 0);
    const { socket, text } = talk(GET('/a'));
    await until('the first answer', () => text().includes('\r\n\r\n/a'));
    socket.write('\r\n\r\n\r\n');
    await pause(30);
    assert.deepEqual([clients.count, clients.idle], [1, 1]);
    socket.write(GET('/b'));
    await until('the second answer', () => text().includes('\r\n\r\n/b'));
    socket.destroy();
  });

  it('cuts off who sends empty lines without end, after an answer too', async () => {
    for (const begin of ['', GET('/a')]) {
      const flood = talk(begin);
      if (begin !== '') await until('the answer', () => flood.text().includes('\r\n\r\n/a'));
      flood.socket.write('\r\n'.repeat(20));
      await flood.closed;
    }
  });

  it('answers a request with an expectation that nobody knows, and the next one', async () => {
    const { socket, text } = talk(GET('/a', 'expect: wonders\r\n'));
    await until('the first answer', () => text().includes('\r\n\r\n/a'));
    socket.write(GET('/b'));
    await until('the second answer', () => text().includes('\r\n\r\n/b'));
    socket.destroy();
  });

  it('ends after an answer that did not wait for the body', async () => {
    const { text, closed } = talk('GET /a HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n');
    await closed;
    assert.match(text(), /^HTTP\/1.1 200 /);
  });

  it('tells since when a client reads nothing of what waits for it', async () => {
    await until('those of other tests are over', () => clients.count === 0);
    const { socket, text } = talk(GET('/a'));
    await until('the first answer', () => text().includes('\r\n\r\n/a'));
    await pause(50);
    const began = performance.now();
    socket.pause();
    socket.write(GET('/large'));
    await until('bytes wait', () => clients.only.unsent > 0);
    assert.ok(clients.only.stalledSince >= began, 'the time before does not count');
    assert.ok(clients.only.unsent <= LARGE.length + 1000, 'no byte counts twice');
    socket.destroy();
  });

  it('notices a client that leaves while its request is answered', async () => {
    const held = Promise.withResolvers<void>();
    hold = held.promise;
    handled = 0;
    const { socket } = talk(GET('/held'));
    await until('the request', () => handled === 1);
    const before = clients.count;
    socket.destroy();
    await until('its place is free', () => clients.count < before);
    held.resolve();
  });

  it('reads a body of a known length, and the request after it', async () => {
    const body = 'x'.repeat(100);
    const put = `PUT /body HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n${body}`;
    for (const pieces of [[put + GET('/after')], [put.slice(0, 90), put.slice(90), GET('/after')]]) {
      const { socket, text } = talk(...pieces);
      await until('both answers', () => text().includes('\r\n\r\n/after'));
      assert.ok(text().includes(`\r\n\r\n${body}HTTP`), text());
      socket.destroy();
    }
  });

  it('refuses a body that is too long, or whose length is not known, without reading it', async () => {
    const long = talk(`PUT /body HTTP/1.1\r\nhost: a\r\ncontent-length: ${MAX_BODY_BYTES + 1}\r\n\r\n`);
    await long.closed;
    assert.match(long.text(), /^HTTP\/1.1 413 [\s\S]*a body has at most 4096 bytes\n$/);
    const chunked = talk('PUT /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n');
    await chunked.closed;
    assert.match(chunked.text(), /^HTTP\/1.1 411 [\s\S]*a body needs the header Content-Length\n$/);
  });

  it('hides no request in a body', async () => {
    handled = 0;
    const inside = GET('/inside');
    const { socket, text } = talk(
      `GET /a HTTP/1.1\r\nhost: a\r\ncontent-length: ${inside.length}\r\n\r\n${inside}${GET('/b')}`,
    );
    await until('both answers', () => text().includes('\r\n\r\n/b'));
    assert.equal(handled, 2);
    socket.destroy();
  });

  it('has refused heads take turns with requests, so that many of them do not hold the event loop', async (t) => {
    const { mock } = t.mock.method(clients.rounds, 'enter');
    const { closed, text } = talk(GET('/a', `a: ${'x'.repeat(4 * MAX_HEAD_BYTES)}`));
    await closed;
    assert.deepEqual(answers(text()), [400]);
    assert.equal(mock.callCount(), 1);
  });

  it('finds the end of a head behind line ends of any kind', async () => {
    const lines = ['\r', '\n', '\r\n', '\r\n\r', '\n\r\n', '\r\r\n\r', 'a: b'];
    for (const [first, second] of lines.flatMap((one) => lines.map((two) => [one, two] as const))) {
      for (const pieces of [[`${first}${second}`], [first, second]]) {
        const { socket, text, closed } = talk(...[`GET /a HTTP/1.1\r\nhost: a`, ...pieces], '\r\n\r\n', GET('/b'));
        await Promise.race([closed, until('both answers', () => text().endsWith('/b'))]);
        // The parser takes the head for one request, or for none.
        assert.match(answers(text()).join(), /^(400|200,(200|400))$/, JSON.stringify(pieces));
        socket.destroy();
      }
    }
  });

  it('never has two requests under way, whatever bytes a client sends', async () => {
    const piece = fc.constantFrom(
      ...[GET('/a'), 'GET /a HTTP/1.0\r\n\r\n', 'GET /b\r\n', '\r\n', '\n', '\r', '\r\n\r\n', 'a: b\r\n', ' '],
      ...['GET /c HTTP/1.1\n', 'host: a\r\n', 'content-length: 3\r\n', 'transfer-encoding: chunked\r\n', 'x'],
      ...[
        'expect: 100-continue\r\n',
        'upgrade: h2c\r\nconnection: upgrade\r\n',
        'CONNECT a:1 HTTP/1.1\r\n',
        '0\r\n\r\n',
      ],
    );
    most = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 30 }), fc.boolean(), async (pieces, isWhole) => {
        const bytes = pieces.join('');
        const { socket, closed } = talk(...(isWhole ? [bytes] : pieces));
        // A client that closes its side ends the connection.
        await pause(isWhole ? 4 : 2 + 2 * pieces.length);
        socket.end();
        await Promise.race([closed, pause(200)]);
        socket.destroy();
        assert.ok(most <= 1, `${most} requests at once: ${JSON.stringify(bytes)}`);
      }),
      { numRuns: 150 },
    );
  });
});
