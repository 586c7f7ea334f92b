/**
 * One refused Service must not keep the others out (invariant 6). When a write is refused, find who it is about, leave
 * them out, and write the rest.
 *
 * iptables-nft names the line; the legacy tool names only the table's COMMIT. Where nothing is named, or too many are,
 * all owners are left out, and let in again by halves: those that can be written together are, and what is left over is
 * to blame. The cost is paid only after a refusal: the number of culprits times the logarithm of the number of owners.
 * Who was refused is remembered (`SyncLoop`), so that the next sync does not pay it again.
 */
import type { Mode } from '../modes/mode.ts';
import type { ApplyReport, FailedStep } from '../reconcile/step.ts';

/** Refusals with a named line that are followed one by one. */
const MOST_NAMED = 8;
/** Writes tried in one sync; who is not let in by then waits for the next retry. */
const MOST_TRIES = 64;

/** Owners, and keys of shared objects, that are left out: with what was said of them. */
export type Refused = Map<string, FailedStep>;

interface Isolation {
  readonly mode: Mode;
  readonly signal: AbortSignal;
  readonly refused: Refused;
  applied: number;
  tries: number;
}

/** Apply all that is pending but for those in `refused`, to which those that are refused now are added. The mode must be observed. */
export async function applyIsolating(mode: Mode, refused: Refused, signal: AbortSignal): Promise<ApplyReport> {
  const state: Isolation = { mode, signal, refused, applied: 0, tries: 0 };
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
    if (seen.kind === 'unknown') return unreadReport(seen.cause);
  }
  state.tries += 1;
  const report = await mode.apply(mode.plan(new Set(refused.keys())), signal);
  state.applied += report.applied;
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
  await admit(state, [...owners], true);
  return reportOf(state, without);
}

/** Let owners in that are all left out now. `isKnownBad`: a write with all of them was refused before. */
async function admit(state: Isolation, owners: readonly string[], isKnownBad: boolean): Promise<void> {
  const { refused } = state;
  if (owners.length === 0 || state.tries >= MOST_TRIES) return;
  if (!isKnownBad) {
    const before = owners.map((owner) => refused.get(owner));
    for (const owner of owners) refused.delete(owner);
    const report = await attempt(state);
    if (!isRefusal(report)) return;
    const [said] = report.failed;
    for (const [i, owner] of owners.entries()) {
      const step = said ?? before[i];
      if (step !== undefined) refused.set(owner, { ...step, owner });
    }
  }
  if (owners.length === 1) return;
  const middle = Math.ceil(owners.length / 2);
  await admit(state, owners.slice(0, middle), false);
  await admit(state, owners.slice(middle), false);
}

/** All that was done in this sync: `last` is the report of its last write. */
function reportOf(state: Isolation, last: ApplyReport): ApplyReport {
  const failed = [...state.refused.values(), ...last.failed];
  const hasDone = state.applied > 0 || last.outcome !== 'failed';
  const outcome = failed.length === 0 ? 'complete' : hasDone ? 'partial' : 'failed';
  return { outcome, applied: state.applied, failed, skipped: last.skipped };
}

/** The report of a sync that could not read the kernel: nothing was written (invariant 2). */
export function unreadReport(cause: string): ApplyReport {
  const failed: FailedStep = { key: 'read the kernel', owner: undefined, line: undefined, blame: 'environment', cause };
  return { outcome: 'failed', applied: 0, failed: [failed], skipped: [] };
}
