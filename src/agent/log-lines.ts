/** Log lines, and parts of them, that several files of the agent write. */
import { causeOf } from '../base/cause.ts';
import { type Drift, driftText } from '../proxy/model/drift.ts';
import type { SetResized } from '../proxy/modes/virtual-servers/apply.ts';
import { type Plan, stepText } from '../proxy/reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';

/** Limit of Services, addresses, ranges, or changes by other programs in a log line. The facts of the line hold more. */
export const MAX_NAMED = 5;

/** Log each step of a plan at debug level. */
export function logSteps({ steps }: Plan, log: Log): void {
  if (log.isLevelEnabled('debug')) for (const step of steps) log.debug(stepText(step));
}

/** Logs the stack of an error at debug level, once for each message. */
export function stackLogger(log: Log): (error: unknown) => void {
  const logged = new Set<string>();
  return (error) => {
    const message = String(error);
    if (logged.has(message)) return;
    logged.add(message);
    log.debug({ stack: error instanceof Error ? error.stack : undefined }, `error in a sync: ${message}`);
  };
}

/**
 * kube-proxy creates its sets again before each sync, and stops there where one has another maxelem. It cannot keep more entries either, so
 * an operator must know this before going back to kube-proxy.
 */
export function logResized({ set, from, to, kubeProxys }: SetResized, log: Log): void {
  const facts = { set, from, to };
  if (to === kubeProxys) {
    log.info(
      facts,
      `the set ${set} of IPVS mode has maxelem ${to} again, as kube-proxy's: kube-proxy can take it over`,
    );
    return;
  }
  const before = from === undefined ? '' : `, and had ${from}`;
  log.warn(
    facts,
    `the set ${set} of IPVS mode has maxelem ${to}${before}, because its entries need it. ` +
      `kube-proxy takes over no set with another maxelem than ${kubeProxys}, and then writes nothing: ` +
      'run `slicewire cleanup` on this node before kube-proxy starts there',
  );
}

/** A container without CAP_SYS_RESOURCE may never lower its score. Its manifest says so, and a line at each start would be noise. */
export function logKeptOomScore(error: unknown, log: Log): void {
  const { code } = error as NodeJS.ErrnoException;
  const isForbidden = code === 'EACCES' || code === 'EPERM';
  log[isForbidden ? 'v1' : 'info'](`oom_score_adj stays unchanged: ${causeOf(error)}`);
}

/** Text of the first changes by other programs, with the number of the rest. */
export function driftsText(drift: readonly Drift[]): string {
  const more = drift.length - MAX_NAMED;
  return `${drift.slice(0, MAX_NAMED).map(driftText).join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

interface HasFaults {
  readonly faults: { readonly counts: Iterable<readonly [effect: string, count: number]> };
}

/** The parts of an Agent that have faults. */
interface FaultSources {
  readonly feed: { readonly cache: HasFaults };
  readonly loop: HasFaults;
}

/** Faults of the objects now, counted by effect: for the log and for metrics. */
export function faultCounts({ feed, loop }: FaultSources): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { faults } of [feed.cache, loop]) {
    for (const [effect, count] of faults.counts) counts[effect] = (counts[effect] ?? 0) + count;
  }
  return counts;
}
