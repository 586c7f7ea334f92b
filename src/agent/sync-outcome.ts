/**
 * Decides how an incomplete sync affects the health of each family.
 *
 * A Service that the kernel refuses is a note, an event and a metric: its former rules stay, all others are written, and one tenant must
 * not take the node from them. A family cannot be written when a step failed that does not belong to one Service (a lock, a missing tool,
 * no rights, a shared rule), or when the kernel refuses every Service of the family, in more than one namespace: then the kernel lacks a
 * match or target that all of them need.
 */

import type { Family } from '../base/address.ts';
import { firstLine } from '../base/cause.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { familyOfPort, type ServicePortKey, serviceOfPort } from '../proxy/model/service-port.ts';
import type { FailedStep, SkippedStep } from '../proxy/reconcile/step.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';

/** Limit of Services that are named one by one. */
const MAX_NAMED = 20;

/** A Service that the kernel refused. */
export interface RefusedService {
  readonly owner: ServiceKey;
  readonly key: string;
  readonly cause: string;
}

export interface SyncOutcome {
  /** Families that were written in full, apart from single Services that the kernel refuses. */
  readonly complete: readonly Family[];
  /** The cause why each other family is not complete. */
  readonly causes: ReadonlyMap<Family, string>;
  readonly refused: ReadonlyMap<ServiceKey, RefusedService>;
}

/** `served` returns the ServicePorts of all Services. */
export function syncOutcomeOf(
  { outcome, failed }: Pick<SyncReport, 'outcome' | 'failed'>,
  families: readonly Family[],
  served: () => Iterable<ServicePortKey>,
): SyncOutcome {
  const refused = new Map<ServiceKey, RefusedService>();
  const refusedIn = new Map<Family, Set<ServiceKey>>(families.map((family) => [family, new Set()]));
  const causes = new Map<Family, string>();
  for (const step of failed) {
    const { owner, key, cause } = step;
    if (step.blame === 'content' && owner !== undefined) {
      refused.set(owner, { owner, key, cause });
      for (const family of familiesOf(step, families)) refusedIn.get(family)?.add(owner);
    } else
      for (const family of familiesOf(step, families)) if (!causes.has(family)) causes.set(family, firstLine(cause));
  }
  const [first] = refused.values();
  for (const family of families) {
    if (first === undefined || causes.has(family)) continue;
    if (!areAllRefused(served(), family, refusedIn.get(family) ?? new Set())) continue;
    causes.set(family, `the kernel refuses every Service: ${firstLine(first.cause)}`);
  }
  if (outcome !== 'complete' && failed.length === 0) {
    for (const family of families) causes.set(family, 'not all was written');
  }
  return { complete: families.filter((family) => !causes.has(family)), causes, refused };
}

/**
 * Tests whether a sync certainly wrote everything of a Service in a family: only then may the health check port announce more endpoints to load
 * balancers. A step that failed or was not tried holds back its Service in all families, because a refused Service is left alone in all. A
 * step of a shared object holds back its whole family.
 */
export function writtenBy(
  { outcome, failed, skipped }: Pick<SyncReport, 'outcome' | 'failed' | 'skipped'>,
  families: readonly Family[],
): (service: ServiceKey, family: Family) => boolean {
  if (outcome !== 'complete' && failed.length === 0) return () => false;
  const owners = new Set<string>();
  const held = new Set<Family>();
  for (const step of [...failed, ...skipped]) {
    if (step.owner !== undefined) owners.add(step.owner);
    else for (const family of familiesOf(step, families)) held.add(family);
  }
  return (service, family) => families.includes(family) && !held.has(family) && !owners.has(service);
}

/** A step that names no family concerns all of them. */
function familiesOf(
  { family: own }: Pick<FailedStep | SkippedStep, 'family'>,
  families: readonly Family[],
): readonly Family[] {
  return own === undefined ? families : families.filter((family) => family === own);
}

/** A sentence for each refused Service. Of many it has the first ones, and the number of the others. */
export function sentencesOf(refused: ReadonlyMap<ServiceKey, RefusedService>): string[] {
  const named = [...refused.values()].slice(0, MAX_NAMED);
  const sentences = named.map(
    ({ owner, key, cause }) => `Service ${owner}: the kernel refused ${key}: ${firstLine(cause)}`,
  );
  const more = refused.size - named.length;
  return more > 0 ? [...sentences, `and ${more} more Services; the log names them`] : sentences;
}

/** True when all Services of a family are refused, in several namespaces. It stops at the first Service that is not. */
function areAllRefused(ports: Iterable<ServicePortKey>, family: Family, refused: ReadonlySet<ServiceKey>): boolean {
  if (new Set(refused.values().map(namespaceOf)).size < 2) return false;
  let hasAny = false;
  for (const key of ports) {
    if (familyOfPort(key) !== family) continue;
    if (!refused.has(serviceOfPort(key))) return false;
    hasAny = true;
  }
  return hasAny;
}

function namespaceOf(service: ServiceKey): string {
  return service.split('/')[0] ?? '';
}
