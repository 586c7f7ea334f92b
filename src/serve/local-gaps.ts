/**
 * Counts ServicePorts with policy Local that have endpoints, but none on this node: the node drops packets for them
 * (docs/semantics.md 4.1). The metric is kubeproxy_sync_proxy_rules_no_local_endpoints_total.
 */
import { FAMILIES, type Family } from '../base/address.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';

export type GapPolicy = 'internal' | 'external';
const GAP_POLICIES: readonly GapPolicy[] = ['internal', 'external'];

export class LocalGaps {
  readonly #gaps = new Map<ServicePortKey, readonly string[]>();
  readonly #counts = new Map<string, number>();

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const [key, port] of changes) {
      for (const name of this.#gaps.get(key) ?? []) this.#add(name, -1);
      const gaps = port === undefined ? [] : gapsOf(port);
      for (const name of gaps) this.#add(name, 1);
      if (gaps.length > 0) this.#gaps.set(key, gaps);
      else this.#gaps.delete(key);
    }
  }

  /** The number of ServicePorts for each policy and family. */
  get counts(): readonly (readonly [GapPolicy, Family, number])[] {
    return GAP_POLICIES.flatMap((policy) =>
      FAMILIES.map((family) => [policy, family, this.#counts.get(`${policy} ${family}`) ?? 0] as const),
    );
  }

  #add(name: string, by: number): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + by);
  }
}

function gapsOf({ family, frontends }: ServicePort): string[] {
  const isDropped = (internal: boolean) =>
    frontends.some(({ role, empty }) => (role === 'cluster-ip') === internal && empty === 'drop');
  return GAP_POLICIES.filter((policy) => isDropped(policy === 'internal')).map((policy) => `${policy} ${family}`);
}
