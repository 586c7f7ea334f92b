/** Every fault at every numbered call of a short history, one at a time, in each mode. */
import type { SimMode } from './history/actions.ts';
import { faultOf } from './history/faults.ts';
import { type HistoryPlan, planOf } from './history/plan.ts';
import { failureText, runHistory } from './run-history.ts';

const MODES: readonly SimMode[] = ['nftables', 'iptables', 'ipvs'];
/** Dice of which each makes another fault: the first ones of `faultOf` that differ. */
const DICE = diceOfAllFaults();

/** Prints a line for each mode; returns the exit status. `most`: calls of each history; all by default. */
export async function everyCall(print: (text: string) => void, most = Number.POSITIVE_INFINITY): Promise<number> {
  for (const mode of MODES) {
    const plan = shortPlan(mode);
    const { calls, failure } = await runHistory(plan);
    if (failure !== undefined) {
      print(failureText(plan, failure));
      return 1;
    }
    const stride = Math.max(1, Math.ceil(calls / most));
    let count = 0;
    for (let call = 1; call <= calls; call += stride) {
      for (const dice of DICE) {
        const faulty = { ...plan, faults: [{ call, dice }] };
        const outcome = await runHistory(faulty);
        count += 1;
        if (outcome.failure === undefined) continue;
        print(`${JSON.stringify(faultOf(dice))} at call ${call}:`);
        print(failureText(faulty, outcome.failure));
        return 1;
      }
    }
    print(`${mode}: ${count} histories held: ${DICE.length} faults at each of ${Math.ceil(calls / stride)} calls`);
  }
  return 0;
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
