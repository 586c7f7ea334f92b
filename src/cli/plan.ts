/** `slicewire plan`: shows the changes that `run` would make on this node now. Writes nothing. */
import { conntrackSteps } from '../agent/conntrack-tuning.ts';
import { withParts } from '../agent/run-once.ts';
import type { Config } from '../config/config.ts';
import { type BarredWrite, barredText } from '../kernel/conntrack-settings.ts';
import { settingKey } from '../kernel/sysctls.ts';
import { planText, type Step } from '../proxy/reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';

export interface PlanOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly output: 'text' | 'json';
  readonly print: (text: string) => void;
}

/** Exit status: 0 when there is nothing to do, 2 when there is. */
export async function planCommand({ output, print, ...options }: PlanOptions): Promise<number> {
  return await withParts(options, async ({ agent, plan: ofMode }) => {
    const { steps, barred } = await conntrackSteps(options.config);
    const plan = { steps: [...steps, ...ofMode.steps] };
    if (output === 'text') print([...barred.map(barredText), planText(plan)].join('\n'));
    else {
      const found = [agent.feed.cache, agent.loop].flatMap((of) => of.faults.all);
      const cannotChange = barred.map(barredFacts);
      print(JSON.stringify({ steps: plan.steps.map(stepFacts), cannotChange, faults: found }, undefined, 2));
    }
    return plan.steps.length === 0 ? 0 : 2;
  });
}

/** A setting that cannot be written on this node, as JSON. */
function barredFacts({ name, from, to, leftBy, cause }: BarredWrite): object {
  return { key: settingKey(name), from, to, cause, leftBy };
}

/** A step as JSON. */
function stepFacts({ key, action, phase, owner, lines }: Step): object {
  return { key, action, phase, service: owner, lines: lines() };
}
