/** One endpoint changed: from the event that the API server sends until the kernel has it, seen by a probe beside the agent. */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, clusterIP, FIRST, lastAddress } from './cluster.ts';
import { KernelProbe } from './kernel-probe.ts';
import { type BenchMode, Trial } from './trial.ts';

export interface ChangeOptions {
  readonly shape: ClusterShape;
  readonly changes: number;
  readonly mode?: BenchMode;
}

export interface ChangeResult {
  readonly shape: ClusterShape;
  /** Milliseconds from exec to the end of the first sync. */
  readonly cold: number;
  /** Milliseconds of each change. */
  readonly change: readonly number[];
  /** What the bare tool takes in the same table. iptables: one chain of as many endpoints; nftables: one element; ipvs: none. */
  readonly floor: readonly number[];
  /** iptables mode: the same without the jumps from built-in chains, where nothing reaches the rules. */
  readonly unreached: readonly number[];
}

/** Milliseconds. */
const PATIENCE = 20_000;
const BETWEEN = 40;

export async function measureChange({ shape, changes, mode = 'iptables' }: ChangeOptions): Promise<ChangeResult> {
  return await Trial.of({ shape, mode }, async (trial) => {
    await trial.empty('node');
    const { agent, milliseconds: cold } = await trial.start({ flags: [`--${mode}-min-sync-period`, '0s'] });
    const probe = await KernelProbe.start({ lab: trial.lab, by: mode === 'ipvs' ? 'ipvs' : 'nft' });
    const change: number[] = [];
    const floor: number[] = [];
    try {
      // The first few compile the code.
      for (let i = -5; i < changes; i++) {
        const n = FIRST + (((i + 5) * 37) % (shape.services - FIRST));
        const took = await oneChange(trial, probe, { n, turn: i + 6, mode });
        const bare = await bareChange(trial, mode, i + 5);
        if (i >= 0) change.push(took);
        if (i >= 0 && bare !== undefined) floor.push(bare);
        await pause(BETWEEN);
      }
    } finally {
      await probe.stop();
    }
    await agent.stop();
    const unreached = mode === 'iptables' ? await withoutJumps(trial, changes) : [];
    return { shape, cold, change, floor, unreached };
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

/** What the tool alone takes for as much; undefined: there is no such tool. */
async function bareChange(trial: Trial, mode: BenchMode, i: number): Promise<number | undefined> {
  if (mode === 'ipvs') return undefined;
  if (mode === 'nftables') return await trial.nft(oneElement(i), 'node');
  return await trial.restore(oneChain(trial.shape), { namespace: 'node', isEmptied: false });
}

/** Of a frontend that nobody has. */
function oneElement(i: number): string {
  return `add element ip slicewire endpoints { 10.255.255.255 . tcp . 80 . ${i} : 10.255.0.1 . 8080 }\n`;
}

/** A chain of its own, which nothing refers to. */
function oneChain({ endpoints }: ClusterShape): string {
  const rules = Array.from(
    { length: endpoints },
    (_, i) => `-A KUBE-BENCH -p tcp -j DNAT --to-destination 10.255.${i >> 8}.${i & 255}:8080`,
  );
  return ['*nat', ':KUBE-BENCH - [0:0]', ...rules, 'COMMIT', ''].join('\n');
}

async function withoutJumps(trial: Trial, times: number): Promise<number[]> {
  for (const chain of ['PREROUTING', 'OUTPUT', 'POSTROUTING']) {
    await trial.lab.exec('node', 'iptables-nft', '-t', 'nat', '-F', chain);
  }
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    took.push(await trial.restore(oneChain(trial.shape), { namespace: 'node', isEmptied: false }));
  }
  return took;
}
