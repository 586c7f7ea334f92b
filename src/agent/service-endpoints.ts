/** The endpoints of Services by what becomes of them on this node. A Service is counted anew only when it or one of its slices changed. */

import { sameData } from '../base/equal.ts';
import type { Cache } from '../cluster/cache/cache.ts';
import { countUses, isOfEndpoint, isSliceUsed, type SliceUse } from '../proxy/model/endpoint-uses.ts';
import type { ServiceKey, Slice, TrafficPolicy } from '../proxy/model/objects.ts';
import type { Location } from '../proxy/model/service-port.ts';
import type { PortTraffic } from './service-traffic.ts';

/** Endpoints of a ServicePort with the same fate, under a policy. */
export interface EndpointCount {
  /** The policy under which they are used or not. */
  readonly policy: TrafficPolicy;
  readonly isUsed: boolean;
  /** Without spaces: `not-ready`. */
  readonly reason: string;
  readonly count: number;
}

/** Of one ServicePort. */
export type PortEndpoints = readonly EndpointCount[];

interface CountedEndpoints {
  /** Of its slices, and its ServicePorts. */
  readonly version: readonly unknown[];
  /** In the order of the ServicePorts. */
  readonly counts: readonly PortEndpoints[];
}

/** One text for all Services. */
const REASONS = new Map<SliceUse, string>();

function reasonOf(use: SliceUse): string {
  const known = REASONS.get(use) ?? use.replaceAll(' ', '-');
  REASONS.set(use, known);
  return known;
}

export class ServiceEndpoints {
  readonly #known = new Map<ServiceKey, CountedEndpoints>();
  #location: Location = { nodeName: '', zone: '' };
  #counted = 0;

  /** The number of times that a Service was counted. */
  get counted(): number {
    return this.#counted;
  }

  /** Forget the Services that are gone, and all of them when the node's zone changed. */
  prepare(location: Location, isThere: (service: ServiceKey) => boolean): void {
    if (!sameData(location, this.#location)) this.#known.clear();
    this.#location = location;
    for (const key of this.#known.keys()) if (!isThere(key)) this.#known.delete(key);
  }

  /** Of all ServicePorts of a Service, in their order. */
  of(ports: readonly PortTraffic[], cache: Cache): readonly PortEndpoints[] {
    const [first] = ports;
    if (first === undefined) return [];
    const version = [cache.slices.versionOf(first.service), ...ports];
    const before = this.#known.get(first.service);
    const isSame = before?.version.length === version.length && before.version.every((part, i) => part === version[i]);
    if (isSame) return before.counts;
    const counts = this.#count(ports, cache.slicesOf(first.service));
    this.#known.set(first.service, { version, counts });
    return counts;
  }

  #count(ports: readonly PortTraffic[], slices: readonly Slice[]): CountedEndpoints['counts'] {
    this.#counted += 1;
    // Endpoints of a family in which the Service has no address: they are missing in each port.
    const foreign = slices.filter(({ family }) => !ports.some((port) => port.family === family));
    const others = foreign.reduce((sum, { endpoints }) => sum + endpoints.length, 0);
    return ports.map(({ portName: name, protocol, family, policies }) => {
      const counts: EndpointCount[] = [];
      const asked = { name, protocol, family, slices, location: this.#location };
      for (const [policy, byUse] of countUses(asked, policies)) {
        if (!byUse.has('ready')) byUse.set('ready', 0);
        for (const [use, count] of byUse) {
          counts.push({ policy, isUsed: isSliceUsed(use), reason: reasonOf(use), count });
        }
        if (others > 0) counts.push({ policy, isUsed: false, reason: 'other-family', count: others });
      }
      return counts;
    });
  }
}

/** The endpoints that are set aside because of a fault, by Service. */
export function endpointsSetAside(cache: Cache): ReadonlyMap<ServiceKey, number> {
  const found = new Map<ServiceKey, number>();
  for (const fault of cache.faults.all) {
    if (fault.kind !== 'EndpointSlice' || !isOfEndpoint(fault)) continue;
    const service = cache.slices.get(fault.object)?.service;
    if (service !== undefined) found.set(service, (found.get(service) ?? 0) + 1);
  }
  return found;
}
