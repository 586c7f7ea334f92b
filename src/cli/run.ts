/** `slicewire run`: the agent, or with --once one sync. */

import { type Agent, startAgent } from '../agent/agent.ts';
import { startFeed } from '../agent/feed.ts';
import { faultCounts, logReport, logSteps } from '../agent/log-lines.ts';
import { Reloader, type RunOptions } from '../agent/reload.ts';
import type { Config } from '../config/config.ts';
import { realClock, sleep } from '../host/clock.ts';
import { growSparingly, memoryProblem, memoryRoom } from '../host/memory.ts';
import type { Fault } from '../model/objects.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';

/** With --once, milliseconds between tries until everything is applied. */
const ONCE_RETRY = 1000;
/** With --once, tries before giving up. */
const ONCE_TRIES = 5;

/** Resolves with the exit status. Stopping removes nothing (invariant 10). */
export async function runCommand({ config, log, signal, ...rest }: RunOptions): Promise<number> {
  growSparingly();
  const memory = memoryRoom();
  log.info({ node: config.nodeName, mode: config.mode, source: config.source, memory }, 'starting');
  const problem = memoryProblem(memory);
  if (problem !== undefined) log.warn(problem);
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  try {
    if (config.once) return await syncOnce(config, log, until);
    await new Reloader({ config, log, signal: until, ...rest }).run();
    log.info('stopped; the rules stay in place');
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

async function syncOnce(config: Config, log: Log, signal: AbortSignal): Promise<number> {
  const faults = new FaultLog({ log, clock: realClock });
  const onFault = (fault: Fault) => void faults.log(fault);
  try {
    const feed = startFeed({ config, log, follow: false, signal, onFault });
    const agent = await startAgent(feed, { config, log, isRun: true, signal, onFault });
    return await syncUntilDone(agent, log, signal);
  } finally {
    faults.flush();
  }
}

async function syncUntilDone(agent: Agent, log: Log, signal: AbortSignal): Promise<number> {
  logSteps(agent.mode, log);
  for (let tries = 1; ; tries++) {
    const report = await agent.loop.sync(signal);
    logReport(report, log, { isFirst: true, faults: faultCounts(agent) });
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
