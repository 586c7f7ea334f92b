/**
 * One refused Service must not keep the others out (invariant 6). When a write is refused, find who it is about, leave
 * them out, and write the rest.
 *
 * iptables-nft names the line; the legacy tool names only the table's COMMIT. Where nothing is named, owners are let in
 * by halves: those that can be written together are, and what is left over is to blame. The cost is paid only after a
 * refusal: the number of culprits times the logarithm of the number of owners.
 */
import type { Mode } from '../modes/mode.ts';
import { type ApplyReport, type FailedStep, mergeReports } from '../reconcile/step.ts';

/** Writes tried in one sync before the rest is left to the next. */
const MOST_TRIES = 64;

interface Isolation {
  readonly mode: Mode;
  readonly signal: AbortSignal;
  /** Who is left out, with the lines that were refused. */
  readonly setAside: Map<string, Set<string>>;
  readonly failed: FailedStep[];
  applied: number;
  tries: number;
}

/** Apply all that is pending; what is refused is set aside. The mode must be observed. */
export async function applyIsolating(mode: Mode, signal: AbortSignal): Promise<ApplyReport> {
  const state: Isolation = { mode, signal, setAside: new Map(), failed: [], applied: 0, tries: 0 };
  for (;;) {
    const report = await attempt(state);
    if (report.outcome === 'complete') return reportOf(state);
    const refused = report.failed.filter((step) => step.blame === 'content');
    if (refused.length < report.failed.length || state.tries >= MOST_TRIES) return giveUp(state, report);
    const fresh = refused.filter((step) => !isSetAside(state, step));
    const named = fresh.filter((step) => step.line !== undefined);
    if (named.length > 0) for (const step of named) blame(state, step);
    else return await isolateByHalves(state, report);
  }
}

async function attempt(state: Isolation): Promise<ApplyReport> {
  const { mode, signal, setAside } = state;
  if (!mode.isObserved) {
    const seen = await mode.observe(signal);
    if (seen.kind === 'unknown') return unreadable(seen.cause);
  }
  state.tries += 1;
  const report = await mode.apply(mode.plan(setAside), signal);
  state.applied += report.applied;
  return report;
}

/** Set aside the Service that a refused line is for, or the shared chain when it is for none. */
function blame(state: Isolation, step: FailedStep): void {
  const who = step.owner ?? step.key;
  const lines = state.setAside.get(who) ?? new Set();
  if (step.line !== undefined) lines.add(step.line);
  state.setAside.set(who, lines);
  state.failed.push(step);
}

function isSetAside(state: Isolation, step: FailedStep): boolean {
  const lines = state.setAside.get(step.owner ?? step.key);
  return lines !== undefined && (step.line === undefined || lines.has(step.line));
}

async function isolateByHalves(state: Isolation, first: ApplyReport): Promise<ApplyReport> {
  const observed = state.mode.isObserved || (await state.mode.observe(state.signal)).kind === 'known';
  if (!observed) return giveUp(state, first);
  const owners = new Set<string>();
  for (const { owner } of state.mode.plan(state.setAside).steps) if (owner !== undefined) owners.add(owner);
  for (const owner of owners) state.setAside.set(owner, new Set());
  const without = await attempt(state);
  if (owners.size === 0 || without.outcome !== 'complete') return giveUp(state, without);
  await admit(state, [...owners], first);
  return reportOf(state);
}

/** Let owners in that are all set aside now; `refusal` is what the tool said of a write with them. */
async function admit(state: Isolation, owners: readonly string[], refusal: ApplyReport | undefined): Promise<void> {
  let said = refusal;
  if (said === undefined) {
    for (const owner of owners) state.setAside.delete(owner);
    const report = await attempt(state);
    if (report.outcome === 'complete') return;
    for (const owner of owners) state.setAside.set(owner, new Set());
    said = report;
  }
  if (owners.length === 1 || state.tries >= MOST_TRIES) {
    const [step] = said.failed;
    for (const owner of owners) if (step !== undefined) state.failed.push({ ...step, owner });
    return;
  }
  const middle = Math.ceil(owners.length / 2);
  await admit(state, owners.slice(0, middle), undefined);
  await admit(state, owners.slice(middle), undefined);
}

function reportOf(state: Isolation): ApplyReport {
  const outcome = state.failed.length === 0 ? 'complete' : 'partial';
  return { outcome, applied: state.applied, failed: state.failed, skipped: [] };
}

function giveUp(state: Isolation, last: ApplyReport): ApplyReport {
  const before: ApplyReport = { outcome: 'failed', applied: state.applied, failed: state.failed, skipped: [] };
  return state.applied > 0 ? { ...mergeReports([before, last]), outcome: 'partial' } : mergeReports([before, last]);
}

function unreadable(cause: string): ApplyReport {
  const failed: FailedStep = { key: 'read the kernel', owner: undefined, line: undefined, blame: 'environment', cause };
  return { outcome: 'failed', applied: 0, failed: [failed], skipped: [] };
}
