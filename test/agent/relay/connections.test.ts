/** Connections of the relay, with real sockets: bytes, ends and resets go on in both directions, and no client hangs. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { LINGER_MS, RelayedConnection } from '../../../src/agent/relay/relayed-connection.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { answerAt, backend, Client, freePort, RelayRig, servicePort } from './rig.ts';

/** A client whose Pod's end of the connection is at hand. */
async function joined(test: TestContext): Promise<{ rig: RelayRig; port: number; client: Client; pod: Socket }> {
  const rig = new RelayRig(test);
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await rig.pod(1, resolve);
  const port = await freePort();
  await rig.becomes(servicePort(port, { cluster: [1] }));
  const client = new Client(port);
  test.after(() => client.socket.destroy());
  return { rig, port, client, pod: await promise };
}

/** The other end takes what is written when the test says so. */
class SlowSocket extends Duplex {
  readonly connecting = false;
  isReset = false;
  text = '';
  held: (() => void) | undefined;

  resetAndDestroy(): void {
    this.isReset = true;
    this.destroy();
  }

  destroySoon(): void {
    this.once('finish', () => this.destroy());
  }

  unref(): this {
    return this;
  }

  /** Nothing of what is written is taken any more. */
  idle: () => void = () => undefined;

  setTimeout(milliseconds: number, call: () => void): this {
    assert.equal(milliseconds, LINGER_MS);
    this.idle = call;
    return this;
  }

  override _read(): void {}

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.text += String(piece);
    this.held = done;
  }
}

/** Whether the kernel probes the connection from or to this port by keep-alive (proc(5), /proc/net/tcp: the timer 02). */
function isProbed(from: number | undefined, to: number | undefined): boolean {
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/));
  const portOf = (address = '') => Number.parseInt(address.slice(-4), 16);
  return rows.some(
    ([, local, remote, state, , timer]) =>
      state === '01' &&
      timer?.startsWith('02:') &&
      (from === undefined || portOf(local) === from) &&
      (to === undefined || portOf(remote) === to),
  );
}

/** All of this direction. `for await` would destroy the other one. */
async function readAll(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  await once(socket, 'end');
  return Buffer.concat(pieces);
}

describe('a relayed connection', () => {
  it('passes bytes on both ways, unchanged and with the pace of the reader', async (test) => {
    const { rig, client, pod } = await joined(test);
    const sent = randomBytes(8 << 20);
    client.socket.pause();
    pod.write(sent);
    pod.end();
    client.socket.end(sent);
    const received = await readAll(pod);
    assert.ok(received.equals(sent), `${received.length} bytes`);
    client.socket.resume();
    await client.ends('ended');
    assert.ok(Buffer.from(client.text, 'latin1').equals(sent), `${client.text.length} bytes`);
    await rig.ended('completed');
  });

  it('holds few bytes of an endpoint whose client does not read', async (test) => {
    const { client, pod } = await joined(test);
    client.socket.pause();
    await until('the client is connected', () => client.socket.readyState === 'open');
    const chunk = Buffer.alloc(1 << 16);
    while (pod.writableLength < 64 << 20) pod.write(chunk);
    const taken = () => (64 << 20) - pod.writableLength;
    let before = -1;
    await until('nothing moves any more', async () => {
      const isStill = taken() === before;
      before = taken();
      await aWhile();
      return isStill;
    });
    // The buffers of the kernel grow to some MiB, on both connections.
    assert.ok(taken() < 32 << 20, `${taken()} bytes are on their way`);
  });

  it('goes on in one direction when the client has ended the other', async (test) => {
    const { rig, client, pod } = await joined(test);
    client.socket.end('question');
    assert.equal(String(await readAll(pod)), 'question');
    assert.equal(rig.open, 1);
    pod.end('answer');
    await client.ends('ended');
    assert.equal(client.text, 'answer');
    await rig.ended('completed');
    assert.equal(rig.open, 0);
  });

  it('goes on in one direction when the endpoint has ended the other', async (test) => {
    const { rig, client, pod } = await joined(test);
    pod.end('greeting');
    await client.ends('ended');
    assert.equal(client.text, 'greeting');
    client.socket.end('late words');
    assert.equal(String(await readAll(pod)), 'late words');
    await rig.ended('completed');
  });

  it('is reset for the endpoint when the client resets it', async (test) => {
    const { rig, client, pod } = await joined(test);
    pod.on('data', () => undefined);
    const failed = new Promise<NodeJS.ErrnoException>((resolve) => pod.once('error', resolve));
    client.socket.resetAndDestroy();
    assert.equal((await failed).code, 'ECONNRESET');
    await rig.ended('reset');
  });

  it('is reset for the client when the endpoint resets it, also after the client has ended its direction', async (test) => {
    const { rig, client, pod } = await joined(test);
    client.socket.end('x');
    await readAll(pod);
    pod.resetAndDestroy();
    await client.ends('reset');
    await rig.ended('reset');
    assert.equal(rig.open, 0);
  });

  it('is reset when the endpoint is gone, and the client does not hang', async (test) => {
    const { rig, port, client, pod } = await joined(test);
    pod.write('half');
    await client.receives('half');
    await rig.becomes(servicePort(port, { cluster: [2] }));
    await client.ends('reset');
    await rig.ended('endpoint lost');
    assert.equal(rig.open, 0);
  });

  /** Its endpoint has sent all, and the client has not read it when the endpoint is gone. */
  async function unread() {
    const [client, endpoint] = [new SlowSocket(), new SlowSocket()];
    const ends: string[] = [];
    const connection = new RelayedConnection({
      client: client as unknown as Socket,
      clock: new FakeClock(),
      next: () => ({ endpoint: backend(1), hasOthers: false }),
      connect: () => endpoint as unknown as Socket,
      onEnd: (result) => ends.push(result),
    });
    connection.start();
    endpoint.emit('connect');
    endpoint.push('all of it');
    endpoint.push(null);
    await until('the client has the end', () => client.writableEnded && client.held !== undefined);
    connection.abandon();
    assert.deepEqual([endpoint.isReset, client.isReset, client.destroyed, ends], [true, false, false, []]);
    return { client, connection, ends };
  }

  it('of an endpoint that had sent all and is gone still brings the client all of it', async () => {
    const { client, ends } = await unread();
    client.held?.();
    await until('the client is closed', () => client.destroyed);
    assert.deepEqual([client.isReset, client.text, ends], [false, 'all of it', ['endpoint lost']]);
  });

  it('whose client does not read the rest is reset after a while, however often the endpoint is found gone', async () => {
    const { client, connection, ends } = await unread();
    const before = client.listenerCount('finish');
    for (let syncs = 0; syncs < 20; syncs++) connection.abandon();
    assert.equal(client.listenerCount('finish'), before);
    client.idle();
    await until('the connection is over', () => ends.length > 0);
    assert.deepEqual([client.isReset, ends], [true, ['endpoint lost']]);
  });

  it('goes on while the endpoint terminates, and while slices list it at all, such as when it is not ready', async (test) => {
    const { rig, port, client, pod } = await joined(test);
    await rig.becomes(servicePort(port, { cluster: [2], terminating: [1] }));
    pod.write('terminating;');
    await client.receives('terminating;');
    rig.alsoListed.add(backend(1).text);
    await rig.becomes(servicePort(port));
    assert.equal(await answerAt(port), undefined, 'no endpoint is ready: new connections are refused');
    pod.write('not ready');
    await client.receives('not ready');
    // Nothing changes in the model when the slice loses an endpoint that was not ready.
    rig.alsoListed.clear();
    await rig.relay.sync();
    await client.ends('reset');
  });

  it('is reset when the Service is deleted, or its node port becomes another Service’s', async (test) => {
    const { rig, port, client } = await joined(test);
    rig.alsoListed.add(backend(1).text);
    await rig.named(7);
    await rig.isGone('default/web/TCP/IPv4');
    await client.ends('reset');
    assert.equal(await answerAt(port), undefined);
    await rig.becomes(servicePort(port, { service: 'default/other', cluster: [7] }));
    assert.equal(await answerAt(port), '7');
  });

  it('is reset when its node port becomes another Service’s in the same sync, though slices still list its endpoint', async (test) => {
    const { rig, port, client } = await joined(test);
    rig.alsoListed.add(backend(1).text);
    await rig.named(7);
    const other = servicePort(port, { service: 'default/other', cluster: [7] });
    rig.relay.update(new Map([['default/web/TCP/IPv4', undefined]]));
    await rig.becomes(other);
    await client.ends('reset');
    assert.equal(await answerAt(port), '7');
  });

  it('is probed by the kernel on both sides while it is silent, so that none stays whose other end is gone', async (test) => {
    const { port, client, pod } = await joined(test);
    pod.write('x');
    await client.receives('x');
    await until(
      'both have a timer of keep-alive',
      () => isProbed(port, undefined) && isProbed(undefined, pod.localPort),
    );
  });

  it('tries another endpoint where one refuses or does not answer, three in all', async (test) => {
    const rig = new RelayRig(test);
    await rig.named(4);
    const port = await freePort();
    rig.silent.add(backend(2).text);
    await rig.becomes(servicePort(port, { cluster: [1, 2, 4] }));
    const client = new Client(port);
    await until('the second endpoint is tried', () => rig.connected.length === 2 && rig.clock.pending === 1);
    rig.clock.advance(1999);
    assert.equal(rig.connected.length, 2);
    rig.clock.advance(1);
    await client.ends('ended');
    client.socket.destroy();
    assert.deepEqual([client.text, rig.connected.length], ['4', 3]);
    assert.equal(rig.clock.pending, 0, 'no wait is left');
    rig.connected.length = 0;
    await rig.becomes(servicePort(port, { cluster: [1, 3, 5, 4] }));
    assert.equal(await answerAt(port), 'reset');
    assert.equal(rig.connected.length, 3);
    assert.match(
      rig.troubles.join(),
      /^a connection to node port \d+ of Service default\/web on loopback \(IPv4\) is reset, because no endpoint takes it: 10\.0\.0\.5:80: connect ECONNREFUSED/,
    );
    assert.equal(await answerAt(port), 'reset');
    assert.equal(rig.troubles.length, 1, 'it is said once a minute');
    rig.clock.advance(60_000);
    assert.equal(await answerAt(port), 'reset');
    assert.deepEqual([rig.troubles.length, rig.outcomes().unreachable], [2, 3]);
  });

  it('waits 5 s for the only endpoint', async (test) => {
    const rig = new RelayRig(test);
    const port = await freePort();
    rig.silent.add(backend(1).text);
    await rig.becomes(servicePort(port, { cluster: [1] }));
    const client = new Client(port);
    await until('the endpoint is tried', () => rig.clock.pending === 1);
    rig.clock.advance(4999);
    assert.equal(rig.open, 1);
    rig.clock.advance(1);
    await client.ends('reset');
    await rig.ended('unreachable');
  });

  it('that still waits for its endpoint ends when the endpoint is gone', async (test) => {
    const rig = new RelayRig(test);
    const port = await freePort();
    rig.silent.add(backend(1).text);
    await rig.becomes(servicePort(port, { cluster: [1] }));
    const client = new Client(port);
    await until('the endpoint is tried', () => rig.clock.pending === 1);
    await rig.becomes(servicePort(port, { cluster: [2] }));
    await client.ends('reset');
    assert.deepEqual([rig.outcomes(), rig.clock.pending, rig.open], [{ 'endpoint lost': 1 }, 0, 0]);
  });
});
