/** Reads the source and the kernel once, without an agent that runs: for `plan`, and for questions. Writes nothing. */

import { realClock } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Fault } from '../proxy/model/objects.ts';
import type { Plan } from '../proxy/reconcile/step.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';
import { type Agent, startAgent } from './agent.ts';
import { startFeed } from './feed.ts';
import { realPlatform } from './platform.ts';

export interface AgentForReading {
  readonly agent: Agent;
  /** What the agent would write now. */
  readonly plan: Plan;
}

/** Resolves with the result of `use`; afterwards the source is closed. */
export async function withParts<T>(
  { config, log, signal }: { readonly config: Config; readonly log: Log; readonly signal: AbortSignal },
  use: (read: AgentForReading, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  const faults = new FaultLog({ log, clock: realClock });
  try {
    const onFault = (fault: Fault) => void faults.log(fault);
    const feed = startFeed({ platform: realPlatform, config, log, follow: false, signal: until, onFault });
    const agent = await startAgent(feed, { platform: realPlatform, config, log, isRun: false, signal: until, onFault });
    const { plan } = await agent.loop.plan(until);
    return await use({ agent, plan }, until);
  } finally {
    faults.flush();
    own.abort();
  }
}
