/** Every fault at every numbered call of a short history, one at a time, in each mode. */
import type { SimMode } from './history/actions.ts';
import { faultOf } from './history/faults.ts';
import { type HistoryPlan, type PlannedFault, planOf } from './history/plan.ts';
import { failureText, runHistory } from './run-history.ts';

const MODES: readonly SimMode[] = ['nftables', 'iptables', 'ipvs'];
/** Dice of which each makes another fault: the first ones of `faultOf` that differ. */
const DICE = diceOfAllFaults();

export interface EveryCallOptions {
  readonly print: (text: string) => void;
  /** Real milliseconds for each mode; calls are left out evenly where there are too many. By default all calls. */
  readonly time?: number;
}

/** Prints a line for each mode; returns the exit status. */
export async function everyCall({ print, time = Number.POSITIVE_INFINITY }: EveryCallOptions): Promise<number> {
  for (const mode of MODES) {
    const plan = shortPlan(mode);
    const { calls, failure } = await runHistory(plan);
    if (failure !== undefined) {
      print(failureText(plan, failure));
      return 1;
    }
    const cases = casesOf(calls);
    const end = Date.now() + time;
    let count = 0;
    for (const faults of cases) {
      if (Date.now() > end) break;
      const faulty = { ...plan, faults: [faults] };
      const outcome = await runHistory(faulty);
      count += 1;
      if (outcome.failure === undefined) continue;
      print(`${JSON.stringify(faultOf(faults.dice))} at call ${faults.call}:`);
      print(failureText(faulty, outcome.failure));
      return 1;
    }
    print(`${mode}: ${count} of ${cases.length} histories held: ${DICE.length} faults at each of ${calls} calls`);
  }
  return 0;
}

/** Every fault at every call, spread evenly: the first ones are of all parts of the history. */
function casesOf(calls: number): readonly PlannedFault[] {
  const all: PlannedFault[] = [];
  for (let call = 1; call <= calls; call++) for (const dice of DICE) all.push({ call, dice });
  const step = coprime(all.length);
  return all.map((_, i) => all[(i * step) % all.length] as PlannedFault);
}

/** A number near the golden section of `count` that has no divisor in common with it. */
function coprime(count: number): number {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  let step = Math.max(1, Math.round(count * 0.618));
  while (divisor(step, count) !== 1) step += 1;
  return step;
}

/** The beginning of a random history, without faults of its own. */
function shortPlan(mode: SimMode): HistoryPlan {
  const plan = planOf(1, { mode });
  const [first, later] = [plan.steps.filter(({ at }) => at === 0), plan.steps.filter(({ at }) => at > 0)];
  const changes = later.filter(({ action: { kind } }) => kind === 'put' || kind === 'delete').slice(0, 6);
  const restart = { at: 10_000, action: { kind: 'agent', what: 'restart' } } as const;
  const steps = [...first, ...changes.map((step, i) => ({ ...step, at: 2000 + i * 500 })), restart];
  return { ...plan, source: 'api', steps, faultRate: 0, faults: [] };
}

function diceOfAllFaults(): readonly number[] {
  const found = new Map<string, number>();
  for (let i = 0; i < 400; i++) {
    const fault = faultOf(i / 400);
    const variant = 'variant' in fault ? fault.variant % 8 : 'milliseconds' in fault ? fault.milliseconds : 0;
    const name = `${fault.kind} ${'when' in fault ? fault.when : ''} ${variant}`;
    if (!found.has(name)) found.set(name, i / 400);
  }
  return [...found.values()];
}
