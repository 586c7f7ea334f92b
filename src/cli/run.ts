/** `slicewire run`: the agent, or one sync with --once. */
import { realOutside } from '../agent/outside.ts';
import { Recordings } from '../agent/recording/recordings.ts';
import { Reloader, type RunOptions } from '../agent/reload.ts';
import { syncOnce } from '../agent/sync-once.ts';
import { Recorder } from '../history/recorder.ts';
import { realClock } from '../host/clock.ts';
import { growSparingly, memoryProblem, memoryRoom } from '../host/memory.ts';

/** Resolves with the exit status. Stopping removes no rules (invariant 10). */
export async function runCommand({
  config,
  log,
  signal,
  ...rest
}: Omit<RunOptions, 'recordings' | 'outside'>): Promise<number> {
  growSparingly();
  const memory = memoryRoom();
  log.info({ node: config.nodeName, mode: config.mode, source: config.source, memory }, 'starting');
  const problem = memoryProblem(memory);
  if (problem !== undefined) log.warn(problem);
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  try {
    if (config.once) return (await syncOnce(config, log, until)) ? 0 : 1;
    const recordings = new Recordings(new Recorder(realClock), log);
    await new Reloader({ config, log, signal: until, recordings, outside: realOutside, ...rest }).run();
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
