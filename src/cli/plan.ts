/** `slicewire plan`: shows the changes that `run` would make on this node now. Writes nothing. */
import { startAgent } from '../agent/agent.ts';
import { conntrackSteps } from '../agent/conntrack-tuning.ts';
import { startFeed } from '../agent/feed.ts';
import type { Config } from '../config/config.ts';
import { realClock } from '../host/clock.ts';
import { type BarredWrite, barredText } from '../host/conntrack-settings.ts';
import type { Fault } from '../model/objects.ts';
import { settingKey } from '../reconcile/setting.ts';
import { planText, type Step } from '../reconcile/step.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';

export interface PlanOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly output: 'text' | 'json';
  readonly print: (text: string) => void;
}

/** Exit status: 0 when there is nothing to do, 2 when there is. */
export async function planCommand({ config, log, signal, output, print }: PlanOptions): Promise<number> {
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  const faults = new FaultLog({ log, clock: realClock });
  try {
    const onFault = (fault: Fault) => void faults.log(fault);
    const feed = startFeed({ config, log, follow: false, signal: until, onFault });
    const agent = await startAgent(feed, { config, log, isRun: false, signal: until, onFault });
    const { plan: ofMode } = await agent.loop.plan(until);
    const { steps, barred } = await conntrackSteps(config);
    const plan = { steps: [...steps, ...ofMode.steps] };
    if (output === 'text') print([...barred.map(barredText), planText(plan)].join('\n'));
    else {
      const found = [agent.feed.cache, agent.loop].flatMap((of) => of.faults.all);
      const cannotChange = barred.map(barredFacts);
      print(JSON.stringify({ steps: plan.steps.map(stepFacts), cannotChange, faults: found }, undefined, 2));
    }
    return plan.steps.length === 0 ? 0 : 2;
  } finally {
    faults.flush();
    own.abort();
  }
}

/** A setting that cannot be written on this node, as JSON. */
function barredFacts({ name, from, to, leftBy, cause }: BarredWrite): object {
  return { key: settingKey(name), from, to, cause, leftBy };
}

/** A step as JSON. */
function stepFacts({ key, action, phase, owner, lines }: Step): object {
  return { key, action, phase, service: owner, lines: lines() };
}
