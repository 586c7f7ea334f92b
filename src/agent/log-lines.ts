/** Lines of the log about syncs. */
import { firstOf } from '../answers/words.ts';
import type { SetResized } from '../modes/virtual-servers/apply.ts';
import { type FailedStep, type Plan, stepText } from '../reconcile/step.ts';
import type { SyncReport } from '../sync/status.ts';
import type { Log } from '../telemetry/log.ts';

/** Most Services, or changes by others, in a line of the log; its facts hold more. */
const MOST_NAMED = 5;

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

/** Why a step failed, without the refused line: equal for steps that fail alike. */
function causeAlone({ cause, line, blame }: FailedStep): string {
  return `${blame} ${line === undefined ? cause : cause.replaceAll(line, '')}`;
}

/** One line for all steps that failed for one cause. */
function logFailed(steps: readonly FailedStep[], log: Log): void {
  const [first] = steps;
  if (first === undefined) return;
  const { key, owner, cause } = first;
  const who = owner === undefined ? key : `Service ${owner} is set aside: ${key}`;
  const services = [...new Set(steps.flatMap((step) => step.owner ?? []))];
  if (steps.length === 1) {
    log.error({ step: key, service: owner }, `${who}: ${cause}`);
    return;
  }
  const others = services.filter((service) => service !== owner);
  const ofWhom = others.length === 0 ? '' : `, of Services ${firstOf(others, MOST_NAMED)}`;
  log.error(
    { step: key, service: owner, count: steps.length, services: services.slice(0, MOST_NAMED + 1) },
    `${who}: ${cause} (and ${steps.length - 1} more steps failed for the same cause${ofWhom})`,
  );
}

/**
 * kube-proxy creates its sets again before each sync, and stops there where one has another maxelem. It can keep no more entries either,
 * so that people must know before they go back.
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

export interface Circumstances {
  /** No sync was complete before: the first is logged also when there was nothing to do. */
  readonly isFirst: boolean;
  readonly failingSince?: number | undefined;
  /** The program that changed rules of ours, in words, where it is known. */
  readonly by?: string | undefined;
  /** People were told that another program changes rules of ours again and again. */
  readonly isFight?: boolean;
  /** Faults of the objects now, by effect. */
  readonly faults: Readonly<Record<string, number>>;
}

export function logReport(report: SyncReport, log: Log, circumstances: Circumstances): void {
  const { isFirst, failingSince, faults } = circumstances;
  const { outcome, applied: steps, isAsLeft = false } = report;
  const facts = { outcome, steps, milliseconds: Math.round(report.duration), faults };
  if (isAsLeft) log.info('the ruleset is as the last agent left it, and as it should be: it was not read');
  if (report.drift.length > 0) logDrift(report.drift, log, circumstances);
  for (const alike of Map.groupBy(report.failed, causeAlone).values()) logFailed(alike, log);
  if (report.outcome === 'complete') {
    if (report.applied > 0) log.info(facts, 'synced');
    else log[isFirst ? 'info' : 'debug'](facts, 'synced, nothing to do');
    return;
  }
  const since = failingSince === undefined ? undefined : new Date(failingSince).toISOString();
  log.error({ ...facts, since }, 'sync incomplete; it will be retried');
}

function logDrift(drift: readonly string[], log: Log, { by, isFight = false }: Circumstances): void {
  const facts = { drift: drift.slice(0, 20), count: drift.length, ...(by === undefined ? {} : { by }) };
  const who = by === undefined ? 'another program' : `another program (${by})`;
  log[isFight ? 'debug' : 'warn'](facts, `${who} changed rules of ours: ${driftText(drift)}`);
}

/** The first changes, and the number of the others. */
export function driftText(drift: readonly string[]): string {
  const more = drift.length - MOST_NAMED;
  return `${drift.slice(0, MOST_NAMED).join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

interface HasFaults {
  readonly faults: { readonly counts: Iterable<readonly [effect: string, count: number]> };
}

/** An Agent, as far as it knows of faults. */
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
