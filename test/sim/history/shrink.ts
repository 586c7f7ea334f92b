/** Makes a failing history shorter, as long as it still fails in the same way. */
import type { HistoryPlan } from './plan.ts';

/** Whether a plan still fails in the same way. */
export type StillFails = (plan: HistoryPlan) => Promise<boolean>;

/** `most`: histories that may be run for it. */
export async function shrink(plan: HistoryPlan, stillFails: StillFails, most: number): Promise<HistoryPlan> {
  let left = most;
  const tryPlan: StillFails = async (candidate) => {
    left -= 1;
    return left >= 0 && (await stillFails(candidate));
  };
  let best = plan;
  for (;;) {
    const before = sizeOf(best);
    best = await without(best, 'faults', tryPlan);
    best = await without(best, 'steps', tryPlan);
    if (left <= 0 || sizeOf(best) === before) return best;
  }
}

function sizeOf({ steps, faults = [] }: HistoryPlan): number {
  return steps.length + faults.length;
}

/** Leaves out halves, quarters, and at last single ones (delta debugging by Zeller and Hildebrandt). */
async function without(plan: HistoryPlan, part: 'steps' | 'faults', stillFails: StillFails): Promise<HistoryPlan> {
  let best = plan;
  for (let size = Math.ceil((best[part]?.length ?? 0) / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let first = 0; first < (best[part]?.length ?? 0); ) {
      const items: readonly unknown[] = best[part] ?? [];
      const candidate = { ...best, [part]: [...items.slice(0, first), ...items.slice(first + size)] };
      if (await stillFails(candidate)) best = candidate;
      else first += size;
    }
  }
  return best;
}
