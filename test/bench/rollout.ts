/** A rollout of a thousand Services: all endpoints of each are replaced, and a client connects to them all the time. */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, clusterIP, FIRST } from './cluster.ts';
import { Connector, Sink } from './connects.ts';
import { type Summary, summary } from './text.ts';
import { Trial } from './trial.ts';

export interface RolloutResult {
  readonly services: number;
  readonly rolled: number;
  readonly seconds: number;
  /** Connections that came to be, and those that did not, by why. */
  readonly connections: number;
  readonly failures: Readonly<Record<string, number>>;
  /** Services whose rules name an old endpoint, or not all new ones, at the end. */
  readonly wrong: number;
  /** Microseconds of the connections. */
  readonly times: Summary;
}

const PER_SECOND = 400;
/** Milliseconds until the last change is in the kernel. */
const SETTLE = 3000;

export async function measureRollout(shape: ClusterShape, rolled: number, seconds: number): Promise<RolloutResult> {
  return await Trial.of({ shape }, async (trial) => {
    await trial.empty('node');
    await trial.start({ flags: ['--iptables-min-sync-period', '1s'] });
    const sink = await Sink.start(trial.lab);
    const client = new Connector(trial.lab, 'node');
    try {
      const targets = Array.from({ length: rolled }, (_, i) => ({ address: clusterIP(FIRST + i), port: 80 }));
      const connecting = client.connect({ targets, seconds: seconds + 2, perSecond: PER_SECOND });
      const addresses = await rollAll(trial, rolled, seconds);
      const { times, failures } = await connecting;
      await pause(SETTLE);
      const saved = await trial.saved();
      const wrong = addresses.filter((address) => !saved.includes(`--to-destination ${address}:`)).length;
      return {
        services: shape.services,
        rolled,
        seconds,
        connections: times.length,
        failures,
        wrong,
        times: summary(times),
      };
    } finally {
      await client.stop();
      await sink.stop();
    }
  });
}

/** Evenly in time; returns the last new address of each Service. */
async function rollAll({ server }: Trial, rolled: number, seconds: number): Promise<string[]> {
  const start = performance.now();
  const addresses: string[] = [];
  for (let i = 0; i < rolled; i++) {
    const early = start + (i * seconds * 1000) / rolled - performance.now();
    if (early > 0) await pause(early);
    const changes = await server.roll(FIRST + i, 1);
    addresses.push(...changes.map(({ address }) => address));
  }
  return addresses;
}
