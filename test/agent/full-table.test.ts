/** The warning of a nearly full table of connections: when it comes, what it names, and when it is over. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { watchFullTable } from '../../src/agent/full-table.ts';
import { type Address, addressBytes, portBytes } from '../../src/base/address.ts';
import type { FlowEntry } from '../../src/kernel/conntrack.ts';
import type { ServicePort } from '../../src/proxy/model/service-port.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const PERIOD = 10_000;

function entry(source: string, destination: string, port: number, protocol: FlowEntry['protocol'] = 'TCP'): FlowEntry {
  const end = (address: string, number: number) => addressBytes(address as Address) + portBytes(number);
  return { family: 'IPv4', protocol, source: end(source, 40_000), destination: end(destination, port) };
}

/** A node whose table has so many entries of 1,000, and what the agent says of it. */
function watched(entries: readonly FlowEntry[] = []) {
  const clock = new FakeClock();
  const said: string[] = [];
  const stop = new AbortController();
  const state = { count: '0', limit: '1000' as string | undefined, refuses: false, readings: 0, closed: 0 };
  const line = (level: string) => (_facts: object, text: string) => said.push(`${level} ${text}`);
  const running = watchFullTable({
    log: { warn: line('warn'), info: line('info'), v2: line('v2') } as never,
    clock,
    signal: stop.signal,
    settings: {
      read: (name) =>
        state.limit === 'EMFILE'
          ? Promise.reject(new Error('EMFILE: too many open files'))
          : Promise.resolve(name.endsWith('_max') ? state.limit : state.count),
    },
    lookup: ({ address = 'any', port, protocol }) => {
      const isOurs = ['10.96.0.10:80/TCP', 'any:30080/TCP'].includes(`${address}:${port}/${protocol}`);
      return isOurs ? ({ id: 'shop/web' } as ServicePort) : undefined;
    },
    nodeAddresses: () => Promise.resolve((address) => address === addressBytes('192.168.77.2' as Address)),
    open: () => {
      state.readings += 1;
      if (state.refuses) return Promise.reject(new Error('EPERM: operation not permitted'));
      function* parts() {
        for (let at = 0; at < entries.length; at += 2) yield entries.slice(at, at + 2);
        return false;
      }
      const unused = () => assert.fail('the entries alone are read');
      const rest = { udpFlows: unused, openings: unused, translated: unused, unanswered: unused, delete: unused };
      return Promise.resolve({ ...rest, entries: parts, close: () => (state.closed += 1) });
    },
  });
  /** Looks, with so many entries in the table. */
  async function look(count: number, times = 1): Promise<string[]> {
    state.count = String(count);
    const before = said.length;
    for (let n = 0; n < times; n++) {
      clock.advance(PERIOD);
      // Each part of the reading takes a turn of the event loop.
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    }
    return said.slice(before);
  }
  async function end(): Promise<void> {
    stop.abort(new Error('the end'));
    await assert.rejects(running, /the end/);
  }
  return { look, state, end };
}

describe('a table of connections', () => {
  it('that is nine tenths full is told once in ten minutes, with the names that fill it, until it is relieved', async () => {
    const flood = Array.from({ length: 7 }, (_, i) => entry('10.244.1.13', '10.96.0.10', 80, i < 5 ? 'TCP' : 'UDP'));
    const { look, state, end } = watched([...flood, entry('10.244.1.14', '192.0.2.1', 443)]);
    assert.deepEqual(await look(899), []);
    assert.deepEqual(await look(900), [
      "warn the kernel's table of connections is 90 % full (900 of 1,000 entries). When it is full, the kernel drops new connections. " +
        'Clients with the most entries: 10.244.1.13 (7), 10.244.1.14 (1). ' +
        'Destinations: Service shop/web at 10.96.0.10:80/TCP (5), 10.96.0.10:80/UDP (2), 192.0.2.1:443/TCP (1). ' +
        'Set a larger --conntrack-max-per-core or --conntrack-min, or limit a Service (docs/traffic.md).',
    ]);
    assert.deepEqual(await look(1000, 59), []);
    assert.equal((await look(1000)).length, 1, 'ten minutes later');
    assert.deepEqual(await look(850), [], 'not relieved yet');
    assert.deepEqual(await look(799), ["info the kernel's table of connections is 79.9 % full again"]);
    assert.equal((await look(950)).length, 1);
    assert.deepEqual([state.readings, state.closed], [3, 3]);
    await end();
  });

  it('is not looked at where the kernel has none', async () => {
    const { look, state, end } = watched();
    state.limit = undefined;
    assert.deepEqual(await look(1000), []);
    await end();
  });

  it('of which the size cannot be read is looked at again, and a node port is named by its Service', async () => {
    const { look, state, end } = watched([
      entry('203.0.113.9', '192.168.77.2', 30_080),
      entry('10.244.1.13', '192.0.2.1', 30_080),
    ]);
    state.limit = 'EMFILE';
    assert.deepEqual(await look(1000), []);
    state.limit = '1000';
    const told = (await look(950)).join();
    assert.match(told, /Destinations: Service shop\/web at 192\.168\.77\.2:30080\/TCP \(1\)/);
    assert.match(told, /, 192\.0\.2\.1:30080\/TCP \(1\)/, 'another machine has no node port of ours');
    await end();
  });

  it('that cannot be read is told with the cause', async () => {
    const { look, state, end } = watched();
    state.refuses = true;
    assert.deepEqual(await look(950), [
      "warn the kernel's table of connections is 95 % full, and cannot be read: EPERM: operation not permitted",
    ]);
    await end();
  });
});
