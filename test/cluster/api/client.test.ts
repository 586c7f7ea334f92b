/** GET requests over connections that behave badly. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import test, { describe, type TestContext } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import {
  type ApiClient,
  ApiError,
  apiClient,
  UnreadableAnswer,
  type WatchEvent,
} from '../../../src/cluster/api/client.ts';
import type { KindReader } from '../../../src/cluster/api/protobuf/kind.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import { until } from '../../helpers/base/until.ts';
import { statusBytes } from '../../helpers/cluster/api/api-protobuf.ts';

const NEVER = new AbortController().signal;
const TEST = { userAgent: 'test' };
const DROP = 'drop=metadata.managedFields';
const JSON_ACCEPT = `application/json;${DROP}, application/json;q=0.5`;

async function listen(t: TestContext, server: net.Server): Promise<string> {
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    // A client that goes away is part of the tests.
    socket.on('error', () => undefined);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function clientOf(server: string): ApiClient {
  return apiClient({ server, apply: () => Promise.resolve() }, TEST);
}

async function serving(t: TestContext, answer: http.RequestListener): Promise<ApiClient> {
  return clientOf(await listen(t, http.createServer(answer)));
}

/** Answer with these pieces as they are, each in a packet of its own. `then` says how the connection ends. */
async function rawly(t: TestContext, pieces: (string | Buffer)[], then: 'end' | 'reset'): Promise<ApiClient> {
  const server = net.createServer((socket) => {
    socket.once('data', async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await breath();
        await breath();
      }
      if (then === 'end') socket.end();
      else setTimeout(() => socket.resetAndDestroy(), 20);
    });
  });
  return clientOf(await listen(t, server));
}

async function eventsOf(client: ApiClient, protobuf?: KindReader): Promise<WatchEvent[]> {
  return await Array.fromAsync(client.watch('/', {}, NEVER, { protobuf }));
}

function apiError(message: RegExp, status: number, retryAfter?: number) {
  return (error: unknown) => {
    assert.ok(error instanceof ApiError, String(error));
    assert.equal(error.code, 'API');
    assert.match(error.message, message);
    assert.deepEqual([error.status, error.retryAfter], [status, retryAfter]);
    return true;
  };
}

function bytes(text: string): Buffer[] {
  return [...Buffer.from(text)].map((byte) => Buffer.of(byte));
}

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';

describe('pieces', () => {
  const text = JSON.stringify({ name: 'Zoë 東京 🦊' });

  test('a character split over pieces of an answer is one character', async (t) => {
    const head = `${HEAD}content-length: ${Buffer.byteLength(text)}\r\n\r\n`;
    const client = await rawly(t, [head, ...bytes(text)], 'end');
    assert.deepEqual(await client.get('/', {}, NEVER), { name: 'Zoë 東京 🦊' });
  });

  test('a character split over pieces of a watch is one character', async (t) => {
    const client = await rawly(t, [`${HEAD}connection: close\r\n\r\n`, ...bytes(`${text}\n${text}\n`)], 'end');
    const event = { name: 'Zoë 東京 🦊' };
    assert.deepEqual(await eventsOf(client), [event, event]);
  });

  test('several lines in one piece, and empty ones between, are split', async (t) => {
    const client = await serving(t, (_, response) => response.end('{"a":1}\n\n{"b":2}\n'));
    assert.deepEqual(await eventsOf(client), [{ a: 1 }, { b: 2 }]);
  });

  test('a line of a megabyte arrives whole', async (t) => {
    const line = JSON.stringify({ text: 'x'.repeat(1_000_000) });
    const client = await serving(t, (_, response) => response.end(`${line}\n`));
    assert.deepEqual(await eventsOf(client), [JSON.parse(line)]);
  });
});

describe('an answer that breaks off', () => {
  for (const [what, pieces, then] of [
    ['before its stated length', [`${HEAD}content-length: 100\r\n\r\n{"items":[`], 'end'],
    ['before its last chunk', [`${HEAD}transfer-encoding: chunked\r\n\r\n`, 'a\r\n{"items":[\r\n'], 'end'],
    ['by a reset', [`${HEAD}content-length: 100\r\n\r\n{"items":[`], 'reset'],
  ] as const) {
    test(`${what}: a get fails`, async (t) => {
      const client = await rawly(t, [...pieces], then);
      await assert.rejects(client.get('/', {}, NEVER), apiError(/connection lost/, 0));
    });

    test(`${what}: a watch fails`, async (t) => {
      const client = await rawly(t, [...pieces], then);
      await assert.rejects(eventsOf(client), apiError(/connection lost/, 0));
    });
  }

  test('within an event, in order: the watch fails', async (t) => {
    const client = await serving(t, (_, response) => response.end('{"a":1}\n{"type":"ADD'));
    const events: WatchEvent[] = [];
    await assert.rejects(
      async () => {
        for await (const event of client.watch('/watched', {}, NEVER)) events.push(event);
      },
      apiError(/the watch of \/watched was cut off in the middle of an event/, 0),
    );
    assert.deepEqual(events, [{ a: 1 }]);
  });

  test('before it began: a get fails', async (t) => {
    const client = await rawly(t, [], 'reset');
    await assert.rejects(client.get('/', {}, NEVER), apiError(/cannot be reached: .+/, 0));
  });

  test('an error whose body breaks off is still that error', async (t) => {
    const head = 'HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\ncontent-length: 100\r\n\r\n{"kind"';
    const client = await rawly(t, [head], 'end');
    await assert.rejects(client.get('/p', {}, NEVER), apiError(/^\/p: 503 Service Unavailable$/, 503, 3000));
  });
});

describe('an answer that is another than asked for', () => {
  for (const [status, body, message] of [
    [403, '{"kind":"Status","message":"services is forbidden"}', /^\/p: 403 services is forbidden$/],
    [502, '<html>Bad gateway</html>', /^\/p: 502 Bad Gateway$/],
    [500, 'null', /^\/p: 500 Internal Server Error$/],
    [500, '', /^\/p: 500 Internal Server Error$/],
    [302, '', /^\/p: 302 Found$/],
    [204, '', /^\/p: 204 No Content$/],
  ] as const) {
    test(`${status} ${body}`, async (t) => {
      const client = await serving(t, (_, response) => response.writeHead(status).end(body || undefined));
      await assert.rejects(client.get('/p', {}, NEVER), apiError(message, status));
      await assert.rejects(
        async () => {
          for await (const _ of client.watch('/p', {}, NEVER));
        },
        apiError(message, status),
      );
    });
  }

  test('what is not JSON is a failure of the request', async (t) => {
    const client = await serving(t, (_, response) => response.end('<html>Sign in</html>'));
    await assert.rejects(client.get('/p', {}, NEVER), apiError(/^\/p: the answer is not JSON/, 0));
  });

  test('what is not HTTP is a failure of the request', async (t) => {
    const client = await rawly(t, ['SSH-2.0-OpenSSH_9.9\r\n'], 'end');
    await assert.rejects(client.get('/', {}, NEVER), apiError(/cannot be reached/, 0));
  });
});

describe('a server that is not there', () => {
  test('is named with the reason', async () => {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.close();
    await once(server, 'close');
    const failure = apiError(/^http:\/\/127\.0\.0\.1:\d+ cannot be reached: .*ECONNREFUSED/, 0);
    await assert.rejects(clientOf(url).get('/', {}, NEVER), failure);
    await assert.rejects(eventsOf(clientOf(url)), failure);
  });

  test('is named when its name does not resolve', async () => {
    // RFC 6761: names under .invalid never resolve.
    const client = clientOf('https://api.invalid:6443');
    await assert.rejects(client.get('/', {}, NEVER), apiError(/^https:\/\/api\.invalid:6443 cannot be reached: ./, 0));
  });
});

describe('a request', () => {
  async function asked(t: TestContext, after: string): Promise<string> {
    let path = '';
    const url = await listen(
      t,
      http.createServer((request, response) => {
        path = request.url ?? '';
        response.end('{}');
      }),
    );
    const query = { labelSelector: '!a/b', fieldSelector: 'spec.clusterIP!=None', limit: undefined, continue: 'x+/=' };
    await clientOf(url + after).get('/api/v1/services', query, NEVER);
    return path;
  }

  const QUERY = '?labelSelector=%21a%2Fb&fieldSelector=spec.clusterIP%21%3DNone&continue=x%2B%2F%3D';
  for (const [after, path] of [
    ['', '/api/v1/services'],
    ['/', '/api/v1/services'],
    ['/k8s/clusters/c-1', '/k8s/clusters/c-1/api/v1/services'],
    ['/k8s/clusters/c-1/', '/k8s/clusters/c-1/api/v1/services'],
  ] as const) {
    test(`to a server at "${after}" asks for ${path}, its query encoded`, async (t) => {
      assert.equal(await asked(t, after), path + QUERY);
    });
  }

  test('asks for credentials each time: a renewed token is used', async (t) => {
    const seen: unknown[] = [];
    const server = await listen(
      t,
      http.createServer((request, response) => {
        seen.push(request.headers.authorization, request.headers.accept, request.method);
        response.end('{}');
      }),
    );
    let n = 0;
    const client = apiClient(
      {
        server,
        apply(options) {
          n += 1;
          options.headers = { ...(options.headers as object), authorization: `Bearer ${n}` };
          return Promise.resolve();
        },
      },
      TEST,
    );
    await client.get('/', {}, NEVER);
    await client.get('/', {}, NEVER);
    assert.deepEqual(seen, ['Bearer 1', JSON_ACCEPT, 'GET', 'Bearer 2', JSON_ACCEPT, 'GET']);
  });

  test('whose credentials fail, fails with their reason', async () => {
    const apply = () => Promise.reject(new Error('exec: no such plugin'));
    const client = apiClient({ server: 'http://127.0.0.1:1', apply }, TEST);
    await assert.rejects(client.get('/', {}, NEVER), /no such plugin/);
  });
});

describe('abort', () => {
  test('before a request, it is not made', async (t) => {
    let count = 0;
    const client = await serving(t, (_, response) => {
      count += 1;
      response.end('{}');
    });
    await assert.rejects(client.get('/', {}, AbortSignal.abort(new Error('enough'))), /enough|abort/);
    assert.equal(count, 0);
  });

  test('while nothing is answered, ends the request with the reason', async (t) => {
    const abort = new AbortController();
    const client = await serving(t, () => abort.abort(new Error('enough')));
    await assert.rejects(client.get('/', {}, abort.signal), /enough/);
  });

  test('amid a watch, ends it', async (t) => {
    const abort = new AbortController();
    const client = await serving(t, (_, response) => response.write('{}\n'));
    await assert.rejects(async () => {
      for await (const _ of client.watch('/', {}, abort.signal)) abort.abort();
    });
  });

  test('a watch that nobody reads any more is closed', async (t) => {
    let isClosed = false;
    const client = await serving(t, (_, response) => {
      response.on('close', () => {
        isClosed = true;
      });
      response.write('{}\n');
    });
    for await (const _ of client.watch('/', {}, NEVER)) break;
    await until('the end of the connection', () => isClosed);
  });
});

describe('protobuf', () => {
  const TYPE = 'application/vnd.kubernetes.protobuf';
  const whole = (bytes: Buffer) => {
    if (bytes.length === 0) throw new ProtobufUnreadable('it is empty');
    return { type: bytes.toString('hex'), object: undefined };
  };
  const read: KindReader = {
    list: (bytes) => ({ metadata: { resourceVersion: whole(bytes).type, continue: undefined }, items: [] }),
    event: whole,
  };
  /** What was accepted, and the answer. */
  const answering = async (t: TestContext, status: number, type: string, body: Uint8Array) => {
    const accepted: (string | undefined)[] = [];
    const client = await serving(t, (request, response) => {
      accepted.push(request.headers.accept);
      response.writeHead(status, { 'content-type': type }).end(body);
    });
    return { client, accepted };
  };

  test('is asked for where there is a reader, which gets every byte as it came', async (t) => {
    const { client, accepted } = await answering(t, 200, TYPE, Buffer.of(0x6b, 0xff, 0x00, 0x80));
    const { metadata } = (await client.get('/', {}, NEVER, read)) as { metadata: { resourceVersion: string } };
    assert.equal(metadata.resourceVersion, '6bff0080');
    assert.deepEqual(accepted, [`${TYPE};${DROP}, application/json;${DROP}, application/json;q=0.5`]);
  });

  test('is not asked for where there is none', async (t) => {
    const { client, accepted } = await answering(t, 200, 'application/json', Buffer.from('{"a":1}'));
    assert.deepEqual(await client.get('/', {}, NEVER), { a: 1 });
    assert.deepEqual(accepted, [JSON_ACCEPT]);
  });

  test('is not expected of a server that has JSON alone', async (t) => {
    const { client } = await answering(t, 200, 'application/json; charset=utf-8', Buffer.from('{"a":1}'));
    assert.deepEqual(await client.get('/', {}, NEVER, read), { a: 1 });
  });

  test('that cannot be read is an error of its own', async (t) => {
    const { client } = await answering(t, 200, TYPE, Buffer.alloc(0));
    await assert.rejects(client.get('/list', {}, NEVER, read), (error: unknown) => {
      assert.ok(error instanceof UnreadableAnswer);
      return apiError(/^\/list: the protobuf answer cannot be read: it is empty$/, 0)(error);
    });
  });

  test('has errors as well: their message and their reasons', async (t) => {
    const causes = [{ reason: 'ResourceVersionTooLarge', message: '', field: '' }];
    const status = {
      status: 'Failure',
      message: 'too old',
      reason: 'Expired',
      code: 410,
      metadata: {},
      details: { causes },
    };
    const body = Buffer.concat(statusBytes({ kind: 'Status', apiVersion: 'v1', ...status }));
    const { client } = await answering(t, 410, TYPE, body);
    await assert.rejects(client.get('/list', {}, NEVER, read), (error: unknown) => {
      assert.ok(error instanceof ApiError);
      assert.deepEqual(error.reasons, ['Expired', 'ResourceVersionTooLarge']);
      return apiError(/^\/list: 410 too old$/, 410)(error);
    });
  });

  test('of an error that cannot be read leaves its status', async (t) => {
    const { client } = await answering(t, 503, TYPE, Buffer.of(1, 2, 3));
    await assert.rejects(client.get('/list', {}, NEVER, read), apiError(/^\/list: 503 Service Unavailable$/, 503));
  });
});
