/** Changes without end: a hundred a second of as many Services, with kube-proxy's minSyncPeriod of a second. */
import { type ClusterShape, churnStep, endpointsOf, FIRST, lastAddress } from './cluster.ts';
import { KernelProbe } from './kernel-probe.ts';
import { processorTime, residentMemory } from './process-cost.ts';
import { median, type Summary, summary } from './text.ts';
import { Trial } from './trial.ts';

export interface ChurnResult {
  readonly shape: ClusterShape;
  readonly perSecond: number;
  readonly seconds: number;
  /** Milliseconds from each event until the kernel has it. */
  readonly delays: Summary;
  /** Share of a core, of the agent with its children. */
  readonly processor: number;
  /** Share of the time that as many bare restores of as many chains take, in the same table. */
  readonly floor: number;
  readonly syncs: number;
  /** Megabytes, before and after. */
  readonly before: number;
  readonly after: number;
}

const MEGABYTE = 2 ** 20;
/** Milliseconds. */
const PATIENCE = 20_000;

export async function measureChurn(options: {
  readonly shape: ClusterShape;
  readonly perSecond: number;
  readonly seconds: number;
}): Promise<ChurnResult> {
  const { shape, perSecond, seconds } = options;
  return await Trial.of({ shape }, async (trial) => {
    await trial.empty('node');
    const { agent, pid } = await trial.start({ flags: ['--iptables-min-sync-period', '1s'] });
    const probe = await KernelProbe.start({ lab: trial.lab, by: 'nft' });
    try {
      // A first round, that what is measured is not the compiler's.
      await trial.server.churn({ perSecond, seconds: 5, turn: 1 });
      const steps = Array.from({ length: perSecond * seconds }, (_, i) => churnStep(shape, i, 2));
      await probe.expect(steps.map(({ n, turn }) => ({ address: lastAddress(shape, n, { turn }) })));
      const [memory, time, since] = [residentMemory(pid), costOf(pid), agent.log.length];
      const changes = await trial.server.churn({ perSecond, seconds, turn: 2 });
      const seen = await probe.seen(PATIENCE);
      const cost = costOf(pid);
      const syncs = agent.log.slice(since).filter(({ msg }) => msg === 'synced').length;
      const share = (milliseconds: number) => milliseconds / (seconds * 1000);
      return {
        ...options,
        delays: summary(changes.map(({ address, at }) => ((seen.get(address) ?? Number.NaN) - at) / 1e6)),
        processor: share(cost - time),
        floor: share(median(await restores(trial, perSecond)) * syncs),
        syncs,
        before: memory.now / MEGABYTE,
        after: residentMemory(pid).now / MEGABYTE,
      };
    } finally {
      await probe.stop();
    }
  });
}

/** Milliseconds of restores of as many chains as change in a second; nothing refers to them. */
async function restores(trial: Trial, chains: number): Promise<number[]> {
  const { shape } = trial;
  const names = Array.from({ length: chains }, (_, i) => `KUBE-BENCH-${i}`)
    .sort()
    .reverse();
  const rules = names.flatMap((name, i) =>
    endpointsOf(shape, FIRST + i).map(
      ({ addresses }) => `-A ${name} -p tcp -j DNAT --to-destination ${addresses[0]}:80`,
    ),
  );
  const text = ['*nat', ...names.map((name) => `:${name} - [0:0]`), ...rules, 'COMMIT', ''].join('\n');
  const took: number[] = [];
  for (let i = 0; i < 5; i++) took.push(await trial.restore(text, { namespace: 'node', isEmptied: false }));
  return took;
}

function costOf(pid: number): number {
  const { user, system } = processorTime(pid);
  return user + system;
}
