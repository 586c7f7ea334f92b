/** Runs a history as `runHistory`, and then carries out its writes in a real kernel. */
import type { HistoryPlan } from '../history/plan.ts';
import { type Outcome, runHistory } from '../run-history.ts';
import { compareWithReal } from './compare.ts';
import { recordOf, type WriteRecord } from './record.ts';

export interface RealOutcome {
  readonly outcome: Outcome;
  /** How many writes were repeated. */
  readonly writes: number;
  /** Between the kernels, as lines. */
  readonly differences: readonly string[];
}

/** Needs root. */
export async function runWithReal(plan: HistoryPlan): Promise<RealOutcome> {
  let record: WriteRecord = { variant: plan.variant, writes: [] };
  const outcome = await runHistory(plan, {
    onKernel: (kernel) => {
      record = recordOf(kernel);
    },
  });
  return { outcome, writes: record.writes.length, differences: await compareWithReal(record) };
}
