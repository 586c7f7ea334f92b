/** `--failover=confirm`: connects the watch of Nodes that do not answer with the agent, and logs its events. */

import { causeOf } from '../base/cause.ts';
import { sleep } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Log } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import { type FailoverEvent, FailoverWatch } from './failover/dead-nodes.ts';
import { stackLogger } from './log-lines.ts';
import type { Platform } from './platform.ts';

/** Milliseconds until the watch starts over after an unexpected error. */
const RESTART_MS = 30_000;

export interface FailoverOptions {
  readonly config: Pick<Config, 'failover' | 'nodeName'>;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly platform: Pick<Platform, 'kernel' | 'process'>;
  /** Called before the suspects change: clients that wait for an answer need the next sync at once. */
  readonly onSuspects: () => void;
}

/**
 * Watch until the signal aborts. With --failover=none it only clears the suspects of the generation before: all Services are touched then
 * anyway. Never rejects before the signal aborts.
 */
export async function watchFailover({ feed, model, clock }: Agent, options: FailoverOptions): Promise<void> {
  const { config, log, signal, platform, onSuspects } = options;
  feed.suspect([], []);
  if (config.failover === 'none') return;
  const { cache } = feed;
  const logStack = stackLogger(log);
  while (!signal.aborted) {
    const watch = new FailoverWatch({
      clock,
      // One step costs less than many, and the watch rests in proportion.
      open: () => platform.kernel.openFlowTable(Number.POSITIVE_INFINITY),
      probe: platform.process.probe,
      nodeName: config.nodeName,
      frontend: (at) => model.frontend(at),
      slicesOf: (service) => cache.slicesOf(service),
      slices: () => cache.slices.all(),
      suspect(nodes, services) {
        onSuspects();
        feed.suspect(nodes, services);
      },
      onEvent: (event) => logEvent(event, log),
    });
    try {
      await watch.run(signal);
    } catch (error) {
      if (signal.aborted) return;
      logStack(error);
      log.error(`the watch of Nodes that do not answer failed: ${causeOf(error)}; it starts over, without suspects`);
      forget(feed);
      await sleep(clock, RESTART_MS, signal).catch(() => undefined);
    }
  }
}

/** Clears the suspects. All Services are touched, because the failed watch no longer knows which ones have endpoints on them. */
function forget(feed: Agent['feed']): void {
  if (feed.cache.own.suspects.length > 0) feed.suspect([], feed.cache.byName.keys());
}

function logEvent(event: FailoverEvent, log: Log): void {
  if (event.kind === 'unread') {
    log.error(`unanswered connections cannot be read: ${event.cause}; --failover=confirm has no effect until they can`);
    return;
  }
  const { node } = event;
  if (event.kind === 'spared') {
    log.debug({ node }, `Node ${node} has unanswered connections, and is no suspect: ${SPARED[event.verdict]}`);
    return;
  }
  if (event.kind === 'suspect') {
    const { asked, others } = event;
    log.warn(
      { node, asked, others },
      `Node ${node} does not answer: ${asked} addresses of its endpoints are silent, and ${others} other Nodes answer; its endpoints get no new connections, at most half of the endpoints of a Service`,
    );
    return;
  }
  const seconds = Math.round(event.after / 1000);
  log.info(
    { node, seconds },
    `Node ${node} ${ENDS[event.kind]} after ${seconds} s: its endpoints count as their slices say`,
  );
}

const SPARED = {
  answers: 'something there answers',
  unclear: 'too few endpoints could be probed, or too few other Nodes answer',
} as const;

const ENDS = {
  answers: 'answers again',
  expired: 'is no longer a suspect, and will be judged anew,',
  unused: 'has no ready TCP endpoint left to probe,',
} as const;
