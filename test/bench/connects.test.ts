/** Connections are counted on both sides, and what fails is told apart. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { Connector, Sink } from './connects.ts';
import { nanoseconds } from './monotonic.ts';

describe('a client that connects to a sink', () => {
  let lab: Lab;
  let client: Connector;
  let sink: Sink;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    sink = await Sink.start(lab);
    client = new Connector(lab, 'node');
  });
  after(async () => {
    await client?.stop();
    await sink?.stop();
    await lab?.remove();
  });

  it('as fast as it can, to any pod', async () => {
    const targets = ['10.128.1.1', '10.200.3.4'].map((address) => ({ address, port: 8080 }));
    const { times, failures } = await client.connect({ targets, seconds: 0.5 });
    assert.deepEqual(failures, { refused: 0, reset: 0, 'timed out': 0, unreachable: 0, other: 0 });
    assert.ok(times.length > 10 && times.every((time) => time > 0 && time < 900_000), `${times.length}`);
    const counts = await sink.count();
    assert.deepEqual(Object.keys(counts).sort(), ['10.128.1.1', '10.200.3.4']);
    assert.equal((counts['10.128.1.1'] ?? 0) + (counts['10.200.3.4'] ?? 0), times.length);
    assert.deepEqual(await sink.count(), {});
  });

  it('connects no more often than at the given rate', async () => {
    const targets = [{ address: '10.128.1.1', port: 8080 }];
    const { times } = await client.connect({ targets, seconds: 1, perSecond: 100 });
    assert.ok(times.length > 20 && times.length <= 100, `${times.length}`);
  });

  it('until the first that is accepted', async () => {
    const targets = [
      { address: '10.128.1.1', port: 81 },
      { address: '10.128.1.1', port: 8080 },
    ];
    const before = nanoseconds();
    const { times, firstAt = 0, failures } = await client.connect({ targets, seconds: 5, untilFirst: true });
    assert.deepEqual([times.length, failures.refused], [1, 1]);
    assert.ok(firstAt > before && firstAt < nanoseconds());
  });

  it('tells who refuses, and who is silent', async () => {
    const refused = await client.connect({
      targets: [{ address: '10.128.1.1', port: 81 }],
      seconds: 0.1,
      perSecond: 50,
    });
    const { refused: count } = refused.failures;
    assert.deepEqual([refused.times.length, count > 0, refused.first.length], [0, true, count]);
    await lab.exec('other', 'iptables', '-A', 'INPUT', '-d', '10.128.9.9', '-j', 'DROP');
    const targets = [{ address: '10.128.9.9', port: 8080 }];
    const silent = await client.connect({ targets, seconds: 0.1, perSecond: 20, timeout: 100 });
    assert.ok(silent.failures['timed out'] > 0);
  });
});
