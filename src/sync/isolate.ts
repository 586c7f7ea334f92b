/**
 * One refused Service must not keep the others out (invariant 6). When a write is refused, find who it is about, leave
 * them out, and write the rest.
 *
 * iptables-nft names the line; the legacy tool names only the table's COMMIT. Where nothing is named, or too many are,
 * all owners are left out, and let in again by halves: those that can be written together are, and what is left over is
 * to blame. The cost is paid only after a refusal: the number of culprits times the logarithm of the number of owners.
 * Who was refused is remembered (`SyncLoop`), so that the next sync does not pay it again.
 */
import { causeOf } from '../model/cause.ts';
import type { Mode } from '../modes/mode.ts';
import { type ApplyReport, type FailedStep, failedReport, NOTHING_TO_DO, type Plan } from '../reconcile/step.ts';

/** Refusals with a named line that are followed one by one. */
const MOST_NAMED = 8;
/** Writes tried in one sync; who is not let in by then waits for the next retry. */
const MOST_TRIES = 64;

/** Called with each plan before it is applied. */
export type OnPlan = (plan: Plan) => void;

/** Owners, and keys of shared objects, that are left out: with what was said of them. */
export type Refused = Map<string, FailedStep>;

interface Isolation {
  readonly mode: Mode;
  readonly signal: AbortSignal;
  readonly refused: Refused;
  readonly onPlan: OnPlan;
  /** The report of the last write. */
  last: ApplyReport;
  applied: number;
  tries: number;
}

/** Apply all that is pending but for those in `refused`, to which those that are refused now are added. The mode must be observed. */
export async function applyIsolating(
  mode: Mode,
  refused: Refused,
  { onPlan, signal }: { readonly onPlan: OnPlan; readonly signal: AbortSignal },
): Promise<ApplyReport> {
  const state: Isolation = { mode, signal, refused, onPlan, last: NOTHING_TO_DO, applied: 0, tries: 0 };
  for (;;) {
    const report = await attempt(state);
    const refusals = report.failed.filter((step) => step.blame === 'content');
    if (refusals.length === 0) return reportOf(state, report);
    const named = refusals.filter((step) => step.line !== undefined && !refused.has(whoOf(step)));
    if (named.length === 0 || state.tries > MOST_NAMED) return await isolateByHalves(state, refusals);
    for (const step of named) refused.set(whoOf(step), step);
  }
}

/** The Service that a refused line is for, or the shared object when it is for none. */
function whoOf(step: FailedStep): string {
  return step.owner ?? step.key;
}

async function attempt(state: Isolation): Promise<ApplyReport> {
  const { mode, signal, refused } = state;
  if (!mode.isObserved) {
    const seen = await mode.observe(signal);
    if (seen.kind === 'unknown') {
      state.last = unreadReport(seen.cause);
      return state.last;
    }
  }
  state.tries += 1;
  const plan = mode.plan(new Set(refused.keys()));
  state.onPlan(plan);
  const report = await plan.apply(signal);
  state.applied += report.applied;
  state.last = report;
  return report;
}

function isRefusal(report: ApplyReport): boolean {
  return report.failed.some((step) => step.blame === 'content');
}

async function isolateByHalves(state: Isolation, refusals: readonly FailedStep[]): Promise<ApplyReport> {
  const { mode, refused, signal } = state;
  const [said] = refusals;
  if (said === undefined || (!mode.isObserved && (await mode.observe(signal)).kind === 'unknown')) {
    return reportOf(state, unreadReport('the kernel cannot be read after a refused write'));
  }
  const owners = new Set<string>();
  for (const step of mode.plan(new Set(refused.keys())).steps) for (const owner of step.concerns()) owners.add(owner);
  for (const owner of owners) refused.set(owner, { ...said, owner });
  const without = await attempt(state);
  // Refused with nobody in it: it is not about a Service.
  if (isRefusal(without)) return reportOf(state, without);
  await admit(state, { owners: [...owners], isKnownBad: true, failures: failuresOf(without).length });
  // What was refused last is in `refused`; what could not be written for another reason is told beside it.
  return reportOf(state, { ...state.last, failed: failuresOf(state.last) });
}

/** Failures that are not about what was written. */
function failuresOf(report: ApplyReport): FailedStep[] {
  return report.failed.filter((step) => step.blame === 'environment');
}

interface Group {
  /** All of them are left out now. */
  readonly owners: readonly string[];
  /** A write with all of them was refused before. */
  readonly isKnownBad: boolean;
  /** Failures of the environment that were there before anybody was let in. */
  readonly failures: number;
}

/** Let owners in, together or by halves. When something else fails meanwhile, who was not let in yet waits for the retry. */
async function admit(state: Isolation, { owners, isKnownBad, failures }: Group): Promise<void> {
  const { refused } = state;
  if (owners.length === 0 || state.tries >= MOST_TRIES) return;
  if (!isKnownBad) {
    const before = owners.map((owner) => refused.get(owner));
    for (const owner of owners) refused.delete(owner);
    const report = await attempt(state);
    const hasNewFailure = failuresOf(report).length > failures;
    if (!isRefusal(report) && !hasNewFailure) return;
    const said = report.failed.find((step) => step.blame === 'content');
    for (const [i, owner] of owners.entries()) {
      const step = said ?? before[i];
      if (step !== undefined) refused.set(owner, { ...step, owner });
    }
    if (hasNewFailure) state.tries = MOST_TRIES;
  }
  if (owners.length === 1) return;
  const middle = Math.ceil(owners.length / 2);
  await admit(state, { owners: owners.slice(0, middle), isKnownBad: false, failures });
  await admit(state, { owners: owners.slice(middle), isKnownBad: false, failures });
}

/** All that was done in this sync: `last` is the report of its last write. */
function reportOf(state: Isolation, last: ApplyReport): ApplyReport {
  const failed = [...state.refused.values(), ...last.failed];
  const hasDone = state.applied > 0 || last.outcome !== 'failed';
  const outcome = failed.length === 0 ? 'complete' : hasDone ? 'partial' : 'failed';
  return { outcome, applied: state.applied, failed, skipped: last.skipped };
}

/** What nobody but who wrote slicewire can mend. */
const MISTAKES = [TypeError, ReferenceError, SyntaxError];

/** The report of a sync in which something was thrown. */
export function thrownReport(error: unknown): ApplyReport {
  const isMistake = MISTAKES.some((kind) => error instanceof kind);
  const cause = isMistake ? `a mistake in slicewire itself, please report it: ${String(error)}` : causeOf(error);
  return failedReport({ key: 'sync', family: undefined, kind: 'kernel' }, cause);
}

/** The report of a sync that could not read the kernel: nothing was written (invariant 2). */
export function unreadReport(cause: string): ApplyReport {
  return failedReport({ key: 'read the kernel', family: undefined, kind: 'kernel' }, cause);
}
