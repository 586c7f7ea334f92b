/** Answers a command's queries from the source and the kernel, without an agent that runs. */

import { realClock } from '../../base/clock.ts';
import { AUTO, type Config } from '../../config/config.ts';
import { type Flags, textFlag } from '../../config/flags.ts';
import { countText } from '../../inspect/wire/format.ts';
import type { Plan } from '../../proxy/reconcile/step.ts';
import { modeChooser } from '../choose-mode.ts';
import { prepare } from '../load-config.ts';
import { withParts } from '../run-once.ts';
import { kubeProxyMode } from './kube-proxy-mode.ts';
import { kubeProxyRules } from './kube-proxy-rules.ts';
import { Queries } from './queries.ts';

/** Resolves with the result of `use`. Throws as `startAgent`, and KernelNotRead. */
export async function withQueries<T>(
  flags: Flags,
  signal: AbortSignal,
  use: (queries: Queries, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const isOfKubeProxy = flags.of === 'kube-proxy';
  // The rules in the kernel say in which mode kube-proxy runs, and not its file.
  const { config: ofFlags, log } = isOfKubeProxy
    ? await prepare(flags, kubeProxyMode(signal), { mode: AUTO })
    : await prepare(flags, modeChooser(signal));
  // The answer has the faults. Other log lines appear only with -v.
  if (flags.v === undefined) log.level = 'error';
  const config = withKubeconfig(ofFlags, flags);
  return await withParts({ config, log, signal }, async ({ agent, plan }, until) => {
    const { inspection } = agent.mode;
    const rules = isOfKubeProxy ? await kubeProxyRules({ config, inspection, signal: until }) : undefined;
    const queries = new Queries({
      who: 'command',
      clock: realClock,
      startedAt: undefined,
      config: () => config,
      feed: () => agent.feed,
      agent: () => agent,
      health: () => healthByPlan(plan),
      recordings: undefined,
      ...(rules === undefined ? {} : { of: () => Promise.resolve(rules) }),
    });
    return await use(queries, until);
  });
}

/** In a query --kubeconfig wins over the file of --config, because the user names the cluster that the query is about. An agent does the reverse. */
function withKubeconfig(config: Config, flags: Flags): Config {
  const kubeconfig = textFlag(flags, 'kubeconfig');
  if (config.source.kind !== 'kubernetes' || kubeconfig === undefined) return config;
  return { ...config, source: { ...config.source, kubeconfig } };
}

/** Health without an agent: the kernel is in order when nothing would be written. */
function healthByPlan({ steps }: Plan) {
  const pending =
    steps.length === 0 ? [] : [`${countText(steps.length, 'kernel object')} would be written: see slicewire plan`];
  return { live: false, ready: false, healthy: steps.length === 0, reasons: ['no agent was asked', ...pending] };
}
