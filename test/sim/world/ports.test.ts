/** Ports of a simulated node. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { textAnswer } from '../../../src/serve/http.ts';
import { Calls, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import { SimPorts } from './ports.ts';

const ANY = { address: '0.0.0.0' as Address, port: 10_256 };
const LOCAL = { address: '127.0.0.1' as Address, port: 10_256 };

describe('simulated ports', () => {
  it('have one listener each, answer, and are free when it closes or is killed', async () => {
    const calls = new Calls(new SimTime(() => 0.5));
    const process = (name: string) => new SimProcess(name, 1, calls);
    const ports = new SimPorts();
    const first = process('first');
    const server = await ports.listen(first)(ANY, ({ path, query }) => textAnswer(200, `${path} ${query}`));
    const answer = await ports.ask({ port: 10_256, path: '/healthz?a=1' });
    assert.deepEqual([answer?.status, answer?.body], [200, '/healthz a=1']);
    assert.equal(await ports.ask({ port: 1, path: '/' }), undefined);
    const handler = () => textAnswer(200, '');
    await assert.rejects(ports.listen(process('second'))(LOCAL, handler), { code: 'EADDRINUSE' });
    await server.close();
    assert.deepEqual([first.open, ports.open], [[], []]);
    const second = process('second');
    await ports.listen(second)(LOCAL, handler);
    second.kill();
    assert.deepEqual(ports.open, []);
  });
});
