/** The desired state, the same for every mode: all ServicePorts. An update returns only those that changed. */
import { Claims, type FrontendAt, rivalFault, strongerTwin, twinFault } from './claims.ts';
import { sameData } from './equal.ts';
import type { Fault, Service, ServiceKey, Slice } from './objects.ts';
import type { IdleHints } from './selection.ts';
import { type Location, type ServicePort, type ServicePortKey, servicePorts } from './service-port.ts';

/** The objects that the model reads: the cache, or a plain object in a test. */
export interface Objects {
  service(key: ServiceKey): Service | undefined;
  slicesOf(key: ServiceKey): readonly Slice[];
}

/** The changes of an update. A removed ServicePort has the value undefined. */
export interface ModelChanges {
  readonly ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>;
  /** The earlier values of changed and removed ServicePorts. */
  readonly before: ReadonlyMap<ServicePortKey, ServicePort>;
  /** Services whose faults may have changed, with all of their faults now. */
  readonly faults: ReadonlyMap<ServiceKey, readonly Fault[]>;
}

export interface ProxyModelOptions {
  /** Serve spec.externalIPs. Without it no tenant can claim an address by that field (KEP-5707, CVE-2020-8554). */
  readonly servesExternalIPs?: boolean;
}

/** Holds all ServicePorts. */
export class ProxyModel {
  readonly #claims = new Claims();
  /** ServicePorts of each Service before claims are decided. */
  readonly #asked = new Map<ServiceKey, readonly ServicePort[]>();
  readonly #ports = new Map<ServicePortKey, ServicePort>();
  /** Faults of external IPs that are not served. */
  readonly #leftAside = new Map<ServiceKey, Fault>();
  readonly #servesExternalIPs: boolean;
  #location: Location;
  #visited = 0;

  constructor(location: Location, { servesExternalIPs = true }: ProxyModelOptions = {}) {
    this.#location = location;
    this.#servesExternalIPs = servesExternalIPs;
  }

  get ports(): ReadonlyMap<ServicePortKey, ServicePort> {
    return this.#ports;
  }

  /** The number of times that a Service was settled (docs/architecture.md, invariant 11). */
  get visited(): number {
    return this.#visited;
  }

  /** The ServicePort of a frontend; undefined when there is no such frontend. The cost is that of one Service. */
  frontend(at: FrontendAt): ServicePort | undefined {
    const holder = this.#claims.holder(at);
    for (const { key, family, protocol } of (holder === undefined ? undefined : this.#asked.get(holder)) ?? []) {
      if (family !== at.family || protocol !== at.protocol) continue;
      const port = this.#ports.get(key);
      if (port?.frontends.some(({ address, port: number }) => address === at.address && number === at.port))
        return port;
    }
    return undefined;
  }

  /**
   * Updates the touched Services. The cost follows their number and size (docs/architecture.md, invariant 11). A changed location
   * (the Node's zone) touches every Service.
   */
  update(touched: Iterable<ServiceKey>, objects: Objects, location: Location): ModelChanges {
    const keys = new Set(touched);
    if (!sameData(location, this.#location)) {
      this.#location = location;
      for (const key of this.#asked.keys()) keys.add(key);
    }
    const settle = new Set(keys);
    const before = new Map<ServiceKey, readonly ServicePort[]>();
    for (const key of keys) {
      const service = this.#served(key, objects.service(key));
      const asked = service === undefined ? [] : servicePorts(service, objects.slicesOf(key), location);
      before.set(key, this.#asked.get(key) ?? []);
      if (service === undefined) this.#asked.delete(key);
      else this.#asked.set(key, asked);
      for (const other of this.#claims.replace(key, service, asked)) settle.add(other);
    }
    return this.#settle(settle, before);
  }

  /** The Service without the fields that this agent does not serve. */
  #served(key: ServiceKey, service: Service | undefined): Service | undefined {
    if (service === undefined || this.#servesExternalIPs || service.externalIPs.length === 0) {
      this.#leftAside.delete(key);
      return service;
    }
    this.#leftAside.set(key, externalIPsFault(service));
    return { ...service, externalIPs: [] };
  }

  #settle(keys: ReadonlySet<ServiceKey>, asked: ReadonlyMap<ServiceKey, readonly ServicePort[]>): ModelChanges {
    this.#visited += keys.size;
    const before = new Map<ServicePortKey, ServicePort>();
    const ports = new Map<ServicePortKey, ServicePort | undefined>();
    const faults = new Map<ServiceKey, readonly Fault[]>();
    for (const key of keys) {
      const leftAside = this.#leftAside.get(key);
      const found: Fault[] = leftAside === undefined ? [] : [leftAside];
      const now = new Set<ServicePortKey>();
      for (const port of this.#asked.get(key) ?? []) {
        const settled = this.#withoutLost(port, found);
        if (settled.idleHints !== undefined) found.push(hintsFault(settled, settled.idleHints));
        now.add(port.key);
        const was = this.#ports.get(port.key);
        if (sameData(settled, was)) continue;
        if (was !== undefined) before.set(port.key, was);
        this.#ports.set(port.key, settled);
        ports.set(port.key, settled);
      }
      for (const { key: old } of asked.get(key) ?? []) {
        const was = now.has(old) ? undefined : this.#ports.get(old);
        if (was === undefined) continue;
        before.set(old, was);
        this.#ports.delete(old);
        ports.set(old, undefined);
      }
      faults.set(key, found);
    }
    return { ports, before, faults };
  }

  #withoutLost(port: ServicePort, faults: Fault[]): ServicePort {
    const held = port.frontends.filter((frontend) => {
      const holder = this.#claims.rival(port, frontend);
      if (holder !== undefined) faults.push(rivalFault(port, frontend, holder));
      return holder === undefined;
    });
    const frontends = held.filter((frontend) => {
      const twin = strongerTwin(held, frontend);
      if (twin !== undefined) faults.push(twinFault(port, frontend, twin));
      return twin === undefined;
    });
    return frontends.length === port.frontends.length ? port : { ...port, frontends };
  }
}

/** The object is valid, and its owner need not change it: the operator of the node disabled the field. */
function externalIPsFault({ key, externalIPs }: Service): Fault {
  return {
    kind: 'Service',
    object: key,
    field: 'spec.externalIPs',
    value: externalIPs.slice(0, 10).join(','),
    problem: 'not served: the feature gate AllowServiceExternalIPs is false',
    effect: 'no effect here',
  };
}

/** Hints without an effect on this node; people ask about them (eks-anywhere#6770). */
function hintsFault({ id, service, family, protocol }: ServicePort, { zones, why }: IdleHints): Fault {
  return {
    kind: 'Service',
    object: service,
    field: 'endpoints.hints.forZones',
    value: zones,
    problem: `not used for ${id} (${protocol}, ${family}): ${why}`,
    effect: 'no effect here',
  };
}
