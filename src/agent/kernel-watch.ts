/** Checks the kernel between syncs: whether the rules are still in place, and the settings still those of the Node and this machine. */
import type { Config } from '../config/config.ts';
import { sleep } from '../host/clock.ts';
import { causeOf } from '../model/cause.ts';
import type { Mutex } from '../model/mutex.ts';
import type { Mode } from '../modes/mode.ts';
import type { Health } from '../serve/health.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import type { Readings } from './readings.ts';

/** Milliseconds that reading the rules may take. */
const LONGEST_READING = 30_000;

export interface KernelWatchOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: Health;
  /** Held by a sync while it runs, and by a check. */
  readonly mutex: Mutex;
  readonly readings: Readings;
  /** Sync again: objects of ours may be gone or changed. */
  readonly onLoss: () => void;
  /** Sync again: removals were waiting. */
  readonly onWaiting: () => void;
  /** The settings are no longer those that the Node and this machine ask for. */
  readonly onOutdated: () => void;
}

/** Check every syncPeriod until the signal aborts. When another program flushed the rules, sync at once (k8s#129128). Never rejects. */
export async function watchKernel(agent: Agent, options: KernelWatchOptions): Promise<void> {
  const { config, log, signal, health, onLoss, readings } = options;
  while (!signal.aborted) {
    health.checked();
    await sleep(agent.clock, config.syncPeriod, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (!(await mustSync(agent, options))) continue;
      agent.loop.distrust();
      readings.begun();
      onLoss();
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      health.notVerified(cause);
      log.warn({ cause }, `cannot check whether the rules are still in place: ${cause}`);
    }
  }
}

/** One check; whether the kernel must be read and synced again. */
async function mustSync(agent: Agent, options: KernelWatchOptions): Promise<boolean> {
  const { log, signal, health, mutex, readings, onWaiting, onOutdated } = options;
  const { mode, onNode } = agent;
  if (mode.isWaiting) onWaiting();
  if (!(await onNode.isCurrent(signal))) {
    log.info('the Node, the cluster or this machine changed: adapting to it');
    onOutdated();
  }
  // Before the first complete sync there is nothing to check; health reports what is pending then.
  const found = await mutex(() => probe(mode, signal));
  if (found === 'in place' || found === 'unclear') health.verified();
  if (found === 'unclear') return readings.mayRead && (await mayHaveChanged(agent, options));
  if (found !== 'gone') return false;
  log.warn('another program removed rules of ours; writing them again');
  return true;
}

type Found = 'nothing yet' | 'in place' | 'gone' | 'unclear';

async function probe(mode: Mode, signal: AbortSignal): Promise<Found> {
  if (!mode.isObserved) return 'nothing yet';
  if (!(await mode.probe.stands(signal))) return 'gone';
  return (await mode.probe.mayDiffer()) ? 'unclear' : 'in place';
}

/**
 * Read whether the rules of another program changed ours, or may have. Syncs go on meanwhile: iptables-save starts over whenever the
 * ruleset changes, and beside a program that writes all the time it does not end where there are many rules.
 */
async function mayHaveChanged(
  { mode, clock }: Agent,
  { log, signal, mutex, readings }: KernelWatchOptions,
): Promise<boolean> {
  const late = new AbortController();
  const cancel = clock.after(LONGEST_READING, () => late.abort());
  const began = clock.now();
  try {
    const { reading } = await mutex(() => {
      const reading = mode.probe.differs(AbortSignal.any([signal, late.signal]));
      // It starts while no sync writes, and is awaited below, without the mutex.
      reading.catch(() => undefined);
      return Promise.resolve({ reading });
    });
    const isOther = await reading;
    const milliseconds = Math.round(clock.now() - began);
    const found = isOther === undefined ? 'changed meanwhile' : isOther ? 'differ now' : 'are unchanged';
    log.debug({ milliseconds }, `another program wrote rules; ours ${found}`);
    // Where syncs write all the time, only a sync that reads the kernel itself finds out.
    return isOther !== false;
  } catch (error) {
    if (!late.signal.aborted) throw error;
    const after = `${LONGEST_READING / 1000} s`;
    log.warn(
      `cannot check all rules: other programs write rules all the time, and reading them did not end within ${after}`,
    );
    return false;
  } finally {
    cancel();
    readings.checkTook(clock.now() - began);
  }
}
