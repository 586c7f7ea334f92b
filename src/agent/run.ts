/** Runs one generation of the agent, until the agent stops or another generation takes over: what starts, and what ends. */

import { causeOf } from '../base/cause.ts';
import { aborted, type Clock, sleep } from '../base/clock.ts';
import { WRITE_GRACE } from '../kernel/last-resort.ts';
import { SyncScheduler } from '../proxy/sync/scheduler.ts';
import type { Agent } from './agent.ts';
import { watchFailover } from './failover.ts';
import { KernelWatch } from './kernel-watch.ts';
import { stackLogger } from './log-lines.ts';
import { type GenerationOptions, oneSync, type SyncRequests } from './one-sync.ts';
import { watchOthers } from './other-proxies.ts';
import { firstPeriod, ReadBudget } from './read-budget.ts';
import { SWEEP_FAILED } from './sync-log.ts';

/** Milliseconds that the last sweep may take. */
const LAST_SWEEP = 3000;

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
      requests.loss = { by };
      request(true);
    },
    onWaiting: () => request(),
    onNoticed: (what) => observers.metrics.current.noticed(what),
    mutex: kernelLock.between,
    readBudget,
  });
  const sync = oneSync(agent, { ...options, grace: grace.signal, readBudget, requests, watch });
  feed.onChange(() => request());
  const failover = watchFailover(agent, {
    ...options,
    onSuspects: () => {
      requests.hurries = true;
    },
  }).then(() => aborted(signal));
  request();
  const watching = watch.run();
  const sweeping = sweepOn(agent, options);
  const others = watchOthers({
    ...{ log, signal, clock, mutex: kernelLock.between, look: agent.onNode.otherProxies },
    period: config.syncPeriod,
    others: observers.others,
    onRemoval: onOutdated,
  });
  const syncing = scheduler.start(signal);
  try {
    await Promise.race([syncing, watching, sweeping, others, failover, feed.source.then(() => aborted(signal))]);
  } finally {
    // The next generation reads the kernel: no write of this one may still be on its way.
    if (signal.aborted) {
      await Promise.allSettled([syncing, watching, sweeping, others]);
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
  const late = graceAfter(signal, clock, LAST_SWEEP);
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
