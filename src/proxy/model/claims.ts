/**
 * Decides which Service gets an address or a node port when several ask for it.
 *
 * The API server assigns a cluster IP or a node port once. But a folder of manifests can name one twice, and an external IP can be
 * another Service's cluster IP (CVE-2020-8554). Rank decides first (cluster IP before load balancer before external IP), then age,
 * then the name. The order of arrival never matters, so building from nothing and applying changes agree (docs/architecture.md,
 * invariant 12).
 */
import type { Address, Family, Protocol } from '../../base/address.ts';
import type { Fault, ServiceKey } from './objects.ts';
import type { PortsOfService } from './packed/ports.ts';
import type { Frontend, FrontendRole, ServicePort } from './service-port.ts';

/** The destination of a connection. Without an address it is a node port. */
export interface FrontendAt {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: Address | undefined;
  readonly port: number;
}

const RANK: Readonly<Record<FrontendRole, number>> = {
  'cluster-ip': 0,
  'load-balancer': 1,
  'external-ip': 2,
  'node-port': 0,
};

/** How strong the claims of a Service are. */
interface Terms {
  readonly createdAt: number;
  /** By claim and by `socketKey` of a cluster IP: the rank of the Service's strongest frontend there; the lowest wins. */
  readonly ranks: ReadonlyMap<string, number>;
}

/** Services, the strongest claim first. Most addresses have one, which is kept without a list. */
type Claimants = ServiceKey | ServiceKey[];

/**
 * All claims of all Services. A cluster IP is claimed with all of its ports; other addresses and node ports by port, so that Services
 * with different ports may share them. A Service's claims are not kept: they follow from what it asks for.
 */
export class Claims {
  /** By cluster IP, and by `socketKey` of the other frontends. */
  readonly #claimants = new Map<string, Claimants>();
  readonly #portsOf: (service: ServiceKey) => PortsOfService;
  /** The terms of the Services that were compared since the last `forgetTerms`: to make them anew for each claim takes too long. */
  readonly #terms = new Map<ServiceKey, Terms>();

  /** `portsOf` returns the ServicePorts that a Service asks for now. */
  constructor(portsOf: (service: ServiceKey) => PortsOfService) {
    this.#portsOf = portsOf;
  }

  /**
   * Replaces the claims of a Service, for which `portsOf` returns the new ports already. Returns the other Services whose claims may be
   * decided in another way now.
   */
  replace(key: ServiceKey, former: PortsOfService, now: PortsOfService): Set<ServiceKey> {
    const affected = new Set<ServiceKey>();
    // Most changes are of endpoints.
    if (areSame(former, now)) return affected;
    const [before, after] = [former.ports, now.ports];
    this.#terms.delete(key);
    for (const claim of claimsOf(before)) {
      this.#drop(claim, key);
      for (const other of this.#all(claim)) affected.add(other);
    }
    for (const claim of claimsOf(after)) {
      for (const other of this.#all(claim)) affected.add(other);
      this.#add(claim, key);
    }
    // Others may claim a port of its cluster IP as another address of theirs.
    for (const ports of [before, after]) {
      for (const socket of clusterSockets(ports)) for (const other of this.#all(socket)) affected.add(other);
    }
    affected.delete(key);
    return affected;
  }

  /** Frees the memory of the comparisons. */
  forgetTerms(): void {
    this.#terms.clear();
  }

  /** The other Service that has this frontend's address or port; undefined when there is none. */
  rival(port: ServicePort, frontend: Frontend): ServiceKey | undefined {
    const { family, protocol } = port;
    const { role, address } = frontend;
    const isCluster = role === 'cluster-ip' && address !== undefined;
    const holder = isCluster ? this.#all(address)[0] : this.holder({ family, protocol, address, port: frontend.port });
    return holder === port.service ? undefined : holder;
  }

  /** The Service that has this frontend; undefined when there is none. */
  holder(at: FrontendAt): ServiceKey | undefined {
    const { address } = at;
    const ofCluster =
      address === undefined ? undefined : this.#all(address).find((key) => this.#rankAt(socketKey(at), key) === 0);
    return ofCluster ?? this.#all(socketKey(at))[0];
  }

  #all(claim: string): readonly ServiceKey[] {
    const claimants = this.#claimants.get(claim) ?? [];
    return typeof claimants === 'string' ? [claimants] : claimants;
  }

  #drop(claim: string, service: ServiceKey): void {
    const claimants = this.#claimants.get(claim);
    if (claimants === service) this.#claimants.delete(claim);
    if (claimants === undefined || typeof claimants === 'string') return;
    const left = claimants.filter((other) => other !== service);
    if (left.length > 1) this.#claimants.set(claim, left);
    else if (left[0] !== undefined) this.#claimants.set(claim, left[0]);
    else this.#claimants.delete(claim);
  }

  #add(claim: string, service: ServiceKey): void {
    const claimants = this.#claimants.get(claim);
    if (claimants === undefined) {
      this.#claimants.set(claim, service);
      return;
    }
    const all = typeof claimants === 'string' ? [claimants] : claimants;
    // A binary search: few of many claims are compared.
    let [first, end] = [0, all.length];
    while (first < end) {
      const middle = (first + end) >> 1;
      if (this.#isStronger(claim, all[middle] ?? '', service)) first = middle + 1;
      else end = middle;
    }
    this.#claimants.set(claim, all.toSpliced(first, 0, service));
  }

  #isStronger(claim: string, a: ServiceKey, b: ServiceKey): boolean {
    const [ageOfA, ageOfB] = [this.#termsOf(a).createdAt, this.#termsOf(b).createdAt];
    return (this.#rankAt(claim, a) - this.#rankAt(claim, b) || ageOfA - ageOfB || (a < b ? -1 : 1)) < 0;
  }

  #rankAt(claim: string, service: ServiceKey): number {
    return this.#termsOf(service).ranks.get(claim) ?? Number.POSITIVE_INFINITY;
  }

  #termsOf(service: ServiceKey): Terms {
    let terms = this.#terms.get(service);
    if (terms === undefined) {
      terms = termsOf(this.#portsOf(service));
      this.#terms.set(service, terms);
    }
    return terms;
  }
}

/** Whether the claims of both and their terms are the same. */
function areSame(a: PortsOfService, b: PortsOfService): boolean {
  const isSame = (port: ServicePort, other: ServicePort | undefined) =>
    other !== undefined &&
    port.family === other.family &&
    port.protocol === other.protocol &&
    port.frontends.length === other.frontends.length &&
    port.frontends.every(({ role, address, port: number }, i) => {
      const frontend = other.frontends[i];
      return frontend?.role === role && frontend.address === address && frontend.port === number;
    });
  return (
    a.createdAt === b.createdAt &&
    a.ports.length === b.ports.length &&
    a.ports.every((port, i) => isSame(port, b.ports[i]))
  );
}

function termsOf({ createdAt, ports }: PortsOfService): Terms {
  const ranks = new Map<string, number>();
  for (const port of ports) {
    for (const frontend of port.frontends) {
      const { role, address } = frontend;
      const claims = [socketOf(port, frontend), ...(role === 'cluster-ip' && address !== undefined ? [address] : [])];
      for (const claim of claims) ranks.set(claim, Math.min(RANK[role], ranks.get(claim) ?? Number.POSITIVE_INFINITY));
    }
  }
  return { createdAt, ranks };
}

/** The claims of these ports, each once. */
function claimsOf(ports: readonly ServicePort[]): Set<string> {
  const claims = new Set<string>();
  for (const port of ports) {
    for (const frontend of port.frontends) {
      const isCluster = frontend.role === 'cluster-ip' && frontend.address !== undefined;
      claims.add(isCluster ? frontend.address : socketOf(port, frontend));
    }
  }
  return claims;
}

function* clusterSockets(ports: readonly ServicePort[]): Generator<string> {
  for (const port of ports) {
    for (const frontend of port.frontends) if (frontend.role === 'cluster-ip') yield socketOf(port, frontend);
  }
}

function socketOf({ family, protocol }: ServicePort, { address, port }: Frontend): string {
  return socketKey({ family, protocol, address, port });
}

function socketKey({ family, protocol, address, port }: FrontendAt): string {
  return address === undefined ? `node-port/${family}/${protocol}/${port}` : `${address}/${protocol}/${port}`;
}

/** The fault of a frontend whose address or port another Service has. */
export function rivalFault(port: ServicePort, frontend: Frontend, holder: ServiceKey): Fault {
  const value = frontend.address ?? String(frontend.port);
  const subject =
    frontend.role === 'cluster-ip' ? 'this cluster IP' : `${value} for ${port.protocol} port ${frontend.port}`;
  return {
    kind: 'Service',
    object: port.service,
    field: FIELD[frontend.role],
    value,
    problem: `${subject} already belongs to Service ${holder}`,
    effect: 'part left out',
    holder,
  };
}

/** A frontend of the same ServicePort with the same address and a stronger claim, such as the cluster IP for an equal external IP. */
export function strongerTwin(kept: readonly Frontend[], { address, role }: Frontend): Frontend | undefined {
  if (address === undefined) return undefined;
  return kept.find((other) => other.address === address && RANK[other.role] < RANK[role]);
}

/** The fault of the weaker frontend. The stronger one counts, so that it cannot bypass source ranges. */
export function twinFault(port: ServicePort, { role, address }: Frontend, twin: Frontend): Fault {
  return {
    kind: 'Service',
    object: port.service,
    field: FIELD[role],
    value: address ?? '',
    problem: `already an address of this Service by ${FIELD[twin.role]}`,
    effect: 'no effect here',
  };
}

const FIELD: Readonly<Record<FrontendRole, string>> = {
  'cluster-ip': 'spec.clusterIP',
  'external-ip': 'spec.externalIPs',
  'load-balancer': 'status.loadBalancer.ingress',
  'node-port': 'spec.ports.nodePort',
};
