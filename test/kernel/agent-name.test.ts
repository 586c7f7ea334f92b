/** The name of a network namespace's agent, on real sockets of the abstract namespace. */
import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import { askHolder, type HeldName, takeName } from '../../src/kernel/agent-name.ts';

let names = 0;
const newName = () => `\0slicewire-test-${process.pid}-${++names}`;
const ASK = { patience: 1000, maxLength: 100 };
const OWN = { pid: process.pid, uid: process.geteuid?.() };

describe('the name of an agent', () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });

  async function held(name: string, line = () => '{"pid":1}'): Promise<HeldName> {
    const taken = await takeName(name, line);
    assert.ok(taken !== undefined);
    ends.push(() => taken.release());
    return taken;
  }

  /** Another program that has the name. */
  async function other(name: string, onSocket: (socket: Socket) => void): Promise<void> {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      ends.push(() => socket.destroy());
      onSocket(socket);
    });
    await new Promise<void>((resolve) => server.listen({ path: name }, resolve));
    ends.push(() => server.close());
  }

  it('is held by one, who says a line to each asker; the kernel names the process', async () => {
    const name = newName();
    let asked = 0;
    await held(name, () => `line ${++asked}`);
    assert.equal(await takeName(name, () => ''), undefined);
    for (const n of [1, 2]) {
      assert.deepEqual(await askHolder(name, ASK), { kind: 'line', peer: OWN, line: `line ${n}` });
    }
  });

  it('is free after its release, and of two that take it at once one has it', async () => {
    const name = newName();
    await (await held(name)).release();
    const both = await Promise.all([takeName(name, () => ''), takeName(name, () => '')]);
    const [winner, ...none] = both.filter((one) => one !== undefined);
    assert.ok(winner !== undefined && none.length === 0);
    await winner.release();
  });

  it('of nobody is no connection', async () => {
    assert.deepEqual(await askHolder(newName(), ASK), { kind: 'no connection', cause: 'ECONNREFUSED' });
  });

  it('of a program that says nothing, closes, or never ends its line', async () => {
    const [silent, closing, endless] = [newName(), newName(), newName()];
    await other(silent, () => undefined);
    await other(closing, (socket) => socket.destroy());
    await other(endless, (socket) => {
      const more = (error?: Error | null) => void (error ? undefined : socket.write('x'.repeat(4096), more));
      more();
    });
    assert.deepEqual(await askHolder(silent, { ...ASK, patience: 100 }), { kind: 'silent', peer: OWN });
    assert.deepEqual(await askHolder(closing, ASK), { kind: 'closed', peer: OWN });
    const { line, ...rest } = { line: '', ...(await askHolder(endless, ASK)) };
    assert.deepEqual(rest, { kind: 'line', peer: OWN });
    assert.equal(line.length, ASK.maxLength + 1);
  });

  it('answers a flood of connections without stalling, and is held after it', async () => {
    const name = newName();
    await held(name, () => 'here');
    const crowd = Array.from({ length: 400 }, () => connect({ path: name }));
    for (const socket of crowd) {
      socket.on('error', () => undefined);
      ends.push(() => socket.destroy());
    }
    // Whoever does not read its answer does not keep a descriptor of the agent open.
    await Promise.all(crowd.map((socket) => new Promise((resolve) => socket.once('close', resolve).resume())));
    assert.deepEqual(await askHolder(name, ASK), { kind: 'line', peer: OWN, line: 'here' });
    assert.equal(await takeName(name, () => ''), undefined);
  });
});
