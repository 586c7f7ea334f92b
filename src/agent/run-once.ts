/** Work without an agent that runs: one sync for `run --once`, and one reading of source and kernel for `plan` and for questions. */
import { realClock, sleep } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Fault } from '../proxy/model/objects.ts';
import type { Plan } from '../proxy/reconcile/step.ts';
import type { SweepReport } from '../proxy/sync/flow-sweeper.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';
import { type Agent, startAgent } from './agent.ts';
import { startFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import { type Platform, realPlatform } from './platform.ts';
import { mustHaveModeOfAgent } from './singleton.ts';
import type { StartPhase, StartReport } from './start-report.ts';
import { SyncLog } from './sync-log.ts';

const RETRY_MS = 1000;
const MAX_TRIES = 5;

/**
 * Sync until all rules are written and stale flows deleted; resolves with whether that succeeded. Rejects with CannotRun where an agent of another
 * mode runs, also where one came, or changed its mode, while this wrote: then rules of both may be there.
 */
export async function syncOnce(
  config: Config,
  log: Log,
  signal: AbortSignal,
  platform: Platform = realPlatform,
  report?: StartReport | undefined,
): Promise<boolean> {
  const faults = new FaultLog({ log, clock: realClock });
  const onFault = (fault: Fault) => void faults.log(fault);
  const syncLog = new SyncLog(log, realClock);
  // The agent may change its mode while lists or the kernel take long.
  const barred = new AbortController();
  const until = AbortSignal.any([signal, barred.signal]);
  let hasWritten = false;
  const mayWrite = async () => {
    try {
      await mustHaveModeOfAgent(platform.process.names, config.mode, { hasWritten });
    } catch (error) {
      barred.abort(error);
      throw error;
    }
  };
  try {
    await mayWrite();
    const feed = startFeed({ platform, config, log, follow: false, signal, onFault });
    const onPhase = (phase: StartPhase) => report?.ended(phase);
    const onSweep = (swept: SweepReport) => syncLog.swept(swept);
    const beforeWrite = async () => {
      await mayWrite();
      hasWritten = true;
      return undefined;
    };
    const options = { platform, config, log, isRun: true, signal, onFault, onPhase, onSweep, beforeWrite };
    const agent = await startAgent(feed, options);
    const isDone = await syncUntilDone(agent, syncLog, until, report).catch(async (error: unknown) => {
      // The agent that is asked reads what was written until then.
      if (hasWritten) await mayWrite().catch(() => undefined);
      throw error;
    });
    await mayWrite();
    return isDone;
  } finally {
    faults.flush();
    syncLog.summarize();
  }
}

async function syncUntilDone(
  agent: Agent,
  syncLog: SyncLog,
  signal: AbortSignal,
  report: StartReport | undefined,
): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    const synced = await agent.loop.sync(signal);
    syncLog.synced(synced, { isFirst: true, isLast: tries === MAX_TRIES, faults: faultCounts(agent) });
    if (synced.outcome !== 'failed') report?.ended('sync');
    if (synced.outcome === 'complete') return await sweepOnce(agent, signal);
    if (tries === MAX_TRIES) return false;
    agent.loop.distrust();
    await sleep(agent.clock, RETRY_MS, signal);
  }
}

/** Resolves with true when the stale flows are gone. A table that changes all the time counts as swept after the last try. */
async function sweepOnce({ sweeper, clock }: Agent, signal: AbortSignal): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    const { outcome } = await sweeper.sweep(signal);
    if (outcome === 'complete') return true;
    if (tries === MAX_TRIES) return outcome === 'changed';
    await sleep(clock, RETRY_MS, signal);
  }
}

interface AgentForReading {
  readonly agent: Agent;
  /** The writes that the agent would make now. */
  readonly plan: Plan;
}

/** Reads the source and the kernel once, and writes nothing. Resolves with the result of `use`, after which the source is closed. */
export async function withParts<T>(
  { config, log, signal }: { readonly config: Config; readonly log: Log; readonly signal: AbortSignal },
  use: (read: AgentForReading, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  const faults = new FaultLog({ log, clock: realClock });
  try {
    const onFault = (fault: Fault) => void faults.log(fault);
    const feed = startFeed({ platform: realPlatform, config, log, follow: false, signal: until, onFault });
    const agent = await startAgent(feed, { platform: realPlatform, config, log, isRun: false, signal: until, onFault });
    const { plan } = await agent.loop.plan(until);
    return await use({ agent, plan }, until);
  } finally {
    faults.flush();
    own.abort();
  }
}
