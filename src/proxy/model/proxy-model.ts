/** The desired state, the same for every mode: all ServicePorts. An update returns only those that changed. */
import { sameData } from '../../base/equal.ts';
import { Claims, type FrontendAt, rivalFault, strongerTwin, twinFault } from './claims.ts';
import { MAX_PAIRS } from './endpoints.ts';
import { BALANCE_ANNOTATION, balanceText } from './labels.ts';
import { type Limit, limitAnnotation, limitText } from './limits.ts';
import { MODES, type ModeDescriptor } from './modes.ts';
import { type Fault, MAX_FAULTS, type Service, type ServiceKey, type Slice } from './objects.ts';
import type { Packed } from './packed/bytes.ts';
import { type PortsOfService, packPorts, unpackPorts } from './packed/ports.ts';
import type { IdleHints } from './selection.ts';
import {
  type Frontend,
  type Location,
  type ServicePort,
  type ServicePortKey,
  serviceOfPort,
  servicePorts,
  withinPairs,
} from './service-port.ts';

/** The objects that the model reads: the cache, or a plain object in a test. */
export interface ModelObjects {
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
  /** The abilities of the mode. A fault of the Service tells what it asks for beyond them. */
  readonly mode?: Pick<ModeDescriptor, 'hashesClients' | 'limits'>;
}

/** Holds all ServicePorts, those of a Service packed in one text. */
export class ProxyModel {
  readonly ports: ReadonlyMap<ServicePortKey, ServicePort>;
  readonly #claims: Claims;
  /** ServicePorts of each Service before claims are decided. */
  readonly #requested = new Map<ServiceKey, Packed<PortsOfService>>();
  /** ServicePorts of the Services that lost a claim, without the lost frontends. */
  readonly #settled = new Map<ServiceKey, Packed<PortsOfService>>();
  /** Faults of what is not served of a Service: external IPs, and slices above the limit. */
  readonly #unserved = new Map<ServiceKey, readonly Fault[]>();
  readonly #servesExternalIPs: boolean;
  readonly #mode: Pick<ModeDescriptor, 'hashesClients' | 'limits'>;
  #location: Location;
  #visited = 0;

  constructor(location: Location, { servesExternalIPs = true, mode = MODES.nftables }: ProxyModelOptions = {}) {
    this.#location = location;
    this.#servesExternalIPs = servesExternalIPs;
    this.#mode = mode;
    this.#claims = new Claims((key) => unpacked(key, this.#requested.get(key)));
    this.ports = new PortsView(this.#requested, (key) => this.portsOf(key));
  }

  /** The number of times that a Service was settled (docs/architecture.md, invariant 11). */
  get visited(): number {
    return this.#visited;
  }

  get location(): Location {
    return this.#location;
  }

  /** The ServicePort of a frontend; undefined when there is no such frontend. The cost is that of one Service. */
  frontend(at: FrontendAt): ServicePort | undefined {
    const holder = this.#claims.holder(at);
    this.#claims.forgetTerms();
    const isThere = ({ address, port }: Frontend) => address === at.address && port === at.port;
    return (holder === undefined ? [] : this.portsOf(holder)).find(
      ({ family, protocol, frontends }) => family === at.family && protocol === at.protocol && frontends.some(isThere),
    );
  }

  /**
   * Updates the touched Services. The cost follows their number and size (docs/architecture.md, invariant 11). A changed location
   * (the Node's zone) touches every Service. Changed suspects do not: the caller names the Services that have endpoints there.
   */
  update(touched: Iterable<ServiceKey>, objects: ModelObjects, location: Location): ModelChanges {
    const keys = new Set(touched);
    const { nodeName, zone } = this.#location;
    this.#location = location;
    if (location.nodeName !== nodeName || location.zone !== zone) {
      for (const key of this.#requested.keys()) keys.add(key);
    }
    const touchedNow = new Map<ServiceKey, Touched>();
    const settle = new Set(keys);
    for (const key of keys) {
      this.#unserved.delete(key);
      const service = this.#withoutUnserved(objects.service(key));
      const ports =
        service === undefined ? [] : servicePorts(service, this.#served(service, objects.slicesOf(key)), location);
      const former = this.#requested.get(key);
      const settled = this.#settled.get(key);
      const requested = { createdAt: service?.createdAt ?? 0, ports };
      const packed = service === undefined ? undefined : packPorts(requested);
      const asked = packed === former ? requested : unpacked(key, former);
      touchedNow.set(key, { packed: settled ?? former, before: settled === undefined ? asked : undefined, requested });
      if (packed === former) continue;
      if (packed === undefined) this.#requested.delete(key);
      else this.#requested.set(key, packed);
      const affected = this.#claims.replace(key, asked, requested);
      for (const other of affected) settle.add(other);
    }
    const changes = this.#settle(settle, touchedNow);
    this.#claims.forgetTerms();
    return changes;
  }

  /** The ServicePorts of a Service. */
  portsOf(key: ServiceKey): readonly ServicePort[] {
    return unpacked(key, this.#settled.get(key) ?? this.#requested.get(key)).ports;
  }

  /** The Service without the fields that this agent does not serve. */
  #withoutUnserved(service: Service | undefined): Service | undefined {
    if (service === undefined) return undefined;
    const lacksExternalIPs = !this.#servesExternalIPs && service.externalIPs.length > 0;
    const lacksHash = !this.#mode.hashesClients && service.hashes !== undefined;
    const lost = service.limits?.filter(({ name }) => !this.#mode.limits.includes(name)) ?? NO_LIMITS;
    if (!lacksExternalIPs && !lacksHash && lost.length === 0) return service;
    this.#unserved.set(service.key, [
      ...(lacksExternalIPs ? [externalIPsFault(service)] : []),
      ...(lacksHash ? [hashFault(service)] : []),
      ...lost.map((limit) => limitFault(service, limit)),
    ]);
    const { hashes, limits = NO_LIMITS, ...others } = service;
    const kept = limits.filter((limit) => !lost.includes(limit));
    return {
      ...others,
      ...(lacksExternalIPs ? { externalIPs: [] } : {}),
      ...(lacksHash || hashes === undefined ? {} : { hashes }),
      ...(kept.length === 0 ? {} : { limits: kept }),
    };
  }

  /** The slices that this agent serves: of a Service with too many of them only the first. */
  #served(service: Service, slices: readonly Slice[]): readonly Slice[] {
    const within = withinPairs(service, slices);
    const leftOut = slices.length - within.slices.length;
    if (leftOut === 0) return slices;
    const faults = this.#unserved.get(service.key) ?? [];
    this.#unserved.set(service.key, [...faults, pairsFault(service, within.pairs, leftOut)]);
    return within.slices;
  }

  /** Decides the claims of Services. Those that are affected but not touched ask for the same as before. */
  #settle(keys: ReadonlySet<ServiceKey>, touched: ReadonlyMap<ServiceKey, Touched>): ModelChanges {
    this.#visited += keys.size;
    const changes = { ports: new Map(), before: new Map(), faults: new Map() };
    for (const key of keys) {
      const faults: Fault[] = [...(this.#unserved.get(key) ?? [])];
      const packed = this.#requested.get(key);
      const {
        packed: former,
        before,
        requested,
      } = touched.get(key) ?? {
        packed: this.#settled.get(key) ?? packed,
        before: undefined,
        requested: unpacked(key, packed),
      };
      const { createdAt, ports } = requested;
      const settled = ports.map((port) => {
        const granted = this.#withoutLost(port, faults);
        if (granted.idleHints !== undefined) faults.push(hintsFault(granted, granted.idleHints));
        return granted;
      });
      const isAsRequested = settled.every((port, i) => port === ports[i]);
      const now = isAsRequested ? packed : packPorts({ createdAt, ports: settled });
      if (isAsRequested || now === undefined) this.#settled.delete(key);
      else this.#settled.set(key, now);
      if (now !== former) addChanges(changes, (before ?? unpacked(key, former)).ports, settled);
      changes.faults.set(key, boundedFaults(key, faults));
    }
    return changes;
  }

  /** The ServicePort without the frontends that another Service, or a stronger one of its own, has. */
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

/** A touched Service: its earlier ServicePorts, also unpacked where they are at hand, and those that it asks for now. */
interface Touched {
  readonly packed: Packed<PortsOfService> | undefined;
  readonly before: PortsOfService | undefined;
  readonly requested: PortsOfService;
}

const NO_LIMITS: readonly Limit[] = [];
const NO_PORTS: PortsOfService = { createdAt: 0, ports: [] };

function unpacked(key: ServiceKey, packed: Packed<PortsOfService> | undefined): PortsOfService {
  return packed === undefined ? NO_PORTS : unpackPorts(key, packed);
}

/** Adds the differences between the ServicePorts of a Service before and now. */
function addChanges(
  changes: { ports: Map<ServicePortKey, ServicePort | undefined>; before: Map<ServicePortKey, ServicePort> },
  before: readonly ServicePort[],
  now: readonly ServicePort[],
): void {
  const left = new Map(before.map((port) => [port.key, port]));
  for (const port of now) {
    const former = left.get(port.key);
    left.delete(port.key);
    if (sameData(port, former)) continue;
    if (former !== undefined) changes.before.set(port.key, former);
    changes.ports.set(port.key, port);
  }
  for (const [key, former] of left) {
    changes.before.set(key, former);
    changes.ports.set(key, undefined);
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

/** The mode chooses endpoints by chance alone. */
function hashFault({ key, hashes }: Service): Fault {
  return {
    kind: 'Service',
    object: key,
    field: `metadata.annotations["${BALANCE_ANNOTATION}"]`,
    value: hashes === undefined ? '' : balanceText(hashes),
    problem: 'not used: this mode has no choice by the client, and chooses endpoints at random',
    effect: 'no effect here',
  };
}

/** The mode cannot keep the limit. */
function limitFault({ key }: Service, limit: Limit): Fault {
  return {
    kind: 'Service',
    object: key,
    field: `metadata.annotations["${limitAnnotation(limit.name)}"]`,
    value: limitText(limit),
    problem: 'not used: this mode cannot keep this limit; nftables mode can',
    effect: 'no effect here',
  };
}

function pairsFault({ key, ports }: Service, pairs: number, leftOut: number): Fault {
  return {
    ...{ kind: 'Service', object: key, field: 'spec.ports', value: `${ports.length} ports` },
    problem: `with the endpoints of all EndpointSlices they make ${pairs} pairs; ${MAX_PAIRS} is the limit, and the last ${leftOut} EndpointSlices by name are left out`,
    effect: 'part left out',
  };
}

/** A Service may lose as many frontends as it asks for. Beyond the limit the faults are counted. */
function boundedFaults(key: ServiceKey, faults: readonly Fault[]): readonly Fault[] {
  if (faults.length <= MAX_FAULTS) return faults;
  const [listed, others] = [faults.slice(0, MAX_FAULTS - 1), faults.slice(MAX_FAULTS - 1)];
  const isNote = others.every(({ effect }) => effect === 'no effect here');
  const last: Fault = {
    ...{
      kind: 'Service',
      object: key,
      field: '',
      value: '',
      problem: `${others.length} more of its fields cannot be used`,
    },
    effect: isNote ? 'no effect here' : 'part left out',
  };
  return [...listed, last];
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
    part: 'hints',
  };
}

/** All ServicePorts as a read-only map. They are unpacked when they are read. */
class PortsView implements ReadonlyMap<ServicePortKey, ServicePort> {
  readonly #services: { keys(): Iterable<ServiceKey> };
  readonly #portsOf: (service: ServiceKey) => readonly ServicePort[];

  constructor(services: { keys(): Iterable<ServiceKey> }, portsOf: (service: ServiceKey) => readonly ServicePort[]) {
    this.#services = services;
    this.#portsOf = portsOf;
  }

  /** It unpacks and counts all of them. */
  get size(): number {
    let size = 0;
    for (const service of this.#services.keys()) size += this.#portsOf(service).length;
    return size;
  }

  has(key: ServicePortKey): boolean {
    return this.get(key) !== undefined;
  }

  get(key: ServicePortKey): ServicePort | undefined {
    return this.#portsOf(serviceOfPort(key)).find((port) => port.key === key);
  }

  *entries(): MapIterator<[ServicePortKey, ServicePort]> {
    for (const port of this.values()) yield [port.key, port];
  }

  *keys(): MapIterator<ServicePortKey> {
    for (const { key } of this.values()) yield key;
  }

  *values(): MapIterator<ServicePort> {
    for (const service of this.#services.keys()) yield* this.#portsOf(service);
  }

  [Symbol.iterator](): MapIterator<[ServicePortKey, ServicePort]> {
    return this.entries();
  }

  forEach(call: (port: ServicePort, key: ServicePortKey, map: ReadonlyMap<ServicePortKey, ServicePort>) => void): void {
    for (const [key, port] of this) call(port, key, this);
  }
}
