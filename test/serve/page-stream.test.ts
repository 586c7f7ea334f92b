/** The stream of events for pages: what its readers get, what it costs, and what it leaves behind. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { constants, createGunzip, deflateRawSync, gunzipSync } from 'node:zlib';
import type { Address } from '../../src/base/address.ts';
import { NoAnswer } from '../../src/inspect/wire/envelope.ts';
import { EventStreams, MAX_WAITING_BYTES, PAGE_STREAM } from '../../src/serve/event-stream.ts';
import { HttpServer } from '../../src/serve/http.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const { minPause: MIN_PAUSE_MS, maxSilence: MAX_PAUSE_MS, maxReaders: MAX_READERS } = PAGE_STREAM;

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A stream of a number that the test changes, with its work counted. */
function rig(textOf: (number: number) => string = String) {
  const clock = new FakeClock();
  const done = { wholes: 0, deltas: 0, packed: 0, thrown: 0, rests: 0 };
  const state = { number: 1, fails: false };
  const stream = new EventStreams<{ number: string }>(
    PAGE_STREAM,
    {
      now() {
        done.wholes += 1;
        if (state.fails) throw new Error('a bug');
        return { number: textOf(state.number) };
      },
      whole: (state) => state,
      changed(before, now) {
        done.deltas += 1;
        return before.number === now.number ? {} : { number: now.number };
      },
      pack(text) {
        done.packed += 1;
        return deflateRawSync(text, { finishFlush: constants.Z_FULL_FLUSH });
      },
      onRest() {
        done.rests += 1;
      },
      onThrown() {
        done.thrown += 1;
      },
    },
    clock,
  );
  const change = (number: number) => {
    state.number = number;
    stream.touch();
  };
  return { clock, done, state, stream, change };
}

type Streaming = ReturnType<typeof rig>['stream'];

/** Reads until it is closed; `text` is what came. */
function reader(stream: Streaming, encodings?: string) {
  const gone = new AbortController();
  const { body, headers = {} } = stream.open({ encodings, signal: gone.signal });
  const got: Buffer[] = [];
  assert.ok(typeof body === 'object' && Symbol.asyncIterator in body);
  const ended = (async () => {
    for await (const piece of body) got.push(Buffer.from(piece));
  })();
  const bytes = () => Buffer.concat(got);
  return {
    headers,
    ended,
    bytes,
    text: () => bytes().toString(),
    async close() {
      gone.abort();
      await ended;
    },
  };
}

const event = (value: object) => `event: live\ndata: ${JSON.stringify(value)}\n\n`;
const OPENING = 'retry: 1000\n\n';

describe('a stream of events', () => {
  it('begins with the whole, and goes on with what changed', async () => {
    const { stream, change, clock } = rig();
    const one = reader(stream);
    await turn();
    assert.equal(one.text(), OPENING + event({ number: '1' }));
    change(2);
    clock.advance(MIN_PAUSE_MS);
    await turn();
    assert.equal(one.text(), OPENING + event({ number: '1' }) + event({ number: '2' }));
    assert.deepEqual(one.headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.equal(one.headers['content-encoding'], undefined);
    await one.close();
  });

  it('sends at most four events a second, and one each 5 s when nothing happens', async () => {
    const { stream, change, clock, done } = rig();
    const one = reader(stream);
    await turn();
    for (let i = 0; i < 1000; i++) {
      change(i);
      clock.advance(1);
    }
    assert.ok(done.deltas >= 3 && done.deltas <= 4, `${done.deltas} events in a second`);
    clock.advance(MIN_PAUSE_MS);
    const { deltas } = done;
    clock.advance(6 * MAX_PAUSE_MS);
    assert.equal(done.deltas - deltas, 6);
    await one.close();
  });

  it('computes and compresses once, whatever the number of readers', async () => {
    const { stream, change, clock, done } = rig();
    const all = Array.from({ length: 20 }, () => reader(stream, 'gzip, deflate, br'));
    await turn();
    assert.deepEqual(done, { wholes: 1, deltas: 0, packed: 1, thrown: 0, rests: 0 });
    for (let i = 2; i < 12; i++) {
      change(i);
      clock.advance(MIN_PAUSE_MS);
    }
    await turn();
    assert.deepEqual(done, { wholes: 11, deltas: 10, packed: 11, thrown: 0, rests: 0 });
    await Promise.all(all.map((one) => one.close()));
    for (const one of all) assert.deepEqual(one.bytes(), all[0]?.bytes());
  });

  it('costs nothing while nobody reads, and leaves nothing behind', async () => {
    const { stream, change, clock, done } = rig();
    for (let i = 0; i < 100; i++) change(i);
    clock.advance(60_000);
    assert.deepEqual([done.wholes, clock.waits.length], [0, 0]);
    const two = [reader(stream), reader(stream, 'gzip')];
    await turn();
    change(7);
    for (const [i, one] of two.entries()) {
      assert.equal(done.rests, 0, `${i} of two left`);
      await one.close();
    }
    assert.deepEqual([stream.readers, clock.pending, done.rests], [0, 0, 1]);
    const { wholes } = done;
    clock.advance(60_000);
    change(8);
    clock.advance(60_000);
    assert.equal(done.wholes, wholes);
    // The next reader begins with the present.
    const later = reader(stream);
    await turn();
    assert.match(later.text(), /"number":"8"/);
    await later.close();
  });

  it('is a whole gzip file for each reader, whenever it began', async () => {
    const { stream, change, clock } = rig((number) => `${'long '.repeat(300)}${number}`);
    const early = reader(stream, 'br;q=1.0, gzip;q=0.8');
    await turn();
    change(2);
    clock.advance(MIN_PAUSE_MS);
    const late = reader(stream, '*');
    await turn();
    change(3);
    clock.advance(MIN_PAUSE_MS);
    await turn();
    // Each event can be read before the next one comes.
    const soFar = createGunzip({ finishFlush: constants.Z_SYNC_FLUSH });
    soFar.end(late.bytes());
    const now = await soFar.toArray();
    assert.match(Buffer.concat(now).toString(), / 2"}\n\nevent: live\ndata: .* 3"}\n\n$/);
    await early.close();
    await late.close();
    assert.equal(early.headers['content-encoding'], 'gzip');
    const texts = [early, late].map((one) => gunzipSync(one.bytes()).toString());
    assert.match(texts[0] ?? '', / 1"}\n\n[\s\S]* 2"}\n\n[\s\S]* 3"}\n\n$/);
    assert.match(texts[1] ?? '', /^retry: 1000\n\nevent: live\ndata: .* 2"}\n\nevent: live\ndata: .* 3"}\n\n$/);
    for (const one of [early, late]) assert.ok(one.bytes().length < 400, `${one.bytes().length} bytes`);
  });

  it('is plain for those who do not take gzip', () => {
    const { stream } = rig();
    for (const encodings of ['', 'br', 'identity', 'gzip;q=0', 'gzip; q=0.000', 'xgzip']) {
      const { headers = {} } = stream.open({ encodings, signal: NEVER });
      assert.equal(headers['content-encoding'], undefined, encodings);
    }
    for (const encodings of ['gzip', 'GZIP', ' deflate , gzip;q=0.5', 'gzip;q=1', '*']) {
      const { headers = {} } = stream.open({ encodings, signal: NEVER });
      assert.equal(headers['content-encoding'], 'gzip', encodings);
    }
  });

  it('ends for a reader that does not read, and the others go on', async () => {
    const size = MAX_WAITING_BYTES / 4;
    const { stream, change, clock } = rig((number) => String(number).padEnd(size));
    const fast = reader(stream);
    const { body } = stream.open({ signal: NEVER });
    assert.ok(typeof body === 'object' && Symbol.asyncIterator in body);
    const slow = body[Symbol.asyncIterator]();
    await slow.next();
    for (let i = 2; i < 40; i++) {
      change(i);
      clock.advance(MIN_PAUSE_MS);
      await turn();
    }
    assert.equal((await slow.next()).done, true, 'what waited is dropped');
    assert.equal(fast.text().split('event: live').length - 1, 39);
    assert.equal(stream.readers, 1);
    await fast.close();
  });

  it('refuses more readers than it may have; one that leaves makes room', async () => {
    const { stream } = rig();
    const all = Array.from({ length: MAX_READERS }, () => reader(stream));
    await turn();
    assert.throws(
      () => stream.open({ signal: NEVER }),
      (error) => error instanceof NoAnswer && error.message.startsWith(`${MAX_READERS} pages are open already`),
    );
    await all[0]?.close();
    const another = reader(stream);
    await turn();
    assert.equal(stream.readers, MAX_READERS);
    await Promise.all([another, ...all].map((one) => one.close()));
    assert.equal(stream.readers, 0);
  });

  it('ends its readers after a bug, and tells of it; whoever asks again is served', async () => {
    const { stream, state, change, clock, done } = rig();
    const one = reader(stream);
    await turn();
    state.fails = true;
    change(2);
    clock.advance(MIN_PAUSE_MS);
    await one.ended;
    assert.deepEqual([done.thrown, stream.readers, clock.pending], [1, 0, 0]);
    state.fails = false;
    const again = reader(stream);
    await turn();
    assert.match(again.text(), /"number":"2"/);
    await again.close();
  });
});

describe('a stream of events over HTTP', () => {
  it('ends with the connection, which a silent agent keeps', async () => {
    const { stream, change, clock } = rig();
    const server = await HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, (asked) => stream.open(asked));
    try {
      const [one, two] = [ask(server.port, 'GET'), ask(server.port, 'HEAD')];
      await until(() => one.text().includes('"number":"1"'));
      await until(() => two.text().includes('200 OK'));
      assert.equal(stream.readers, 1, 'HEAD is no reader');
      change(2);
      clock.advance(MIN_PAUSE_MS);
      await until(() => one.text().includes('"number":"2"'));
      one.socket.destroy();
      await until(() => stream.readers === 0);
      assert.equal(clock.pending, 0);
      const three = ask(server.port, 'GET');
      await until(() => stream.readers === 1);
      await server.close();
      await until(() => stream.readers === 0 && three.socket.destroyed);
    } finally {
      await server.close();
    }
  });
});

function ask(port: number, method: string): { readonly socket: Socket; text(): string } {
  let text = '';
  const socket = connect(port, '127.0.0.1', () => socket.write(`${method} /live HTTP/1.1\r\nhost: localhost\r\n\r\n`));
  socket.on('data', (data) => (text += data.toString()));
  socket.on('error', () => undefined);
  return { socket, text: () => text };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turn();
}
