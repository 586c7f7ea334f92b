/**
 * Decides which Service gets an address or a node port when several ask for it.
 *
 * The API server assigns a cluster IP or a node port once. But a folder of manifests can name one twice, and an external IP can be
 * another Service's cluster IP (CVE-2020-8554). Rank decides first (cluster IP before load balancer before external IP), then age,
 * then the name. The order of arrival never matters, so building from nothing and applying changes agree (docs/architecture.md,
 * invariant 12).
 */
import type { Address, Family } from './address.ts';
import type { Fault, Protocol, Service, ServiceKey } from './objects.ts';
import type { Frontend, FrontendRole, ServicePort } from './service-port.ts';

/** The destination of a connection. Without an address it is a node port. */
export interface FrontendAt {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: Address | undefined;
  readonly port: number;
}

/** A Service's claim. The lowest rank wins. */
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

/** All claims of all Services. */
export class Claims {
  readonly #byClaimKey = new Map<string, Claim[]>();
  /** The keys of the claims of each Service. */
  readonly #byService = new Map<ServiceKey, readonly string[]>();

  /**
   * Replaces the claims of a Service, which is undefined when it was deleted.
   * Returns the other Services whose claims this may decide anew.
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

  /** The other Service that has this frontend's address or port; undefined when there is none. */
  rival(port: ServicePort, frontend: Frontend): ServiceKey | undefined {
    for (const key of claimKeys(port, frontend)) {
      const winner = this.#byClaimKey.get(key)?.[0];
      if (winner !== undefined && winner.service !== port.service) return winner.service;
    }
    return undefined;
  }

  /** The Service that has this frontend; undefined when there is none. */
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

/** A cluster IP belongs to one Service with all ports. Services with different ports may share other addresses. */
function claimKeys(port: ServicePort, frontend: Frontend): string[] {
  const { family, protocol } = port;
  const socket = socketKey({ family, protocol, address: frontend.address, port: frontend.port });
  return frontend.role === 'cluster-ip' ? [`cluster-ip/${frontend.address}`, socket] : [socket];
}

function socketKey({ family, protocol, address, port }: FrontendAt): string {
  return address === undefined ? `node-port/${family}/${protocol}/${port}` : `${address}/${protocol}/${port}`;
}

/** The fault of a frontend whose address or port another Service has. */
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
