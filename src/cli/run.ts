/** `slicewire run`: the agent, or one sync with --once. */
import { warnOfMode } from '../agent/choose-mode.ts';
import { realPlatform } from '../agent/platform.ts';
import type { RunOptions } from '../agent/reload.ts';
import { syncOnce } from '../agent/run-once.ts';
import { runAlone } from '../agent/singleton.ts';
import { startReportFor } from '../agent/start-report.ts';
import { collectSoon, growSparingly, memoryProblem, memoryRoom } from '../kernel/memory.ts';

/** Resolves with the exit status. Stopping removes no rules (invariant 10). */
export async function runCommand({
  config,
  log,
  signal,
  ...rest
}: Omit<RunOptions, 'recordings' | 'platform' | 'timesAsked'>): Promise<number> {
  growSparingly();
  collectSoon();
  const memory = memoryRoom();
  log.info({ node: config.nodeName, mode: config.mode, source: config.source, memory }, 'starting');
  warnOfMode(config, undefined, log);
  const problem = memoryProblem(memory);
  if (problem !== undefined) log.warn(problem);
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  try {
    if (config.once) return (await syncOnce(config, log, until, realPlatform, startReportFor(rest.flags, log))) ? 0 : 1;
    await runAlone({ config, log, signal: until, platform: realPlatform, ...rest });
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
