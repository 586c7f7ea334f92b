/** Runs one generation of the agent: syncs after changes, checks the kernel, deletes stale flows; until the agent stops or another generation takes over. */

import { causeOf } from '../base/cause.ts';
import { aborted, type Clock, sleep } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { RecorderHooks } from '../inspect/history/guarded.ts';
import type { SyncReason, Trigger } from '../inspect/history/records.ts';
import { WRITE_GRACE, whileWriting } from '../kernel/process.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import { SyncScheduler } from '../proxy/sync/scheduler.ts';
import { type SyncReport, SyncStatus } from '../proxy/sync/sync-results.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import { watchFailover } from './failover.ts';
import { KernelWatch } from './kernel-watch.ts';
import { driftsText, faultCounts, stackLogger } from './log-lines.ts';
import type { Observers } from './observers.ts';
import { watchOthers } from './other-proxies.ts';
import type { Platform } from './platform.ts';
import { firstPeriod, ReadBudget } from './read-budget.ts';
import { SWEEP_FAILED, type SyncLog } from './sync-log.ts';

/** Milliseconds that the last sweep may take. */
const LAST_SWEEP = 3000;
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

/** Resolves when the signal aborts, after the sync that is running then; rejects when the source cannot go on. */
export async function runGeneration(agent: Agent, options: GenerationOptions): Promise<void> {
  const { config, log, signal, observers, onOutdated } = options;
  const grace = graceAfter(signal, agent.clock, WRITE_GRACE);
  const readBudget = new ReadBudget(agent.clock, config);
  const asked: SyncRequests = { loss: undefined, hurries: false };
  const scheduler = new SyncScheduler({
    clock: agent.clock,
    min: config.minSyncPeriod,
    retry: config.syncPeriod,
    max: Math.max(firstPeriod(config), config.minSyncPeriod),
    run: survivingErrors(() => sync(), grace.signal, options),
  });
  const request = (isUrgent = false) => {
    observers.queued();
    scheduler.request(isUrgent);
  };
  const watch = new KernelWatch(agent, {
    ...options,
    health: observers.health,
    onLoss(by) {
      asked.loss = { by };
      request(true);
    },
    onWaiting: () => request(),
    onNoticed: (what) => observers.metrics.current.noticed(what),
    mutex: agent.kernelLock.between,
    readBudget,
  });
  const sync = syncer(agent, { ...options, grace: grace.signal, readBudget, asked, watch });
  agent.feed.onChange(() => request());
  const failover = watchFailover(agent, {
    ...options,
    onSuspects: () => {
      asked.hurries = true;
    },
  }).then(() => aborted(signal));
  request();
  const watching = watch.run();
  const sweeping = sweepOn(agent, options);
  const others = watchOthers({
    ...{ log, signal, clock: agent.clock, mutex: agent.kernelLock.between, look: agent.onNode.otherProxies },
    period: config.syncPeriod,
    others: observers.others,
    onRemoval: onOutdated,
  });
  const syncing = scheduler.start(signal);
  try {
    await Promise.race([syncing, watching, sweeping, others, failover, agent.feed.source.then(() => aborted(signal))]);
  } finally {
    // The next generation reads the kernel: no write of this one may still be on its way.
    if (signal.aborted) {
      await Promise.allSettled([syncing, watching, sweeping, others]);
      await sweepLast(agent, signal);
    }
    grace.cancel();
  }
}

/** Delete the flows that the last writes made stale: only this generation knows those of removed Services. */
async function sweepLast({ sweeper, clock }: Agent, signal: AbortSignal): Promise<void> {
  const late = graceAfter(signal, clock, LAST_SWEEP);
  await sweeper.finish(late.signal);
  late.cancel();
}

/** An error beside a sync, such as in its reports, is no reason to end: it is logged, and the sync runs again. */
function survivingErrors(
  run: () => Promise<boolean>,
  grace: AbortSignal,
  { log, syncLog }: Pick<GenerationOptions, 'log' | 'syncLog'>,
): () => Promise<boolean> {
  const logStack = stackLogger(log);
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

/** The scheduler's run: one sync and its reports. */
function syncer(agent: Agent, options: GenerationOptions & SyncerInput): () => Promise<boolean> {
  const { syncLog, grace, observers, readBudget, recorder, watch, onSynced, platform } = options;
  const { clock, loop, kernelLock } = agent;
  const status = new SyncStatus();
  let mustRelease = true;
  return async () => {
    const { loss, hurries } = options.asked;
    options.asked.hurries = false;
    const by = loss?.by;
    const reason = reasonOf(agent, status, options);
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
      if (agent.feed.tap !== undefined) recorder.syncBegan(reason, agent.feed.tap);
      observers.programmed.syncBegan();
      try {
        return [await whileWriting(() => loop.sync(grace)), began] as const;
      } finally {
        observers.health.syncEnded();
      }
    });
    recorder.syncEnded(report);
    if (report.reading > 0 && report.isAsLeft !== true) readBudget.took(report.reading);
    const isFirst = status.lastComplete === undefined;
    status.record(report, clock.wall());
    const isFight = report.drift.length > 0 && !watch.repaired(by);
    if (loss !== undefined) watch.spent(report.reading);
    const { failingSince } = status;
    const circumstances = { isFirst, failingSince, faults: faultCounts(agent), by: by && committerText(by), isFight };
    syncLog.synced(report, circumstances);
    if (report.drift.length > 0 && !isFight)
      observers.events.emitDrift(driftsText(report.drift), by && committerText(by));
    if (report.outcome !== 'failed') watch.begin();
    // The rules are written: clients whose flows are deleted now meet the new ones.
    if (report.outcome !== 'failed') agent.sweeper.request(hurries);
    else options.asked.hurries ||= hurries;
    await settle(observers, report, since).then(
      () => syncLog.workedBeside(PORTS_FAILED, 'health check ports can be served again'),
      (error) => syncLog.failedBeside(PORTS_FAILED, causeOf(error)),
    );
    // A Service that the kernel refuses must not delay units that wait for readiness.
    if (report.outcome !== 'failed') onSynced();
    // Last: it takes a moment, and nobody should wait for it.
    if (mustRelease && report.outcome !== 'failed') {
      mustRelease = false;
      platform.process.releaseMemory();
    }
    return report.outcome === 'complete';
  };
}

/**
 * Reports a sync, and moves the marks last: node ports on loopback are in no rule, and their relay follows the sync. Rejects where that
 * fails: for the marks the sync had no end then. `since`: as of `Observers.synced`.
 */
export async function settle(
  observers: Pick<Observers, 'synced' | 'programmed'>,
  report: SyncReport,
  since: number,
): Promise<void> {
  await observers.synced(report, since);
  observers.programmed.syncEnded(report);
}

interface SyncerInput {
  readonly grace: AbortSignal;
  readonly readBudget: ReadBudget;
  readonly asked: SyncRequests;
  readonly watch: KernelWatch;
}

/** What the check of the kernel asked for since the last sync. */
interface SyncRequests {
  /** `by`: the program that changed the rules, where it is known. */
  loss: { readonly by: Committer | undefined } | undefined;
  /** Unanswered connections are to be swept at once after it. */
  hurries: boolean;
}

/** Why a sync runs. */
function reasonOf(
  { feed, mode }: Agent,
  { lastComplete, failingSince }: SyncStatus,
  { readBudget, asked }: { readonly readBudget: ReadBudget; readonly asked: SyncRequests },
): SyncReason {
  const { loss } = asked;
  asked.loss = undefined;
  const of = (trigger: Trigger): SyncReason => ({ trigger, by: '' });
  if (lastComplete === undefined && failingSince === undefined) return of('start');
  if (loss !== undefined)
    return { trigger: 'another program wrote', by: loss.by === undefined ? '' : committerText(loss.by) };
  if (readBudget.isDue) return of('resync');
  if (feed.cache.hasChanges) return of('changes');
  if (failingSince !== undefined) return of('retry');
  return of(mode.isWaiting ? 'removals were waiting' : 'resync');
}

/** Sweep until the agent stops. After an error the sweep starts over, and finds the stale flows again. */
async function sweepOn({ sweeper, clock }: Agent, { config, log, syncLog, signal }: GenerationOptions): Promise<void> {
  const logStack = stackLogger(log);
  while (!signal.aborted) {
    try {
      await sweeper.start(signal);
    } catch (error) {
      if (signal.aborted) return;
      logStack(error);
      syncLog.failedBeside(SWEEP_FAILED, causeOf(error), 'it starts over');
      sweeper.request();
      await sleep(clock, config.syncPeriod, signal).catch(() => undefined);
    }
  }
}

interface Grace {
  readonly signal: AbortSignal;
  cancel(): void;
}

/** A signal that aborts some milliseconds after another one: a write that is running then may end. `cancel` drops it. */
function graceAfter(signal: AbortSignal, clock: Clock, time: number): Grace {
  const late = new AbortController();
  let cancel = () => {};
  const begin = () => {
    cancel = clock.after(time, () => late.abort(signal.reason));
  };
  if (signal.aborted) begin();
  else signal.addEventListener('abort', begin, { once: true });
  return {
    signal: late.signal,
    cancel() {
      signal.removeEventListener('abort', begin);
      cancel();
    },
  };
}
