/** One Service of thousands of endpoints, one of which flaps: how long a flap takes, and whether the balance is right. */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, clusterIP, endpointsOf, FIRST, lastAddress } from './cluster.ts';
import { Connector, Sink } from './connects.ts';
import { KernelProbe } from './kernel-probe.ts';
import { type Summary, summary } from './text.ts';
import { Trial } from './trial.ts';

export interface LargeResult {
  readonly endpoints: number;
  /** Milliseconds. */
  readonly flaps: readonly number[];
  /** The bare restore of a flat chain of as many endpoints, in the same table: what a flap would write without groups. */
  readonly flat: readonly number[];
  /** Connections made, endpoints that answered some, those that failed. */
  readonly connections: number;
  readonly reached: number;
  readonly failed: number;
  /** Chi-squared of the connections by endpoint, divided by its degrees of freedom: about 1 when all are as likely. */
  readonly chiSquared: number;
  /** Microseconds of a new connection. */
  readonly times: Summary;
}

const FLAPS = 30;
/** Milliseconds. */
const PATIENCE = 20_000;
const SECONDS = 15;

export async function measureLarge(endpoints: number): Promise<LargeResult> {
  const shape: ClusterShape = { services: FIRST + 1, endpoints };
  return await Trial.of({ shape }, async (trial) => {
    await trial.empty('node');
    await trial.start({ flags: ['--iptables-min-sync-period', '0s'] });
    const probe = await KernelProbe.start({ lab: trial.lab, by: 'nft' });
    const flaps: number[] = [];
    for (let turn = 1; turn <= FLAPS; turn++) {
      const address = lastAddress(shape, FIRST, { turn });
      await probe.expect([{ address }]);
      const { at } = await trial.server.put(FIRST, turn);
      flaps.push((((await probe.seen(PATIENCE)).get(address) ?? Number.NaN) - at) / 1e6);
      await pause(50);
    }
    await probe.stop();
    const flat: number[] = [];
    for (let i = 0; i < 5; i++)
      flat.push(await trial.restore(flatChain(shape), { namespace: 'node', isEmptied: false }));
    return { endpoints, flaps, flat, ...(await balance(trial, FLAPS)) };
  });
}

function flatChain(shape: ClusterShape): string {
  const all = endpointsOf(shape, FIRST);
  const rules = all.map(({ addresses }, i) => {
    const chance =
      i < all.length - 1 ? `-m statistic --mode random --probability ${(1 / (all.length - i)).toFixed(11)} ` : '';
    return `-A KUBE-BENCH -p tcp ${chance}-j DNAT --to-destination ${addresses[0]}:8080`;
  });
  return ['*nat', ':KUBE-BENCH - [0:0]', ...rules, 'COMMIT', ''].join('\n');
}

async function balance({ lab, shape }: Trial, turn: number) {
  const sink = await Sink.start(lab);
  const client = new Connector(lab, 'node');
  try {
    await sink.count();
    const { times, failures } = await client.connect({
      targets: [{ address: clusterIP(FIRST), port: 80 }],
      seconds: SECONDS,
    });
    const counts = await sink.count();
    const wanted = endpointsOf(shape, FIRST, { turn }).map(({ addresses }) => addresses[0] ?? '');
    const connections = times.length;
    const expected = connections / wanted.length;
    const chi = wanted.reduce((sum, address) => sum + ((counts[address] ?? 0) - expected) ** 2 / expected, 0);
    const strangers = Object.keys(counts).filter((address) => !wanted.includes(address));
    if (strangers.length > 0)
      throw new Error(`connections went to ${strangers.slice(0, 3).join(' ')}, which are no endpoints`);
    return {
      connections,
      reached: Object.keys(counts).length,
      failed: Object.values(failures).reduce((sum, count) => sum + count, 0),
      chiSquared: chi / (wanted.length - 1),
      times: summary(times),
    };
  } finally {
    await client.stop();
    await sink.stop();
  }
}
