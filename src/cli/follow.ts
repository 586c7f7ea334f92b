/** One life of the agent's parts: sync after changes, look after the kernel, delete stale flows; until the agent stops, or its parts must be built anew. */
import type { Config } from '../config/config.ts';
import { aborted, type Clock, sleep } from '../host/clock.ts';
import { WRITE_GRACE, whileWriting } from '../host/last-resort.ts';
import { releaseMemory } from '../host/memory.ts';
import { tellSupervisor } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import { type InTurn, turns } from '../model/turns.ts';
import { SyncScheduler } from '../sync/scheduler.ts';
import { SyncStatus } from '../sync/status.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import { faultCounts } from './faults.ts';
import { tellReport, tellSteps } from './reports.ts';
import type { Serving } from './serving.ts';

/** Without any request the state is compared with the kernel's this often (reference 10.1). */
const RESYNC = 60 * 60 * 1000;
/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does, but for no more than this share of the time. */
const READING_SHARE = 0.01;

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
  tellSteps(agent.mode, log);
  // A look at the kernel in the midst of a sync would see half of it, and take what the sync asked for.
  const inTurn = turns();
  const grace = graceAfter(signal, agent.clock);
  const scheduler = new SyncScheduler({
    clock: agent.clock,
    min: config.minSyncPeriod,
    retry: config.syncPeriod,
    max: Math.max(firstPeriod(config), config.minSyncPeriod),
    run: syncer(agent, { ...options, grace: grace.signal }, inTurn),
  });
  const request = () => {
    serving.queued();
    scheduler.request();
  };
  agent.world.onChange(request);
  request();
  const guard = watchKernel(agent, { ...options, onLoss: request, inTurn });
  const sweeping = agent.sweeper.start(signal);
  const syncing = scheduler.start(signal);
  try {
    await Promise.race([syncing, guard, sweeping, agent.world.source.then(() => aborted(signal))]);
  } finally {
    // Who comes next must find the kernel as this one left it: no write of ours may still be on its way.
    if (signal.aborted) await Promise.allSettled([syncing, guard, sweeping]);
    grace.cancel();
  }
}

function firstPeriod({ mode, syncPeriod }: Config): number {
  return mode === 'ipvs' ? syncPeriod : RESYNC;
}

/** What the scheduler runs: one sync, and what follows from it. */
function syncer(
  agent: Agent,
  options: FollowOptions & { readonly grace: AbortSignal },
  inTurn: InTurn,
): () => Promise<boolean> {
  const { config, log, grace, serving, onSynced } = options;
  const { clock, loop } = agent;
  const status = new SyncStatus();
  let lastFull = clock.now();
  let period = firstPeriod(config);
  return async () => {
    // A run that no request asked for is the resync: the kernel is read again.
    if (clock.now() - lastFull >= period) {
      loop.distrust();
      lastFull = clock.now();
    }
    const [report, since] = await inTurn(async () => {
      const began = clock.now();
      return [await whileWriting(() => loop.sync(grace)), began] as const;
    });
    if (config.mode === 'ipvs' && report.reading > 0) {
      period = Math.max(config.syncPeriod, report.reading / READING_SHARE);
    }
    const isFirst = status.lastComplete === undefined;
    status.record(report, clock.wall());
    tellReport(report, log, { isFirst, failingSince: status.failingSince, faults: faultCounts(agent) });
    if (isFirst && report.outcome === 'complete') releaseMemory();
    // Who was rejected or went to the old endpoint must find the new rules: they are written now.
    if (report.outcome !== 'failed') agent.sweeper.request();
    await serving.synced(report, since).catch((error) => log.error(`cannot serve health checks: ${causeOf(error)}`));
    // One Service that the kernel refuses must not keep anybody waiting.
    if (report.outcome !== 'failed') onSynced();
    return report.outcome === 'complete';
  };
}

interface WatchOptions extends FollowOptions {
  /** Sync again. */
  readonly onLoss: () => void;
  readonly inTurn: InTurn;
}

/** Look every syncPeriod whether the rules still stand; when another program flushed them, sync at once (k8s#129128). */
async function watchKernel(agent: Agent, options: WatchOptions): Promise<void> {
  const { config, log, signal, onLoss, inTurn, serving, onOutdated } = options;
  const { clock, mode, loop } = agent;
  while (!signal.aborted) {
    await sleep(clock, config.syncPeriod, signal).catch(() => undefined);
    if (signal.aborted) return;
    if (mode.isWaiting) onLoss();
    try {
      if (!(await agent.here.isCurrent())) {
        log.info('what the Node, the cluster or this machine says changed: building on what is so now');
        onOutdated();
      }
      // Before the first sync is complete there is nothing to look for yet; what is pending then is told as that.
      const stands = await inTurn(async () => (mode.isObserved ? await mode.probe(signal) : undefined));
      if (stands === true) serving.health.verified();
      if (stands !== false) continue;
      log.warn('rules are gone that were written: another program flushed them; writing them again');
      loop.distrust();
      onLoss();
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      serving.health.notVerified(cause);
      log.warn({ cause }, `cannot tell whether the rules still stand: ${cause}`);
    }
  }
}

interface Grace {
  readonly signal: AbortSignal;
  /** It is not needed any more. */
  cancel(): void;
}

/** A signal that aborts some time after another: a write that goes on then may end. */
function graceAfter(signal: AbortSignal, clock: Clock): Grace {
  const late = new AbortController();
  let cancel = () => {};
  const begin = () => {
    cancel = clock.after(WRITE_GRACE, () => late.abort(signal.reason));
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
export async function tellReady(log: Log): Promise<void> {
  try {
    await tellSupervisor('READY=1', 'STATUS=the rules are in place');
  } catch (error) {
    log.warn(`cannot tell the supervisor that the agent is ready: ${causeOf(error)}`);
  }
}
