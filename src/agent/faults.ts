/** What is wrong with objects now, by what follows from it: for the log and for metrics. */
import type { Agent } from './agent.ts';

export function faultCounts({ feed: { cache }, loop }: Pick<Agent, 'feed' | 'loop'>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { counts: some } of [cache.faults, loop.faults]) {
    for (const [effect, count] of some) counts[effect] = (counts[effect] ?? 0) + count;
  }
  return counts;
}
