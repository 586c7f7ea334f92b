/** One life of the agent's parts: sync after changes, look after the kernel, delete stale flows; until the agent stops, or its parts must be built anew. */
import type { Config } from '../config/config.ts';
import { aborted, type Clock, sleep } from '../host/clock.ts';
import { WRITE_GRACE, whileWriting } from '../host/last-resort.ts';
import { releaseMemory } from '../host/memory.ts';
import { notifySupervisor } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import { createMutex, type Mutex } from '../model/mutex.ts';
import type { Mode } from '../modes/mode.ts';
import { SyncScheduler } from '../sync/scheduler.ts';
import { SyncStatus } from '../sync/status.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import { faultCounts, logReport, logSteps, stackLogger } from './log-lines.ts';
import { firstPeriod, Readings } from './readings.ts';
import type { Serving } from './servers.ts';

/** Milliseconds that a look may read. */
const LONGEST_READING = 30_000;
/** Milliseconds that the last sweep may take. */
const LAST_SWEEP = 3000;

export interface FollowOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly serving: Serving;
  /** Called after each sync that was not a failure as a whole. */
  readonly onSynced: () => void;
  /** The settings are no longer those that the Node and this machine ask for. */
  readonly onOutdated: () => void;
}

/** Resolves when the signal aborts, after the sync that goes on then; rejects when the source cannot go on. */
export async function follow(agent: Agent, options: FollowOptions): Promise<void> {
  const { config, log, signal, serving } = options;
  logSteps(agent.mode, log);
  // A look at the kernel in the midst of a sync would see half of it, and take what the sync asked for.
  const mutex = createMutex();
  const grace = graceAfter(signal, agent.clock, WRITE_GRACE);
  const readings = new Readings(agent.clock, config);
  const scheduler = new SyncScheduler({
    clock: agent.clock,
    min: config.minSyncPeriod,
    retry: config.syncPeriod,
    max: Math.max(firstPeriod(config), config.minSyncPeriod),
    run: untiring(syncer(agent, { ...options, grace: grace.signal, readings }, mutex), grace.signal, log),
  });
  const request = () => {
    serving.queued();
    scheduler.request();
  };
  agent.feed.onChange(request);
  request();
  const guard = watchKernel(agent, { ...options, onLoss: request, mutex, readings });
  const sweeping = sweepOn(agent, options);
  const syncing = scheduler.start(signal);
  try {
    await Promise.race([syncing, guard, sweeping, agent.feed.source.then(() => aborted(signal))]);
  } finally {
    // Who comes next must find the kernel as this one left it: no write of ours may still be on its way.
    if (signal.aborted) {
      await Promise.allSettled([syncing, guard, sweeping]);
      await sweepLast(agent, signal);
    }
    grace.cancel();
  }
}

/** Flows that the last writes made stale: nobody after this would know of those of Services that are gone. */
async function sweepLast({ sweeper, clock }: Agent, signal: AbortSignal): Promise<void> {
  const late = graceAfter(signal, clock, LAST_SWEEP);
  await sweeper.finish(late.signal);
  late.cancel();
}

/** Whatever is thrown beside a sync, where it is told or served, is no reason to end: it is told, and the sync made again. */
function untiring(run: () => Promise<boolean>, grace: AbortSignal, log: Log): () => Promise<boolean> {
  const logStack = stackLogger(log);
  return async () => {
    try {
      return await run();
    } catch (error) {
      if (grace.aborted) throw error;
      logStack(error);
      log.error(`what a sync did cannot be told: ${causeOf(error)}; it will be made again`);
      return false;
    }
  };
}

/** What the scheduler runs: one sync, and what follows from it. */
function syncer(
  agent: Agent,
  options: FollowOptions & { readonly grace: AbortSignal; readonly readings: Readings },
  mutex: Mutex,
): () => Promise<boolean> {
  const { log, grace, serving, readings, onSynced } = options;
  const { clock, loop } = agent;
  const status = new SyncStatus();
  return async () => {
    // A run that no request asked for is the resync: the kernel is read again.
    if (readings.isDue) {
      loop.distrust();
      readings.begun();
    }
    const [report, since] = await mutex(async () => {
      const began = clock.now();
      serving.health.syncBegan();
      try {
        return [await whileWriting(() => loop.sync(grace)), began] as const;
      } finally {
        serving.health.syncEnded();
      }
    });
    if (report.reading > 0) readings.took(report.reading);
    const isFirst = status.lastComplete === undefined;
    status.record(report, clock.wall());
    logReport(report, log, { isFirst, failingSince: status.failingSince, faults: faultCounts(agent) });
    if (isFirst && report.outcome === 'complete') releaseMemory();
    // Who was rejected or went to the old endpoint must find the new rules: they are written now.
    if (report.outcome !== 'failed') agent.sweeper.request();
    await serving.synced(report, since).catch((error) => log.error(`cannot serve health checks: ${causeOf(error)}`));
    // One Service that the kernel refuses must not keep anybody waiting.
    if (report.outcome !== 'failed') onSynced();
    return report.outcome === 'complete';
  };
}

/** Sweep until the agent stops, whatever is thrown meanwhile: flows that are stale are still to be found then. */
async function sweepOn({ sweeper, clock }: Agent, { config, log, signal }: FollowOptions): Promise<void> {
  const logStack = stackLogger(log);
  while (!signal.aborted) {
    try {
      await sweeper.start(signal);
    } catch (error) {
      if (signal.aborted) return;
      logStack(error);
      log.error(`the sweep of stale flows broke off: ${causeOf(error)}; it begins again`);
      sweeper.request();
      await sleep(clock, config.syncPeriod, signal).catch(() => undefined);
    }
  }
}

interface WatchOptions extends FollowOptions {
  /** Sync again. */
  readonly onLoss: () => void;
  readonly mutex: Mutex;
  readonly readings: Readings;
}

/** Look every syncPeriod whether the rules still stand; when another program flushed them, sync at once (k8s#129128). */
async function watchKernel(agent: Agent, options: WatchOptions): Promise<void> {
  const { config, log, signal, onLoss, mutex, serving, readings, onOutdated } = options;
  const { clock, mode, loop } = agent;
  while (!signal.aborted) {
    serving.health.looked();
    await sleep(clock, config.syncPeriod, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (mode.isWaiting) onLoss();
      if (!(await agent.here.isCurrent())) {
        log.info('what the Node, the cluster or this machine says changed: building on what is so now');
        onOutdated();
      }
      // Before the first sync is complete there is nothing to look for yet; what is pending then is told as that.
      const seen = await mutex(() => lookAt(mode, signal));
      if (seen === 'stands' || seen === 'unclear') serving.health.verified();
      if (seen === 'unclear') {
        if (!readings.mayRead || !(await mustRead(agent, options))) continue;
      } else if (seen === 'gone') {
        log.warn('rules are gone that were written: another program flushed them; writing them again');
      } else continue;
      loop.distrust();
      readings.begun();
      onLoss();
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      serving.health.notVerified(cause);
      log.warn({ cause }, `cannot tell whether the rules still stand: ${cause}`);
    }
  }
}

/**
 * Read whether what another program wrote concerns our rules, or may. Syncs go on meanwhile: iptables-save begins anew whenever the ruleset
 * changes, and does not end beside a program that writes all the time where the rules are many.
 */
async function mustRead({ mode, clock }: Agent, { log, signal, mutex, readings }: WatchOptions): Promise<boolean> {
  const late = new AbortController();
  const cancel = clock.after(LONGEST_READING, () => late.abort());
  const began = clock.now();
  try {
    const { reading } = await mutex(() => {
      const reading =
        mode.differs?.(AbortSignal.any([signal, late.signal])) ?? Promise.resolve<boolean | undefined>(false);
      // It is waited for below, out of turn.
      reading.catch(() => undefined);
      return Promise.resolve({ reading });
    });
    const isOther = await reading;
    const milliseconds = Math.round(clock.now() - began);
    const found = isOther === undefined ? 'changed meanwhile' : isOther ? 'are others now' : 'stand';
    log.debug({ milliseconds }, `another program wrote rules: ours ${found}`);
    // Where syncs write all the time, only one that reads itself finds out.
    return isOther !== false;
  } catch (error) {
    if (!late.signal.aborted) throw error;
    const after = `${LONGEST_READING / 1000} s`;
    log.warn(
      `cannot tell whether all rules still stand: reading them did not end in ${after}, for other programs write all the time`,
    );
    return false;
  } finally {
    cancel();
    readings.looked(clock.now() - began);
  }
}

type Seen = 'nothing yet' | 'stands' | 'gone' | 'unclear';

async function lookAt(mode: Mode, signal: AbortSignal): Promise<Seen> {
  if (!mode.isObserved) return 'nothing yet';
  if (!(await mode.probe(signal))) return 'gone';
  return (await mode.mayDiffer?.()) === true ? 'unclear' : 'stands';
}

interface Grace {
  readonly signal: AbortSignal;
  /** It is not needed any more. */
  cancel(): void;
}

/** A signal that aborts some time after another: a write that goes on then may end. */
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

/** The supervisor may start what needs Services. That it cannot be told is no reason to stop. */
export async function notifyReady(log: Log): Promise<void> {
  try {
    await notifySupervisor('READY=1', 'STATUS=the rules are in place');
  } catch (error) {
    log.warn(`cannot tell the supervisor that the agent is ready: ${causeOf(error)}`);
  }
}
