/** All three modes side by side, where the kernel has IPVS: here or in the virtual machine (`modes-inside.ts`). */
import { fileURLToPath } from 'node:url';
import { runThere } from '../vm/run-there.ts';
import type { ClusterShape } from './cluster.ts';
import type { RivalMeasured } from './nftables.ts';
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
  readonly rival: RivalMeasured;
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
