/** One endpoint changed: from the event that the API server sends until the kernel has it, seen by a probe beside the agent. */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, clusterIP, FIRST, lastAddress } from './cluster.ts';
import { KernelProbe } from './kernel-probe.ts';
import { type BenchMode, Trial } from './trial.ts';

export interface ChangeResult {
  readonly shape: ClusterShape;
  /** Milliseconds from exec to the end of the first sync. */
  readonly cold: number;
  /** Milliseconds of each change. */
  readonly change: readonly number[];
}

/** Milliseconds. */
const PATIENCE = 20_000;
const BETWEEN = 40;
/** Changes that compile the code. */
const WARM = 5;

/** With minSyncPeriod 0. */
export async function measureChange(options: {
  readonly shape: ClusterShape;
  readonly changes: number;
  readonly mode: BenchMode;
}): Promise<ChangeResult> {
  const { shape, changes, mode } = options;
  return await Trial.of({ shape, mode }, async (trial) => {
    await trial.empty('node');
    const { agent, milliseconds: cold } = await trial.start({ flags: [`--${mode}-min-sync-period`, '0s'] });
    const probe = await KernelProbe.start({ lab: trial.lab, by: mode === 'ipvs' ? 'ipvs' : 'nft' });
    const change: number[] = [];
    try {
      for (let i = -WARM; i < changes; i++) {
        const n = FIRST + (((i + WARM) * 37) % (shape.services - FIRST));
        const took = await oneChange(trial, probe, { n, turn: i + WARM + 1, mode });
        if (i >= 0) change.push(took);
        await pause(BETWEEN);
      }
    } finally {
      await probe.stop();
    }
    await agent.stop();
    return { shape, cold, change };
  });
}

async function oneChange(
  { shape, server }: Trial,
  probe: KernelProbe,
  { n, turn, mode }: { n: number; turn: number; mode: BenchMode },
): Promise<number> {
  const address = lastAddress(shape, n, { turn });
  const at = { protocol: 'TCP', address: clusterIP(n), port: 80 } as const;
  await probe.expect([mode === 'ipvs' ? { address, server: at } : { address }]);
  const sent = await server.put(n, turn);
  const seen = await probe.seen(PATIENCE);
  return ((seen.get(address) ?? Number.NaN) - sent.at) / 1e6;
}
