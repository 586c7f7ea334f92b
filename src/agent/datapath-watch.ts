/** `--datapath-check`: connects the checks of the data path with the agent's health, metrics and log. */
import { type Clock, sleep, unlessAborted } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import type { Datapath } from './datapath/datapath.ts';
import type { PathState } from './datapath/path-health.ts';

/** Milliseconds from the beginning of a round to the next. Two rounds and the time of a connection are less than 5 s. */
const ROUND_MS = 2000;

const ORIGINS = { node: 'this node', pod: 'a Pod' } as const;

/** The results of a round, and a sentence for each path that is broken. */
export interface AskedPaths {
  readonly reasons: readonly string[];
  readonly paths: readonly PathState[];
}

export interface DatapathWatchOptions {
  readonly config: Pick<Config, 'datapathCheck'>;
  readonly datapath: Datapath;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Resolves when this generation has written its rules for the first time. */
  readonly written: Promise<void>;
  /** The agent writes nothing, so that there may be no rules of its own. */
  readonly isHeld: () => boolean;
  /** Called after each round. */
  readonly onRound: (asked: AskedPaths) => void;
}

/** Check until the signal aborts, where that is asked for. Rejects only when the signal aborts. */
export async function watchDatapath({ onNode }: Agent, options: DatapathWatchOptions): Promise<void> {
  const { config, datapath, log, clock, signal, written, isHeld, onRound } = options;
  const { health } = datapath;
  if (config.datapathCheck === 'none') {
    health.round([]);
    onRound({ reasons: [], paths: [] });
    return;
  }
  await unlessAborted(written, signal);
  for (let next = clock.now() + ROUND_MS; ; next = Math.max(next + ROUND_MS, clock.now())) {
    await sleep(clock, Math.max(0, next - clock.now()), signal);
    const results = isHeld() ? [] : await datapath.check(onNode.families);
    signal.throwIfAborted();
    for (const { result, isBroken } of health.round(results)) {
      const facts = { family: result.family, from: result.from };
      if (isBroken && 'text' in result) log.error(facts, `the data path is broken: ${result.text}`);
      else
        log.info(
          facts,
          `the data path is whole again: connections from ${ORIGINS[result.from]} pass the ${result.family} rules`,
        );
    }
    onRound({ reasons: health.reasons, paths: health.states });
  }
}
