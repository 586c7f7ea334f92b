/** All three modes side by side, where the kernel has IPVS: here or in the virtual machine (`modes-inside.ts`). */
import { fileURLToPath } from 'node:url';
import { runThere } from '../vm/run-there.ts';
import type { ClusterShape } from './cluster.ts';
import type { LayoutMeasured } from './layout.ts';
import { median, ms, ratio, size, spread, table } from './text.ts';
import type { BenchMode } from './trial.ts';

export const MARK = '@modes ';
const INSIDE = fileURLToPath(new URL('./modes-inside.ts', import.meta.url));

/** Milliseconds. */
export interface ModesMeasured {
  readonly shape: ClusterShape;
  readonly modes: readonly {
    readonly mode: BenchMode;
    /** From exec to the end of the first sync. */
    readonly cold: number;
    /** One endpoint changed, from the event to the kernel. */
    readonly change: readonly number[];
  }[];
  /** kube-proxy's nftables layout. */
  readonly layout: LayoutMeasured;
}

export interface ModesResult extends ModesMeasured {
  /** In the virtual machine, whose processors are emulated. */
  readonly isMachine: boolean;
}

/** Throws what was said there when nothing was measured. */
export async function measureModes(services: number): Promise<ModesResult> {
  let measured: ModesMeasured | undefined;
  const { said, isMachine } = await runThere<ModesMeasured>({
    args: [INSIDE, String(services)],
    mark: MARK,
    onResult: (one) => {
      measured = one;
    },
  });
  if (measured === undefined) throw new Error(said.join('\n'));
  return { ...(measured as ModesMeasured), isMachine };
}

export function modesSection({ shape, modes, layout, isMachine }: ModesResult): string {
  const where = isMachine ? 'the virtual machine (test/vm/machine), whose processors are emulated' : 'this kernel';
  const least = modes.find(({ mode }) => mode === 'nftables');
  const row = (name: string, cold: number, change: readonly number[]) => [
    name,
    spread([cold]),
    ratio(cold, least?.cold ?? Number.NaN),
    ms(median(change), 1),
    ratio(median(change), median(least?.change ?? [])),
  ];
  return `## The three modes side by side

${size(shape)} on one kernel that has all three: ${where}; read the ratios.
Cold start: from exec to the end of the first sync, lists included.
One change: one endpoint, from event to kernel, minSyncPeriod 0.
The last row is kube-proxy's nftables layout of the same Services: one \`nft -f\` of a prepared text, and one chain more.

${table(
  ['', 'cold start', 'beside nftables mode', 'one change, p50', 'beside nftables mode'],
  [
    ...modes.map(({ mode, cold, change }) => row(`slicewire, ${mode}`, cold, change)),
    row("kube-proxy's nftables layout, `nft -f` alone", median(layout.load), layout.change),
  ],
)}`;
}
