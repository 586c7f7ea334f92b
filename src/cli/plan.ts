/** `slicewire plan`: what `run` would change in this kernel now. Writes nothing. */
import type { Config } from '../config/config.ts';
import { realClock } from '../host/clock.ts';
import type { Fault } from '../model/objects.ts';
import { planText, type Step } from '../reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';
import { startAgent } from './agent.ts';
import { FaultLog } from './fault-log.ts';
import { conntrackSteps } from './tune.ts';
import { startWorld } from './world.ts';

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
    const onFault = (fault: Fault) => void faults.tell(fault);
    const world = startWorld({ config, log, follow: false, signal: until, onFault });
    const agent = await startAgent(world, { config, log, isRun: false, signal: until, onFault });
    const { plan: ofMode } = await agent.loop.plan(until);
    const plan = { steps: [...(await conntrackSteps(config)), ...ofMode.steps] };
    if (output === 'text') print(planText(plan));
    else {
      const found = [agent.world.cache, agent.loop].flatMap((of) => of.faults.all);
      print(JSON.stringify({ steps: plan.steps.map(stepFacts), faults: found }, undefined, 2));
    }
    return plan.steps.length === 0 ? 0 : 2;
  } finally {
    faults.flush();
    own.abort();
  }
}

/** A step as JSON. */
function stepFacts({ key, action, phase, owner, lines }: Step): object {
  return { key, action, phase, service: owner, lines: lines() };
}
