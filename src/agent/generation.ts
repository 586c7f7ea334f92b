/** Runs one generation of the agent, with all its syncs, until the agent stops or another generation takes over. */
import { causeOf } from '../base/cause.ts';
import { aborted, type Clock, sleep } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { RecorderHooks } from '../inspect/history/recorder.ts';
import type { SyncReason, Trigger } from '../inspect/history/records.ts';
import { WRITE_GRACE, whileWriting } from '../kernel/process.ts';
import { type Committer, committerText } from '../kernel/ruleset-notices.ts';
import { writtenChanges } from '../proxy/ledger/change-ledger.ts';
import { SyncScheduler } from '../proxy/sync/scheduler.ts';
import { SyncStatus } from '../proxy/sync/sync-results.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import type { Datapath } from './datapath/datapath.ts';
import { watchDatapath } from './datapath-watch.ts';
import { watchFailover } from './failover.ts';
import { watchFullTable } from './full-table.ts';
import { firstPeriod, KernelWatch, ReadBudget } from './kernel-watch.ts';
import { driftsText, faultCounts, stackLogger } from './log-lines.ts';
import type { EndedSync, Observers } from './observers.ts';
import { watchOthers } from './other-proxies.ts';
import type { Platform } from './platform.ts';
import { SWEEP_FAILED, type SyncLog } from './sync-log.ts';
import type { Takeover } from './takeover/takeover.ts';

const LAST_SWEEP_TIMEOUT_MS = 3000;

/** Resolves when the signal aborts, after the sync that is running then; rejects when the source cannot go on. */
export async function runGeneration(agent: Agent, options: GenerationOptions): Promise<void> {
  const { config, log, signal, observers, onOutdated } = options;
  const { clock, feed, kernelLock } = agent;
  const grace = graceAfter(signal, clock, WRITE_GRACE);
  const readBudget = new ReadBudget(clock, config);
  const requests: SyncRequests = { loss: undefined, hurries: false };
  const scheduler = new SyncScheduler({
    clock,
    min: config.minSyncPeriod,
    retry: config.syncPeriod,
    max: Math.max(firstPeriod(config), config.minSyncPeriod),
    run: () => sync(),
  });
  const request = (isUrgent = false) => {
    observers.queued();
    scheduler.request(isUrgent);
  };
  const watch = new KernelWatch(agent, {
    ...options,
    health: observers.health,
    onLoss(by) {
      requests.loss = { by: by ?? requests.loss?.by };
      request(true);
    },
    onWaiting: () => request(),
    onNoticed: (touched) => observers.metrics.current.noticed(touched),
    mutex: kernelLock.between,
    readBudget,
  });
  const written = Promise.withResolvers<void>();
  const onSynced = () => {
    written.resolve();
    options.onSynced();
  };
  const sync = oneSync(agent, { ...options, onSynced, grace: grace.signal, readBudget, requests, watch });
  feed.onChange(() => request());
  const failover = watchFailover(agent, {
    ...options,
    onSuspects: () => {
      requests.hurries = true;
    },
  }).then(() => aborted(signal));
  request();
  const takingOver = options.takeover.watch(signal, () => request(true));
  const asking = watchDatapath(agent, {
    ...options,
    clock,
    written: written.promise,
    isHeld: () => options.takeover.isHeld,
    onRound: observers.askedPaths,
  }).then(() => aborted(signal));
  const watching = watch.run();
  const sweeping = sweepOn(agent, options);
  const others = watchOthers({
    ...{ log, signal, clock, mutex: kernelLock.between, look: agent.onNode.otherProxies },
    period: config.syncPeriod,
    others: observers.others,
    onRemoval: onOutdated,
  });
  const filling = watchFullTable({
    ...{ log, clock, signal, settings: options.platform.kernel.settings, open: options.platform.kernel.openFlowTable },
    lookup: (at) => agent.model.frontend(at),
    nodeAddresses: agent.onNode.nodeAddresses,
  }).then(() => aborted(signal));
  const syncing = scheduler.start(signal);
  try {
    await Promise.race([
      syncing,
      watching,
      sweeping,
      others,
      failover,
      takingOver,
      asking,
      filling,
      feed.source.then(() => aborted(signal)),
    ]);
  } finally {
    // The next generation reads the kernel: no write of this one may still be on its way.
    if (signal.aborted) {
      await Promise.allSettled([syncing, watching, sweeping, others, takingOver, asking, filling]);
      await sweepLast(agent, signal);
    }
    grace.cancel();
  }
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

/** Delete the flows that the last writes made stale: only this generation knows those of removed Services. */
async function sweepLast({ sweeper, clock }: Agent, signal: AbortSignal): Promise<void> {
  const late = graceAfter(signal, clock, LAST_SWEEP_TIMEOUT_MS);
  await sweeper.finish(late.signal);
  late.cancel();
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

const PORTS_FAILED = 'cannot serve health check ports';
const REPORT_FAILED = 'the report of a sync failed';

interface GenerationOptions {
  readonly config: Config;
  readonly log: Log;
  readonly syncLog: SyncLog;
  readonly signal: AbortSignal;
  readonly observers: Observers;
  readonly recorder: RecorderHooks;
  /** Called after each sync that wrote something, or found nothing to write. */
  readonly onSynced: () => void;
  /** Called when the Node or this machine needs other settings, and thus another generation. */
  readonly onOutdated: () => void;
  readonly takeover: Takeover;
  readonly datapath: Datapath;
  readonly platform: Platform;
  /** See `KernelWatchOptions`. */
  readonly timesAsked: () => number;
}

/** Requests for the next sync, collected since the last one. */
interface SyncRequests {
  /** Another program changed the rules. `by` is that program, where it is known. */
  loss: { readonly by: Committer | undefined } | undefined;
  /** Sweep unanswered connections at once after the sync. */
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
 * The scheduler's run: resolves with whether the sync was complete. An error beside it, such as in its reports, does not end the agent: it
 * is logged, and the sync runs again. Rejects when `grace` aborts.
 */
function oneSync(agent: Agent, options: SyncInput): () => Promise<boolean> {
  const { log, syncLog, grace, observers, requests, watch, onSynced, takeover, platform } = options;
  const status = new SyncStatus();
  const logStack = stackLogger(log);
  let mustRelease = true;
  const run = async (): Promise<boolean> => {
    const { hurries } = requests;
    requests.hurries = false;
    const { ended, loss } = await runSync(agent, status, options);
    const { report } = ended;
    const hasWritten = report.outcome !== 'failed';
    takeover.synced(report);
    logSync(agent, { ...options, ended, status, loss });
    if (hasWritten) watch.begin();
    // The rules are written: clients whose flows are deleted now meet the new ones.
    if (hasWritten) agent.sweeper.request(hurries);
    else requests.hurries ||= hurries;
    const isSettled = await settle(observers, ended).then(
      () => true,
      (error) => {
        syncLog.failedBeside(PORTS_FAILED, causeOf(error), 'the sync runs again');
        return false;
      },
    );
    if (isSettled) syncLog.workedBeside(PORTS_FAILED, 'health check ports can be served again');
    // A Service that the kernel refuses must not delay units that wait for readiness.
    if (hasWritten) onSynced();
    // Last, because it takes a moment.
    if (mustRelease && hasWritten) {
      mustRelease = false;
      platform.process.releaseMemory();
    }
    return report.outcome === 'complete' && isSettled;
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

/**
 * Runs the sync, and reports its beginning and its end to health, history and the ledger, in this order. The watch is asked before, so that the
 * reason and the name of another program are known.
 */
export async function runSync(
  agent: Agent,
  status: SyncStatus,
  options: Pick<SyncInput, 'observers' | 'readBudget' | 'recorder' | 'requests' | 'grace' | 'watch'>,
): Promise<{ readonly ended: EndedSync; readonly loss: SyncRequests['loss'] }> {
  const { clock, loop, kernelLock, feed } = agent;
  const { observers, readBudget, recorder, requests, grace, watch } = options;
  const { report, since, loss } = await kernelLock.sync(async () => {
    const found = await watch.syncBegins();
    // From here on nothing is awaited until the loop takes the changes. A change in between would be written, and count as not taken.
    if (found !== undefined) requests.loss = { by: requests.loss?.by ?? found.by };
    const { loss } = requests;
    const reason = reasonOf(agent, status, options);
    // The name of the program is no label, because each value of a label is a series forever.
    observers.metrics.current.triggered(reason.trigger);
    // A resync reads the kernel again.
    if (readBudget.isDue) {
      loop.distrust();
      readBudget.begun();
    }
    const since = clock.now();
    observers.health.syncBegan();
    if (feed.tap !== undefined) recorder.syncBegan(reason, feed.tap);
    feed.ledger.syncBegan();
    try {
      return { report: await whileWriting(() => loop.sync(grace)), since, loss };
    } finally {
      observers.health.syncEnded();
    }
  });
  const changes = feed.ledger.syncEnded(writtenChanges(report));
  recorder.syncEnded(report, changes);
  if (report.reading > 0 && report.isAsLeft !== true) readBudget.took(report.reading);
  return { ended: { report, changes, since }, loss };
}

/**
 * Reports a sync, and moves the marks last: node ports on loopback are in no rule, and their relay follows the sync. Rejects where a report
 * fails; the marks then stay.
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

/** Logs the sync, and emits an event where another program had changed the rules. */
function logSync(agent: Agent, { ended: { report }, status, loss, watch, syncLog, observers }: LoggedSync): void {
  const committer = loss?.by ?? report.by;
  const by = committer && committerText(committer);
  const isFirst = status.lastComplete === undefined;
  status.record(report, agent.clock.wall());
  const isFight = report.drift.length > 0 && !watch.repaired(committer);
  if (loss !== undefined) watch.spent(report.reading);
  const { failingSince } = status;
  syncLog.synced(report, { isFirst, failingSince, faults: faultCounts(agent), by, isFight });
  if (report.drift.length > 0 && !isFight) observers.events.emitDrift(driftsText(report.drift), by);
}

/** The reason why a sync runs. It takes the loss out of the requests. */
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
