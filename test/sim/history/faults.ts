/** Which fault happens at which call: chosen from the seed and the number of the call alone, so that a history can lose steps and keep its faults. */

import { Random } from '../../helpers/base/random.ts';
import type { Fault, FaultAt } from '../engine/process.ts';
import type { HistoryPlan, PlannedFault } from './plan.ts';

/** Milliseconds of slow answers. */
const SLOW = [5, 200, 3000, 20_000] as const;

/** The fault of a number from 0 to below 1. */
export function faultOf(dice: number): Fault {
  const random = new Random(Math.floor(dice * 2 ** 32));
  const variant = random.below(1000);
  const when = random.chance(0.5) ? 'before' : 'after';
  const kind = random.next();
  if (kind < 0.5) return { kind: 'fails', when, variant };
  if (kind < 0.7) return { kind: 'slow', milliseconds: random.pick(SLOW) };
  if (kind < 0.82) return { kind: 'cut', variant };
  return { kind: 'kill', when };
}

/** The faults of a plan; `onFault` gets each that happens. */
export function faultsOf(
  { seed, faultRate, faults }: Pick<HistoryPlan, 'seed' | 'faultRate' | 'faults'>,
  onFault: (fault: PlannedFault) => void,
): FaultAt {
  if (faults !== undefined) {
    const planned = new Map(faults.map((one) => [one.call, one]));
    return (number) => {
      const one = planned.get(number);
      if (one === undefined) return undefined;
      onFault(one);
      return faultOf(one.dice);
    };
  }
  return (number) => {
    const random = new Random((seed ^ Math.imul(number, 0x9e3779b1)) >>> 0);
    random.next();
    if (!random.chance(faultRate)) return undefined;
    const one = { call: number, dice: random.next() };
    onFault(one);
    return faultOf(one.dice);
  };
}
