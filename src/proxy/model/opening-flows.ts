/**
 * Decides which opening connections may go on: those of TCP that sent a SYN, and of SCTP that sent an INIT, without an answer.
 *
 * The kernel keeps such an entry while its client retries from the same port, and sends every try to the endpoint of the first one.
 * When that endpoint has gone, the client never connects (k8s#101607). Only translated connections are judged, which
 * were sent to an address of a Service and never answered:
 *
 * - to an existing frontend: live with an endpoint of new connections, or any other ready or serving endpoint; otherwise stale;
 * - to a removed frontend: stale;
 * - all others are foreign, and stay. Answered connections are never judged: they end by themselves.
 *
 * The model has the frontends. A second copy would cost memory for many Services, and such connections are few.
 *
 * Pure: it holds state, and does no I/O.
 */

import { addressOfText, portOf, socketText } from '../../base/address.ts';
import type { FrontendAt } from './claims.ts';
import {
  type FlowEnds,
  type FlowJudgement,
  FOREIGN,
  FORMER,
  Leftovers,
  LIVE,
  type NodeAddresses,
  nodePortKey,
  protocolKey,
  protocolKeysOf,
} from './flow-leftovers.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';

/** The ServicePort of a frontend; undefined when there is no such frontend. */
export type FrontendLookup = (at: FrontendAt) => ServicePort | undefined;

/** The ServicePort to whose frontend a flow was sent; undefined for none. `isOfNode`: its destination is an address that takes node ports. */
export function sentTo(
  { family, protocol, destination }: Pick<FlowEnds, 'family' | 'protocol' | 'destination'>,
  isOfNode: boolean,
  lookup: FrontendLookup,
): ServicePort | undefined {
  const at = { family, protocol, port: portOf(destination.slice(-2)) };
  const found = lookup({ ...at, address: addressOfText(destination.slice(0, -2)) });
  return found ?? (isOfNode ? lookup({ ...at, address: undefined }) : undefined);
}

export class OpeningFlows {
  readonly left = new Leftovers();
  readonly #lookup: FrontendLookup;
  /** Endpoints that may answer, as `ip:port`, of the ServicePorts that were judged since the last change. */
  readonly #targets = new Map<ServicePortKey, ReadonlySet<string>>();

  constructor(lookup: FrontendLookup) {
    this.#lookup = lookup;
  }

  /** Takes changed ServicePorts, with their earlier values. The cost follows their number and size. */
  update(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void {
    this.#targets.clear();
    for (const former of before.values()) {
      if (former.protocol === 'UDP') continue;
      for (const at of protocolKeysOf(former)) this.left.markRemoved(at, former.service);
      if (mayLeaveStale(former, changes.get(former.key))) this.left.markPending(former.service);
    }
    for (const port of changes.values()) {
      if (port === undefined || port.protocol === 'UDP') continue;
      for (const at of protocolKeysOf(port)) this.left.markPresent(at);
    }
  }

  /** A predecessor's removed frontends whose flows are not swept yet, from its `handOver`. */
  inherit(former: readonly string[]): void {
    for (const at of former) this.left.markFound(at);
  }

  /** Whether a connection may go on. */
  judge({ family, protocol, destination, replySource }: FlowEnds, nodes: NodeAddresses): FlowJudgement {
    if (replySource === destination) return FOREIGN;
    const addressLength = family === 'IPv4' ? 4 : 16;
    const [address, port] = [destination.slice(0, addressLength), destination.slice(addressLength)];
    const at = { family, protocol, port: portOf(port) };
    const isOfNode = nodes.now(address);
    const owner = sentTo({ family, protocol, destination }, isOfNode, this.#lookup);
    if (owner !== undefined) {
      return this.#targetsOf(owner).has(socketText(replySource)) ? LIVE : { kind: 'stale', owner: owner.key };
    }
    if (this.left.has(protocolKey(protocol, destination))) return FORMER;
    if (!isOfNode && !nodes.before(address)) return FOREIGN;
    const wasNodePort =
      this.left.has(protocolKey(protocol, nodePortKey(family, port))) || this.#lookup({ ...at, address: undefined });
    return wasNodePort ? FORMER : FOREIGN;
  }

  #targetsOf(port: ServicePort): ReadonlySet<string> {
    const known = this.#targets.get(port.key);
    if (known !== undefined) return known;
    const targets = targetsOf(port);
    this.#targets.set(port.key, targets);
    return targets;
  }
}

function targetsOf({ cluster, local, alsoAnswering }: ServicePort): Set<string> {
  const targets = new Set(alsoAnswering);
  for (const { text } of cluster) targets.add(text);
  for (const { text } of local) targets.add(text);
  return targets;
}

/** Whether an endpoint or a frontend was removed. New ones have no flows yet. */
function mayLeaveStale(before: ServicePort, now: ServicePort | undefined): boolean {
  if (now === undefined) return true;
  const [frontends, targets] = [new Set(protocolKeysOf(now)), targetsOf(now)];
  return (
    protocolKeysOf(before).some((at) => !frontends.has(at)) ||
    [...targetsOf(before)].some((target) => !targets.has(target))
  );
}
