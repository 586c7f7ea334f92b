/** `slicewire run`: the agent. */

import type { Config } from '../config/config.ts';
import { sleep } from '../host/clock.ts';
import { releaseMemory } from '../host/memory.ts';
import { tellSupervisor } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import type { Mode } from '../modes/mode.ts';
import { stepText } from '../reconcile/step.ts';
import { SyncScheduler } from '../sync/scheduler.ts';
import { type SyncReport, SyncStatus } from '../sync/status.ts';
import type { Log } from '../telemetry/log.ts';
import { type Agent, startAgent } from './agent.ts';

/** Without any request the state is compared with the kernel's this often (reference 10.1). */
const RESYNC = 60 * 60 * 1000;
/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does, but for no more than this share of the time. */
const READING_SHARE = 0.01;
/** With --once, milliseconds between tries until everything is applied. */
const ONCE_RETRY = 1000;
/** With --once, tries before giving up. */
const ONCE_TRIES = 5;

export interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves with the exit status. Stopping removes nothing (invariant 10). */
export async function runCommand({ config, log, signal }: RunOptions): Promise<number> {
  log.info({ node: config.nodeName, mode: config.mode, source: config.source }, 'starting');
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  try {
    const agent = await startAgent({ config, log, follow: !config.once, writesSettings: true, signal: until });
    tellSteps(agent.mode, log);
    if (config.once) return await syncOnce(agent, log, until);
    await follow(agent, { config, log, signal: until });
    return 0;
  } catch (error) {
    if (signal.aborted && !config.once) {
      log.info('stopped; the rules stay in place');
      return 0;
    }
    throw error;
  } finally {
    own.abort();
  }
}

async function syncOnce(agent: Agent, log: Log, signal: AbortSignal): Promise<number> {
  for (let tries = 1; ; tries++) {
    const report = await agent.loop.sync(signal);
    tellReport(report, log, { isFirst: true, faults: faultCounts(agent) });
    if (report.outcome === 'complete') return (await sweepOnce(agent, signal)) ? 0 : 1;
    if (tries === ONCE_TRIES) return 1;
    agent.loop.distrust();
    await sleep(agent.clock, ONCE_RETRY, signal);
  }
}

/** Whether the stale flows are gone; a table that changes all the time is taken as it was seen last. */
async function sweepOnce({ sweeper, clock }: Agent, signal: AbortSignal): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    const { outcome } = await sweeper.sweep(signal);
    if (outcome === 'complete') return true;
    if (tries === ONCE_TRIES) return outcome === 'changed';
    await sleep(clock, ONCE_RETRY, signal);
  }
}

async function follow(agent: Agent, { config, log, signal }: RunOptions): Promise<void> {
  const status = new SyncStatus();
  const { clock, loop } = agent;
  let lastFull = clock.now();
  let period = config.mode === 'ipvs' ? config.syncPeriod : RESYNC;
  // A look at the kernel in the midst of a sync would see half of it, and take what the sync asked for.
  const inTurn = turns();
  let isBusy = false;
  let isReady = false;
  const run = async () => {
    // A run that no request asked for is the resync: the kernel is read again.
    if (clock.now() - lastFull >= period) {
      loop.distrust();
      lastFull = clock.now();
    }
    isBusy = true;
    const report = await inTurn(() => loop.sync(signal));
    isBusy = false;
    if (config.mode === 'ipvs' && report.reading > 0) {
      period = Math.max(config.syncPeriod, report.reading / READING_SHARE);
    }
    const isFirst = status.lastComplete === undefined;
    status.record(report, clock.wall());
    tellReport(report, log, { isFirst, failingSince: status.failingSince, faults: faultCounts(agent) });
    if (isFirst && report.outcome === 'complete') releaseMemory();
    // Who was rejected or went to the old endpoint must find the new rules: they are written now.
    if (report.outcome !== 'failed') agent.sweeper.request();
    // One Service that the kernel refuses must not keep the supervisor waiting.
    if (!isReady && report.outcome !== 'failed') {
      isReady = true;
      await tellReady(log);
    }
    return report.outcome === 'complete';
  };
  const scheduler = new SyncScheduler({
    clock,
    min: config.minSyncPeriod,
    retry: config.syncPeriod,
    max: Math.max(period, config.minSyncPeriod),
    run,
  });
  agent.onChange(() => scheduler.request());
  scheduler.request();
  const guard = watchKernel(agent, {
    config,
    log,
    signal,
    onLoss: () => scheduler.request(),
    isBusy: () => isBusy,
    inTurn,
  });
  const sweeping = agent.sweeper.start(signal);
  await Promise.race([scheduler.start(signal), guard, sweeping, agent.source.then(() => waitFor(signal))]);
  log.info('stopped; the rules stay in place');
}

interface WatchOptions extends RunOptions {
  /** Sync again. */
  readonly onLoss: () => void;
  readonly isBusy: () => boolean;
  readonly inTurn: InTurn;
}

/** Does one work after another; what one throws is its own. */
type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

function turns(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}

/** Look every syncPeriod whether the rules still stand; when another program flushed them, sync at once (k8s#129128). */
async function watchKernel(
  { clock, mode, loop }: Agent,
  { config, log, signal, onLoss, isBusy, inTurn }: WatchOptions,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, config.syncPeriod, signal).catch(() => undefined);
    if (signal.aborted) return;
    // Before the first sync is complete, and while one goes on, there is nothing to look for yet.
    if (!mode.isObserved || isBusy()) continue;
    if (mode.isWaiting) onLoss();
    try {
      if (await inTurn(() => mode.probe(signal))) continue;
      log.warn('rules are gone that were written: another program flushed them; writing them again');
      loop.distrust();
      onLoss();
    } catch (error) {
      const cause = causeOf(error);
      if (!signal.aborted) log.warn({ cause }, `cannot tell whether the rules still stand: ${cause}`);
    }
  }
}

/** The supervisor may start what needs Services. That it cannot be told is no reason to stop. */
async function tellReady(log: Log): Promise<void> {
  try {
    await tellSupervisor('READY=1', 'STATUS=the rules are in place');
  } catch (error) {
    log.warn(`cannot tell the supervisor that the agent is ready: ${(error as Error).message}`);
  }
}

/** At debug level, tell each step of each plan that is applied. */
function tellSteps(mode: Mode, log: Log): void {
  if (!log.isLevelEnabled('debug')) return;
  const apply = mode.apply.bind(mode);
  mode.apply = (plan, signal) => {
    for (const step of plan.steps) log.debug(stepText(step));
    return apply(plan, signal);
  };
}

function faultCounts({ cache, loop }: Agent): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { counts: some } of [cache.faults, loop.faults]) {
    for (const [effect, count] of some) counts[effect] = (counts[effect] ?? 0) + count;
  }
  return counts;
}

interface Circumstances {
  /** No sync was complete before: an operator wants to see the first, also when there was nothing to do. */
  readonly isFirst: boolean;
  readonly failingSince?: number | undefined;
  /** Faults of the objects as they are now, by what follows from them. */
  readonly faults: Readonly<Record<string, number>>;
}

function tellReport(report: SyncReport, log: Log, { isFirst, failingSince, faults }: Circumstances): void {
  const { outcome, applied: steps } = report;
  const facts = { outcome, steps, milliseconds: Math.round(report.duration), faults };
  if (report.drift.length > 0) {
    log.warn({ drift: report.drift.slice(0, 20), count: report.drift.length }, 'another program had changed our rules');
  }
  for (const step of report.failed) {
    const who = step.owner === undefined ? step.key : `Service ${step.owner} is set aside: ${step.key}`;
    log.error({ step: step.key, service: step.owner }, `${who}: ${step.cause}`);
  }
  if (report.outcome === 'complete') {
    if (report.applied > 0) log.info(facts, 'synced');
    else log[isFirst ? 'info' : 'debug'](facts, 'synced, nothing to do');
    return;
  }
  const since = failingSince === undefined ? undefined : new Date(failingSince).toISOString();
  log.error({ ...facts, since }, 'sync not complete; it will be tried again');
}

function waitFor(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
