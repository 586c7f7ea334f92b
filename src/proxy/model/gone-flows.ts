/**
 * Finds the established connections of TCP to endpoints that are gone (`gone-endpoints.ts`). When the kernel forgets such a connection, the
 * client's next packet is the first one of a connection to the kernel (`nf_conntrack_tcp_loose` of nf_conntrack-sysctl.rst): it goes to another
 * endpoint, which knows no such connection and answers with a reset. Pure: it holds state, and does no I/O.
 */
import { socketBytes } from '../../base/address.ts';
import { type FlowEnds, type FlowJudgement, Leftovers, LIVE, type NodeAddresses } from './flow-leftovers.ts';
import type { GoneEndpoint } from './gone-endpoints.ts';
import type { OpeningFlows } from './opening-flows.ts';

/** Limit of endpoints whose connections wait for a sweep, as where the kernel refuses to list them. Clients of further ones are not told. */
const MAX_WAITING = 20_000;

export class GoneFlows {
  readonly left = new Leftovers(false);
  readonly #opening: OpeningFlows;

  /** `opening` knows where a connection may lead. */
  constructor(opening: OpeningFlows) {
    this.#opening = opening;
  }

  /** Takes endpoints that are gone. Their connections end once rules without them are written. */
  add(gone: readonly GoneEndpoint[]): void {
    for (const { service, address, port } of gone) {
      if (this.left.count >= MAX_WAITING) return;
      this.left.markRemoved(socketBytes(address, port), service);
      this.left.markPending(service);
    }
  }

  /** A predecessor's gone endpoints whose connections are not ended yet, from its `handOver`. */
  inherit(former: readonly string[]): void {
    for (const at of former) this.left.markFound(at);
  }

  /** Whether a connection may go on. One that leads to a gone endpoint, but by no Service, is somebody else's. */
  judge(flow: FlowEnds, nodes: NodeAddresses): FlowJudgement {
    return flow.protocol === 'TCP' && this.left.has(flow.replySource) ? this.#opening.judge(flow, nodes) : LIVE;
  }
}
