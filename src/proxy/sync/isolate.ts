/**
 * One refused Service must not block the others (invariant 6). After a refused write, find the Services that caused it, set
 * them aside, and write the rest.
 *
 * iptables-nft names the line; the legacy tool names only the table's COMMIT. If no line is named, or too many are, all
 * owners are set aside and admitted again by halves. Owners that can be written together are written; the others are to
 * blame. Only a refusal costs writes: the number of culprits times the logarithm of the number of owners.
 * `SyncLoop` remembers the refused Services, so that the next sync does not search again.
 */

import { causeOf } from '../../base/cause.ts';
import { breath } from '../../base/clock.ts';
import type { Mode } from '../modes/mode.ts';
import { type ApplyReport, type FailedStep, failedReport, NOTHING_TO_DO, type Plan } from '../reconcile/step.ts';

/** Refusals with a named line that are followed one by one. */
const MAX_NAMED = 8;
/** Writes of one sync. Owners that are not admitted by then wait for the next retry. */
const MAX_TRIES = 64;

/** Called with each plan before it is applied. */
export type OnPlan = (plan: Plan) => void;

/** Owners, and keys of shared objects, that are set aside, each with its failure. */
export type RefusedOwners = Map<string, FailedStep>;

interface Isolation {
  readonly mode: Mode;
  readonly signal: AbortSignal;
  readonly refused: RefusedOwners;
  readonly onPlan: OnPlan;
  /** The report of the last write. */
  last: ApplyReport;
  applied: number;
  tries: number;
  /** The last plan was a part: more changes wait for a write. */
  isPart: boolean;
}

/** Writes everything pending except the owners in `refused`, and add newly refused owners to it. The mode must be observed. */
export async function applyIsolating(
  mode: Mode,
  refused: RefusedOwners,
  { onPlan, signal }: { readonly onPlan: OnPlan; readonly signal: AbortSignal },
): Promise<ApplyReport> {
  const state: Isolation = { mode, signal, refused, onPlan, last: NOTHING_TO_DO, applied: 0, tries: 0, isPart: false };
  let hasReadAgain = false;
  for (;;) {
    const report = await attempt(state, true);
    const refusals = report.failed.filter((step) => step.blame === 'content');
    if (state.isPart && report.outcome === 'complete') {
      state.tries -= 1;
      await breath();
      signal.throwIfAborted();
      continue;
    }
    if (refusals.length === 0) return reportOf(state, report);
    // Another program may have written meanwhile: the tool refuses the deletion of a rule that is gone. The next attempt reads the kernel.
    if (!mode.isObserved && !hasReadAgain) {
      hasReadAgain = true;
      state.tries -= 1;
      continue;
    }
    const named = refusals.filter((step) => step.line !== undefined && !refused.has(refusedKey(step)));
    if (named.length === 0 || state.tries > MAX_NAMED) return await isolateByHalves(state, refusals);
    for (const step of named) refused.set(refusedKey(step), step);
  }
}

/** The Service of a refused line, or the key of the shared object. */
function refusedKey(step: FailedStep): string {
  return step.owner ?? step.key;
}

async function attempt(state: Isolation, mayBePart = false): Promise<ApplyReport> {
  const { mode, signal, refused } = state;
  if (!mode.isObserved) {
    const observed = await mode.observe(signal);
    if (observed.kind === 'unknown') {
      state.last = unreadReport(observed.cause);
      return state.last;
    }
  }
  state.tries += 1;
  const plan = mode.plan(new Set(refused.keys()), mayBePart);
  state.isPart = plan.isPart === true;
  state.onPlan(plan);
  if (state.isPart) await breath();
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
  const [refusal] = refusals;
  if (refusal === undefined || (!mode.isObserved && (await mode.observe(signal)).kind === 'unknown')) {
    return reportOf(state, unreadReport('the kernel cannot be read after a refused write'));
  }
  const owners = new Set<string>();
  for (const step of mode.plan(new Set(refused.keys())).steps) for (const owner of step.concerns()) owners.add(owner);
  for (const owner of owners) refused.set(owner, { ...refusal, owner });
  const without = await attempt(state);
  // Refused without any Service: the cause is not a Service.
  if (isRefusal(without)) return reportOf(state, without);
  await admit(state, { owners: [...owners], isKnownBad: true, failures: failuresOf(without).length });
  // A refused attempt says of all steps that they were skipped, and not which wait.
  if (isRefusal(state.last)) await attempt(state);
  // The last refusals are in `refused`; failures for other reasons are reported beside them.
  return reportOf(state, { ...state.last, failed: failuresOf(state.last) });
}

/** Failures for reasons other than the written data. */
function failuresOf(report: ApplyReport): FailedStep[] {
  return report.failed.filter((step) => step.blame === 'environment');
}

interface OwnerGroup {
  /** All of them are set aside now. */
  readonly owners: readonly string[];
  /** A write with all of them was refused. */
  readonly isKnownBad: boolean;
  /** Number of failures of the environment before any owner was admitted. */
  readonly failures: number;
}

/** Admits owners, together or by halves. If another failure happens meanwhile, the remaining owners wait for the retry. */
async function admit(state: Isolation, { owners, isKnownBad, failures }: OwnerGroup): Promise<void> {
  const { refused } = state;
  if (owners.length === 0 || state.tries >= MAX_TRIES) return;
  if (!isKnownBad) {
    const before = owners.map((owner) => refused.get(owner));
    for (const owner of owners) refused.delete(owner);
    const report = await attempt(state);
    const hasNewFailure = failuresOf(report).length > failures;
    if (!isRefusal(report) && !hasNewFailure) return;
    const refusal = report.failed.find((step) => step.blame === 'content');
    for (const [i, owner] of owners.entries()) {
      const step = refusal ?? before[i];
      if (step !== undefined) refused.set(owner, { ...step, owner });
    }
    if (hasNewFailure) state.tries = MAX_TRIES;
  }
  if (owners.length === 1) return;
  const middle = Math.ceil(owners.length / 2);
  await admit(state, { owners: owners.slice(0, middle), isKnownBad: false, failures });
  await admit(state, { owners: owners.slice(middle), isKnownBad: false, failures });
}

/** The report of the whole sync; `last` is the report of its last write. */
function reportOf(state: Isolation, last: ApplyReport): ApplyReport {
  const failed = [...state.refused.values(), ...last.failed];
  const hasDone = state.applied > 0 || last.outcome !== 'failed';
  const outcome = failed.length === 0 ? 'complete' : hasDone ? 'partial' : 'failed';
  return { outcome, applied: state.applied, failed, skipped: last.skipped };
}

/** Errors that only a change of slicewire can fix. */
const MISTAKES = [TypeError, ReferenceError, SyntaxError];

/** The report of a sync that ended with a thrown error. */
export function thrownReport(error: unknown): ApplyReport {
  const isMistake = MISTAKES.some((kind) => error instanceof kind);
  const cause = isMistake ? `a bug in slicewire, please report it: ${String(error)}` : causeOf(error);
  return failedReport({ key: 'sync', family: undefined, kind: 'kernel' }, cause);
}

/** The report of a sync that could not read the kernel: nothing was written (invariant 2). */
export function unreadReport(cause: string): ApplyReport {
  return failedReport({ key: 'read the kernel', family: undefined, kind: 'kernel' }, cause);
}
