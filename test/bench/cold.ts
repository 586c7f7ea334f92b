/** Cold start, memory, rest and restart of one cluster in iptables mode, beside the bare restore of the same rules. */
import type { IptablesVariant } from '../../src/kernel/iptables-tools.ts';
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { AgentStarts, type StartsResult } from './agent-starts.ts';
import type { ClusterShape } from './cluster.ts';
import { proxiedServices } from './rival.ts';
import { Trial } from './trial.ts';

export interface ColdOptions {
  readonly shape: ClusterShape;
  readonly backend: IptablesVariant;
  readonly runs: number;
  /** Whether kube-proxy's layout is restored as well: it is worse than quadratic. */
  readonly hasRival: boolean;
  /** Seconds at rest that are watched; 0: none. */
  readonly rest: number;
}

export interface ColdResult extends Omit<ColdOptions, 'runs' | 'hasRival'>, StartsResult {
  readonly rules: number;
  readonly chains: number;
  /** Milliseconds of each run. */
  readonly floor: readonly number[];
  readonly rival: readonly number[];
}

export async function measureCold(options: ColdOptions): Promise<ColdResult> {
  const { runs, hasRival, shape, backend, rest } = options;
  return await Trial.of(options, async (trial) => {
    const starts = new AgentStarts(trial);
    const floor: number[] = [];
    const rival: number[] = [];
    let saved = '';
    for (let i = 1; i <= runs; i++) {
      await trial.empty('node');
      await starts.once(i === runs ? rest : 0);
      saved = await trial.saved();
      floor.push(await trial.restore(saved));
      if (hasRival) rival.push(await trial.restore(kubeProxyRules(proxiedServices(shape))));
    }
    const lines = saved.split('\n');
    return {
      ...{ shape, backend, rest, floor, rival },
      rules: lines.filter((line) => line.startsWith('-A')).length,
      chains: lines.filter((line) => line.startsWith(':KUBE')).length,
      ...starts.result,
    };
  });
}
