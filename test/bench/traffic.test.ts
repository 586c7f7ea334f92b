/** Both ends of the traffic, in a lab without any rules, and what the page says of it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { InsideProcess } from './inside.ts';
import { interval } from './text.ts';
import type { WayMeasured } from './traffic.ts';
import { trafficAims, trafficSection } from './traffic-page.ts';
import {
  TRAFFIC_KINDS,
  type TrafficAnswer,
  type TrafficCommand,
  type TrafficSinkAnswer,
  type TrafficSinkCommand,
} from './traffic-protocol.ts';

const program = (name: string) => fileURLToPath(new URL(name, import.meta.url));

describe('client and server of the traffic', () => {
  it('make each kind, and refuse to count a connection that does not stand', async () => {
    const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    const ends = { lab, namespace: 'node' };
    const target = { address: '127.0.0.1', port: 8080 };
    const sink = new InsideProcess<TrafficSinkCommand, TrafficSinkAnswer, never>({
      ...{ ...ends, program: program('./traffic-sink-inside.ts'), args: [`${target.port}`, target.address] },
    });
    const client = new InsideProcess<TrafficCommand, TrafficAnswer, never>({
      ...{ ...ends, program: program('./traffic-inside.ts') },
    });
    try {
      for (const kind of TRAFFIC_KINDS) {
        const before = await sink.ask({ kind });
        const { count, seconds, processor } = await client.ask({ kind, target, seconds: 0.3 });
        assert.ok(count >= 16 && seconds >= 0.3 && processor > 0, `${kind}: ${count} in ${seconds} s`);
        assert.ok((await sink.ask({ kind })).processor > before.processor, `the server had work: ${kind}`);
      }
      const nobody = { ...target, port: 8081 };
      const connects = client.ask({ kind: 'connects', target: nobody, seconds: 0.3 });
      await assert.rejects(connects, /connect: ECONNREFUSED/);
      await assert.rejects(client.ask({ kind: 'flows', target: nobody, seconds: 0.3 }), /ECONNREFUSED/);
    } finally {
      await client.stop();
      await sink.stop();
      await lab.remove();
    }
  });
});

describe('the page of the traffic', () => {
  const rate = { perSecond: [20_000, 20_000], processor: [50, 50] };
  const one = (more: Partial<WayMeasured>): WayMeasured => ({
    ...{ proxy: 'slicewire', mode: 'nftables', kind: 'connects', way: 'cluster IP', ...rate },
    ...more,
  });
  const bare = one({ proxy: 'none', way: 'pod' });
  const cluster = (services: number, ...measured: WayMeasured[]) => ({ shape: { services, endpoints: 1 }, measured });

  it('has a row for each way, with the bare Pod beside it', () => {
    const stream = { kind: 'stream', perSecond: [2e9], processor: [400] } as const;
    const text = trafficSection(
      {
        kubeProxy: 'v1.36.2',
        clusters: [
          cluster(1000, bare, one({ processor: [75, 75] }), one({ ...stream, proxy: 'none', way: 'pod' }), one(stream)),
        ],
      },
      'made up',
    );
    const rows = text.split('\n').filter((line) => line.startsWith('| '));
    assert.deepEqual(rows.slice(2), [
      '| new TCP connection | pod | no proxy | 20,000 ± 0 connections a second | 50.0 ± 0.0 µs each | 1.00 |',
      '| new TCP connection | cluster IP | slicewire, nftables | 20,000 ± 0 connections a second | 75.0 ± 0.0 µs each | 1.50 |',
      '| stream to a Pod of another node | pod | no proxy | 2,000 MB a second | 400.0 µs each MB | 1.00 |',
      '| stream to a Pod of another node | cluster IP | slicewire, nftables | 2,000 MB a second | 400.0 µs each MB | 1.00 |',
    ]);
  });

  it('aims at connections that do not get dearer with the number of Services', () => {
    const aims = trafficAims({ clusters: [cluster(3, one({})), cluster(1000, one({ processor: [60] }))] });
    assert.deepEqual(
      aims
        .filter(({ at }) => at.endsWith('nftables'))
        .map(({ found, beside, isReached }) => [found, beside, isReached]),
      [['1.20 ×', '50.0 µs there', false]],
    );
  });

  it('has intervals by the turns', () => {
    assert.equal(interval([10, 12, 14]), '12 ± 5');
    assert.equal(interval([1234.56]), '1,235');
  });
});
