/**
 * What a sync that was not complete means for the health of each family.
 *
 * A Service that the kernel refuses is a note, an event and a metric: it stays as it was, all others are written, and one tenant must
 * not take the node from them. A family cannot be written when something failed that is not about one Service (a lock, a missing tool,
 * no rights, a rule that all share), and when every Service that it has is refused, of more than one namespace: then it is not about
 * one tenant either, but a match or target that this kernel does not have.
 */
import { FAMILIES, type Family } from '../model/address.ts';
import type { ServiceKey } from '../model/objects.ts';
import { familyOfPort, type ServicePort, type ServicePortKey } from '../model/service-port.ts';
import type { FailedStep } from '../reconcile/step.ts';
import type { SyncReport } from '../sync/status.ts';

/** Services that are named one by one. */
const MOST_NAMED = 20;

/** A Service that the kernel refused. */
export interface RefusedService {
  readonly owner: ServiceKey;
  readonly key: string;
  readonly cause: string;
}

export interface Verdict {
  /** Families of which all was written but for what the kernel refuses of single Services. */
  readonly complete: readonly Family[];
  /** Why the others are not. */
  readonly causes: ReadonlyMap<Family, string>;
  readonly refused: ReadonlyMap<ServiceKey, RefusedService>;
}

export function verdictOf(
  { outcome, failed }: Pick<SyncReport, 'outcome' | 'failed'>,
  families: readonly Family[],
  served: ServedByFamily,
): Verdict {
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
  const [said] = refused.values();
  for (const family of families) {
    if (said === undefined || causes.has(family)) continue;
    if (!served.areAllRefused(family, refusedIn.get(family) ?? new Set())) continue;
    causes.set(family, `the kernel refuses every Service: ${firstLine(said.cause)}`);
  }
  if (outcome !== 'complete' && failed.length === 0) {
    for (const family of families) causes.set(family, 'not all was written');
  }
  return { complete: families.filter((family) => !causes.has(family)), causes, refused };
}

/** A step that names no family concerns all of them. */
function familiesOf({ family: own }: FailedStep, families: readonly Family[]): readonly Family[] {
  return own === undefined ? families : families.filter((family) => family === own);
}

/** What was refused, as sentences for people; of many the first ones, and how many more there are. */
export function sentencesOf(refused: ReadonlyMap<ServiceKey, RefusedService>): string[] {
  const named = [...refused.values()].slice(0, MOST_NAMED);
  const sentences = named.map(
    ({ owner, key, cause }) => `Service ${owner}: the kernel refused ${key}: ${firstLine(cause)}`,
  );
  const more = refused.size - named.length;
  return more > 0 ? [...sentences, `and ${more} more Services, which the log names`] : sentences;
}

/** What was refused goes on with the lines around it. */
function firstLine(cause: string): string {
  return cause.split('\n')[0] ?? '';
}

/** Which Services have ports in which family, as the agent's model tells them. */
export class ServedByFamily {
  readonly #ports = new Map<Family, Set<ServicePortKey>>(FAMILIES.map((family) => [family, new Set()]));

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const [key, port] of changes) {
      const ports = this.#ports.get(familyOfPort(key));
      if (port === undefined) ports?.delete(key);
      else ports?.add(key);
    }
  }

  /** Whether a family has Services in several namespaces, and all of them are refused. Ends with the first that is not. */
  areAllRefused(family: Family, refused: ReadonlySet<ServiceKey>): boolean {
    if (new Set(refused.values().map(namespaceOf)).size < 2) return false;
    const ports = this.#ports.get(family) ?? new Set();
    return ports.size > 0 && ports.values().every((key) => refused.has(serviceOf(key)));
  }
}

function namespaceOf(service: ServiceKey): string {
  return service.split('/')[0] ?? '';
}

/** `namespace/name[:port]/PROTOCOL/family` */
function serviceOf(key: ServicePortKey): ServiceKey {
  return /^[^/]*\/[^/:]*/.exec(key)?.[0] ?? key;
}
