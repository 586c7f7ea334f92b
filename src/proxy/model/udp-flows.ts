/**
 * Decides which UDP flows in conntrack may go on.
 *
 * Rules do not apply to a flow that conntrack has, and a UDP flow has no end: it goes to its old endpoint, or nowhere, while its
 * client sends (docs/semantics.md 8.2, k8s#139628). So a flow is judged by its destination and the source of the answers:
 *
 * - to an existing frontend: live when a ready or serving endpoint answers (with internal policy Local one on this node,
 *   k8s#126934); otherwise stale. A flow from before the rules is not translated, goes nowhere, and is stale, too;
 * - to a removed frontend: stale when it was translated;
 * - all others are foreign, and stay. A node port is a frontend on the addresses that serve node ports, a removed one on those
 *   that did.
 *
 * Pure: it holds state, and does no I/O.
 */
import type { Address, Family } from '../../base/address.ts';
import {
  type FlowEnds,
  type FlowJudgement,
  FOREIGN,
  FORMER,
  frontendKey,
  type IsNodeAddress,
  Leftovers,
  LIVE,
  type NodeAddresses,
  nodePortKey,
} from './flow-leftovers.ts';
import type { ServiceKey } from './objects.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';

/** A frontend in the kernel's rules. Without an address it is a node port. */
export interface UdpFrontend {
  readonly family: Family;
  readonly address: Address | undefined;
  readonly port: number;
}

interface ServedFrontend {
  readonly owner: ServicePortKey;
  readonly service: ServiceKey;
  /** Endpoints that may answer, as `socketBytes`. */
  readonly targets: ReadonlySet<string>;
}

export class UdpFlows {
  readonly left = new Leftovers();
  /** Frontends by `frontendKey`, and the keys of each ServicePort. */
  readonly #frontends = new Map<string, ServedFrontend>();
  readonly #keys = new Map<ServicePortKey, readonly string[]>();

  /** Takes changed ServicePorts. The cost follows their number. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    const before = new Map<string, ServedFrontend>();
    for (const key of changes.keys()) {
      for (const at of this.#keys.get(key) ?? []) {
        const frontend = this.#frontends.get(at);
        if (frontend?.owner !== key) continue;
        before.set(at, frontend);
        this.#frontends.delete(at);
        this.left.markRemoved(at, frontend.service);
      }
      this.#keys.delete(key);
    }
    const added = new Set<string>();
    for (const port of changes.values()) if (port !== undefined) for (const at of this.#add(port)) added.add(at);
    for (const at of new Set([...before.keys(), ...added])) {
      const [former, current] = [before.get(at), this.#frontends.get(at)];
      if (!mayLeaveStale(former, current)) continue;
      for (const frontend of [former, current]) if (frontend !== undefined) this.left.markPending(frontend.service);
    }
  }

  /** Frontends that an earlier run, or another service proxy, left in the kernel's rules. */
  found(frontends: readonly UdpFrontend[]): void {
    for (const { family, address, port } of frontends) {
      const at = frontendKey(family, address, port);
      if (!this.#frontends.has(at)) this.left.markFound(at);
    }
  }

  /** A predecessor's removed frontends whose flows are not swept yet, from its `handOver`. */
  inherit(former: readonly string[]): void {
    for (const at of former) if (!this.#frontends.has(at)) this.left.markFound(at);
  }

  /** Whether a flow may go on. */
  judge({ family, destination, replySource }: FlowEnds, nodes: NodeAddresses): FlowJudgement {
    const addressLength = family === 'IPv4' ? 4 : 16;
    const nodePort = nodePortKey(family, destination.slice(addressLength));
    const isServed = (isNodeAddress: IsNodeAddress) => isNodeAddress(destination.slice(0, addressLength));
    const ofNodePort = this.#frontends.get(nodePort);
    const frontend =
      this.#frontends.get(destination) ?? (ofNodePort !== undefined && isServed(nodes.now) ? ofNodePort : undefined);
    if (frontend !== undefined) {
      return frontend.targets.has(replySource) ? LIVE : { kind: 'stale', owner: frontend.owner };
    }
    if (replySource === destination) return FOREIGN;
    if (this.left.has(destination)) return FORMER;
    const wasNodePort = ofNodePort !== undefined || this.left.has(nodePort);
    return wasNodePort && (isServed(nodes.now) || isServed(nodes.before)) ? FORMER : FOREIGN;
  }

  #add(port: ServicePort): readonly string[] {
    if (port.flowTargets === undefined) return [];
    const all = new Set(port.flowTargets.all);
    const internal = port.internalPolicy === 'Local' ? new Set(port.flowTargets.local) : all;
    const keys: string[] = [];
    for (const { role, address, port: number } of port.frontends) {
      const at = frontendKey(port.family, address, number);
      this.#frontends.set(at, {
        owner: port.key,
        service: port.service,
        targets: role === 'cluster-ip' ? internal : all,
      });
      this.left.markPresent(at);
      keys.push(at);
    }
    if (keys.length > 0) this.#keys.set(port.key, keys);
    return keys;
  }
}

/** Whether a flow may have become stale: an endpoint was removed, or there was no frontend or no endpoint before. */
function mayLeaveStale(before: ServedFrontend | undefined, now: ServedFrontend | undefined): boolean {
  if (before === undefined || now === undefined || before.targets.size === 0) return true;
  for (const target of before.targets) if (!now.targets.has(target)) return true;
  return false;
}
