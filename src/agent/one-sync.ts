/** One sync of an agent that runs: why it runs, who hears that it began and ended, and in which order. */

import { causeOf } from '../base/cause.ts';
import type { Config } from '../config/config.ts';
import type { RecorderHooks } from '../inspect/history/recorder.ts';
import type { SyncReason, Trigger } from '../inspect/history/records.ts';
import { whileWriting } from '../kernel/last-resort.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import { writtenChanges } from '../proxy/ledger/change-ledger.ts';
import { SyncStatus } from '../proxy/sync/sync-results.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import type { KernelWatch } from './kernel-watch.ts';
import { driftsText, faultCounts, stackLogger } from './log-lines.ts';
import type { EndedSync, Observers } from './observers.ts';
import type { Platform } from './platform.ts';
import type { ReadBudget } from './read-budget.ts';
import type { SyncLog } from './sync-log.ts';

const PORTS_FAILED = 'cannot serve health check ports';
const REPORT_FAILED = 'the report of a sync failed';

export interface GenerationOptions {
  readonly config: Config;
  readonly log: Log;
  readonly syncLog: SyncLog;
  readonly signal: AbortSignal;
  readonly observers: Observers;
  readonly recorder: RecorderHooks;
  /** Called after each sync that was not a failure as a whole. */
  readonly onSynced: () => void;
  /** The settings are no longer those that the Node and this machine ask for. */
  readonly onOutdated: () => void;
  readonly platform: Platform;
}

/** Requests to the next sync, since the last one. */
export interface SyncRequests {
  /** Another program changed the rules; `by`: its name, where it is known. */
  loss: { readonly by: Committer | undefined } | undefined;
  /** Unanswered connections are to be swept at once after it. */
  hurries: boolean;
}

interface SyncInput extends GenerationOptions {
  /** Aborts a while after the generation's signal: a write that runs then may end. */
  readonly grace: AbortSignal;
  readonly readBudget: ReadBudget;
  readonly requests: SyncRequests;
  readonly watch: KernelWatch;
}

/**
 * The scheduler's run: resolves with whether the sync was complete. An error beside it, such as in its reports, is no reason to end: it
 * is logged, and the sync runs again. Rejects when `grace` aborts.
 */
export function oneSync(agent: Agent, options: SyncInput): () => Promise<boolean> {
  const { log, syncLog, grace, observers, requests, watch, onSynced, platform } = options;
  const status = new SyncStatus();
  const logStack = stackLogger(log);
  let mustRelease = true;
  const run = async (): Promise<boolean> => {
    const { loss, hurries } = requests;
    requests.hurries = false;
    const reason = reasonOf(agent, status, options);
    const ended = await written(agent, reason, options);
    const { report } = ended;
    const hasWritten = report.outcome !== 'failed';
    logged(agent, { ...options, ended, status, loss });
    if (hasWritten) watch.begin();
    // The rules are written: clients whose flows are deleted now meet the new ones.
    if (hasWritten) agent.sweeper.request(hurries);
    else requests.hurries ||= hurries;
    await settle(observers, ended).then(
      () => syncLog.workedBeside(PORTS_FAILED, 'health check ports can be served again'),
      (error) => syncLog.failedBeside(PORTS_FAILED, causeOf(error)),
    );
    // A Service that the kernel refuses must not delay units that wait for readiness.
    if (hasWritten) onSynced();
    // Last, because it takes a moment.
    if (mustRelease && hasWritten) {
      mustRelease = false;
      platform.process.releaseMemory();
    }
    return report.outcome === 'complete';
  };
  return async () => {
    try {
      const isComplete = await run();
      syncLog.workedBeside(REPORT_FAILED, 'syncs are reported again');
      return isComplete;
    } catch (error) {
      if (grace.aborted) throw error;
      logStack(error);
      syncLog.failedBeside(REPORT_FAILED, causeOf(error), 'the sync runs again');
      return false;
    }
  };
}

/** Runs the sync. Health, history and the ledger hear of its beginning and its end, in this order. */
async function written(
  { clock, loop, kernelLock, feed }: Agent,
  reason: SyncReason,
  { observers, readBudget, recorder, grace }: SyncInput,
): Promise<EndedSync> {
  // Without the name of the program: each label of a metric is a series for ever.
  observers.metrics.current.triggered(reason.trigger);
  // The resync is due: read the kernel again.
  if (readBudget.isDue) {
    loop.distrust();
    readBudget.begun();
  }
  const [report, since] = await kernelLock.sync(async () => {
    const began = clock.now();
    observers.health.syncBegan();
    if (feed.tap !== undefined) recorder.syncBegan(reason, feed.tap);
    feed.ledger.syncBegan();
    try {
      return [await whileWriting(() => loop.sync(grace)), began] as const;
    } finally {
      observers.health.syncEnded();
    }
  });
  const changes = feed.ledger.syncEnded(writtenChanges(report));
  recorder.syncEnded(report, changes);
  if (report.reading > 0 && report.isAsLeft !== true) readBudget.took(report.reading);
  return { report, changes, since };
}

/**
 * Reports a sync, and moves the marks last: node ports on loopback are in no rule, and their relay follows the sync. Rejects where that
 * fails: for the marks the sync had no end then.
 */
export async function settle(observers: Pick<Observers, 'synced' | 'programmed'>, ended: EndedSync): Promise<void> {
  await observers.synced(ended);
  observers.programmed.synced(ended.report);
}

interface LoggedSync extends SyncInput {
  readonly ended: EndedSync;
  readonly status: SyncStatus;
  readonly loss: SyncRequests['loss'];
}

/** The sync's line in the log, and an event where another program had changed the rules. */
function logged(agent: Agent, { ended: { report }, status, loss, watch, syncLog, observers }: LoggedSync): void {
  const by = loss?.by && committerText(loss.by);
  const isFirst = status.lastComplete === undefined;
  status.record(report, agent.clock.wall());
  const isFight = report.drift.length > 0 && !watch.repaired(loss?.by);
  if (loss !== undefined) watch.spent(report.reading);
  const { failingSince } = status;
  syncLog.synced(report, { isFirst, failingSince, faults: faultCounts(agent), by, isFight });
  if (report.drift.length > 0 && !isFight) observers.events.emitDrift(driftsText(report.drift), by);
}

/** Why a sync runs. Takes the loss out of the requests. */
function reasonOf(
  { feed, mode }: Agent,
  { lastComplete, failingSince }: SyncStatus,
  { readBudget, requests }: Pick<SyncInput, 'readBudget' | 'requests'>,
): SyncReason {
  const { loss } = requests;
  requests.loss = undefined;
  const of = (trigger: Trigger): SyncReason => ({ trigger, by: '' });
  if (lastComplete === undefined && failingSince === undefined) return of('start');
  if (loss !== undefined)
    return { trigger: 'another program wrote', by: loss.by === undefined ? '' : committerText(loss.by) };
  if (readBudget.isDue) return of('resync');
  if (feed.cache.hasChanges) return of('changes');
  if (failingSince !== undefined) return of('retry');
  return of(mode.isWaiting ? 'removals were waiting' : 'resync');
}
