/**
 * Who may use an address or a node port when several Services ask for it.
 *
 * The API server hands out a cluster IP and a node port once, but nothing stops a folder of manifests from naming one
 * twice, or an external IP from being another Service's cluster IP (CVE-2020-8554). A claim is won by rank (cluster IP
 * before load balancer before external IP), then by age, then by name: never by the order of arrival, so that building
 * from nothing and applying changes agree (invariant 12).
 */
import type { Address, Family } from './address.ts';
import type { Fault, Protocol, Service, ServiceKey } from './objects.ts';
import type { Frontend, FrontendRole, ServicePort } from './service-port.ts';

/** What a connection is sent to; no address: a node port. */
export interface FrontendAt {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: Address | undefined;
  readonly port: number;
}

/** One wish of a Service: the thing, and how strong the wish is. */
interface Claim {
  readonly service: ServiceKey;
  readonly rank: number;
  readonly createdAt: number;
}

const RANK: Readonly<Record<FrontendRole, number>> = {
  'cluster-ip': 0,
  'load-balancer': 1,
  'external-ip': 2,
  'node-port': 0,
};

export class Claims {
  readonly #byClaimKey = new Map<string, Claim[]>();
  /** What each Service claims. */
  readonly #byService = new Map<ServiceKey, readonly string[]>();

  /**
   * Replace what a Service claims (undefined: it is gone).
   * Returns the other Services whose standing may have changed with it.
   */
  replace(key: ServiceKey, service: Service | undefined, ports: readonly ServicePort[]): Set<ServiceKey> {
    const before = this.#byService.get(key) ?? [];
    const after = new Map<string, number>();
    for (const port of ports) {
      for (const frontend of port.frontends) addClaimKeys(after, port, frontend);
    }
    const affected = new Set<ServiceKey>();
    const createdAt = service?.createdAt ?? 0;
    for (const claimKey of before) this.#drop(claimKey, key, affected);
    for (const [claimKey, rank] of after) this.#add(claimKey, { service: key, rank, createdAt }, affected);
    if (after.size > 0) this.#byService.set(key, [...after.keys()]);
    else this.#byService.delete(key);
    affected.delete(key);
    return affected;
  }

  /** The Service that holds what this frontend asks for, when it is another one. */
  rival(port: ServicePort, frontend: Frontend): ServiceKey | undefined {
    for (const key of claimKeys(port, frontend)) {
      const winner = this.#byClaimKey.get(key)?.[0];
      if (winner !== undefined && winner.service !== port.service) return winner.service;
    }
    return undefined;
  }

  /** The Service that holds this frontend. */
  holder(at: FrontendAt): ServiceKey | undefined {
    return this.#byClaimKey.get(socketKey(at))?.[0]?.service;
  }

  #drop(key: string, service: ServiceKey, affected: Set<ServiceKey>): void {
    const left = (this.#byClaimKey.get(key) ?? []).filter((claim) => claim.service !== service);
    for (const claim of left) affected.add(claim.service);
    if (left.length > 0) this.#byClaimKey.set(key, left);
    else this.#byClaimKey.delete(key);
  }

  #add(key: string, claim: Claim, affected: Set<ServiceKey>): void {
    const others = this.#byClaimKey.get(key);
    if (others === undefined) {
      this.#byClaimKey.set(key, [claim]);
      return;
    }
    for (const other of others) affected.add(other.service);
    this.#byClaimKey.set(key, [...others, claim].sort(compareClaims));
  }
}

function compareClaims(a: Claim, b: Claim): number {
  return a.rank - b.rank || a.createdAt - b.createdAt || (a.service < b.service ? -1 : 1);
}

function addClaimKeys(into: Map<string, number>, port: ServicePort, frontend: Frontend): void {
  for (const key of claimKeys(port, frontend)) {
    into.set(key, Math.min(RANK[frontend.role], into.get(key) ?? Number.POSITIVE_INFINITY));
  }
}

/** A cluster IP belongs to one Service as a whole; other addresses may be shared by Services with different ports. */
function claimKeys(port: ServicePort, frontend: Frontend): string[] {
  const { family, protocol } = port;
  const socket = socketKey({ family, protocol, address: frontend.address, port: frontend.port });
  return frontend.role === 'cluster-ip' ? [`cluster-ip/${frontend.address}`, socket] : [socket];
}

function socketKey({ family, protocol, address, port }: FrontendAt): string {
  return address === undefined ? `node-port/${family}/${protocol}/${port}` : `${address}/${protocol}/${port}`;
}

/** The fault of a frontend that lost its claim. */
export function rivalFault(port: ServicePort, frontend: Frontend, holder: ServiceKey): Fault {
  const value = frontend.address ?? String(frontend.port);
  const what =
    frontend.role === 'cluster-ip' ? 'this cluster IP' : `${value} for ${port.protocol} port ${frontend.port}`;
  return {
    kind: 'Service',
    object: port.service,
    field: FIELD[frontend.role],
    value,
    problem: `${what} already belongs to Service ${holder}`,
    effect: 'part left out',
  };
}

/** Another frontend of the same ServicePort on the same address, with a stronger claim: an external IP that is also the cluster IP, or the load balancer's. */
export function strongerTwin(kept: readonly Frontend[], { address, role }: Frontend): Frontend | undefined {
  if (address === undefined) return undefined;
  return kept.find((other) => other.address === address && RANK[other.role] < RANK[role]);
}

/** What is said of a frontend that has one. Of two meanings the stronger counts: source ranges are not gone round. */
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
