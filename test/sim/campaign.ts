/** The histories of a campaign, one by one, and their sum. */
import { planOf } from './history/plan.ts';
import { shrink } from './history/shrink.ts';
import { failureText, type Outcome, type RunOptions, runHistory } from './run-history.ts';

export interface CampaignOptions {
  /** Of the first history; each further one has the next seed. */
  readonly first: number;
  /** Histories. */
  readonly most: number;
  /** Milliseconds of real time. */
  readonly time: number;
  /** Go on after a failure. */
  readonly keepsGoing?: boolean;
  /** Histories that may be run to make a failing one shorter; 0: print what failed only. */
  readonly shrinking?: number;
  readonly print: (line: string) => void;
  /** Called after each history. */
  readonly onHistory?: (seed: number, outcome: Outcome) => Promise<void>;
  readonly options?: RunOptions;
}

export interface CampaignResult {
  histories: number;
  /** Seeds. */
  readonly failed: number[];
  calls: number;
  commits: number;
  faults: number;
  starts: number;
  /** Simulated milliseconds. */
  simulated: number;
}

export function noHistories(): CampaignResult {
  return { histories: 0, failed: [], calls: 0, commits: 0, faults: 0, starts: 0, simulated: 0 };
}

/** Counts a history. */
export function take(result: CampaignResult, seed: number, outcome: Outcome): void {
  result.histories += 1;
  result.calls += outcome.calls;
  result.commits += outcome.commits;
  result.faults += outcome.faults.length;
  result.starts += outcome.starts;
  result.simulated += outcome.duration;
  if (outcome.failure !== undefined) result.failed.push(seed);
}

/** One history; a failing one is printed, and made shorter before. */
export async function runSeed(
  seed: number,
  { print, shrinking = 0, options = {} }: Pick<CampaignOptions, 'print' | 'shrinking' | 'options'>,
): Promise<Outcome> {
  const plan = planOf(seed);
  const outcome = await runHistory(plan, options);
  if (outcome.failure === undefined) return outcome;
  const { kind, text } = outcome.failure;
  print(`seed ${seed} fails: ${kind}`);
  if (shrinking === 0) {
    print(`  ${text.split('\n')[0]}`);
    return outcome;
  }
  print('making the history shorter …');
  const exact = { ...plan, faults: outcome.faults };
  const shorter = await shrink(exact, async (one) => (await runHistory(one)).failure?.kind === kind, shrinking);
  const { failure = outcome.failure } = await runHistory(shorter);
  print(failureText(shorter, failure));
  print(`repeat it with: npm run sim -- --seed ${seed}`);
  return outcome;
}

/** For people. */
export function resultText({ histories, failed, calls, commits, faults, starts, simulated }: CampaignResult): string {
  const held = `${histories - failed.length} of ${histories} histories held`;
  const hours = Math.round(simulated / 360_000) / 10;
  return `${held}: ${calls} calls, ${faults} faults, ${commits} commits, ${starts} starts, ${hours} simulated hours`;
}
