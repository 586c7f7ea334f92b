/** Where the agent of each node listens, from the EndpointSlices of the agents' headless Service. Pure. */

import { familyOf } from '../base/address.ts';
import type { AgentEndpoint } from '../cluster/api/decode/fleet.ts';
import type { SliceKey } from '../proxy/model/objects.ts';
import type { AgentPlace } from './tracked-node.ts';

export class AgentPlaces {
  readonly #slices = new Map<SliceKey, readonly AgentEndpoint[]>();
  /** By node: the slices that have an agent of it. */
  readonly #byNode = new Map<string, Set<SliceKey>>();

  /** A slice changed. Returns the nodes whose agents it has or had. */
  set(key: SliceKey, endpoints: readonly AgentEndpoint[]): ReadonlySet<string> {
    const before = this.#slices.get(key) ?? [];
    if (endpoints.length === 0) this.#slices.delete(key);
    else this.#slices.set(key, endpoints);
    for (const { node } of before) {
      const slices = this.#byNode.get(node);
      slices?.delete(key);
      if (slices?.size === 0) this.#byNode.delete(node);
    }
    for (const { node } of endpoints) this.#byNode.set(node, (this.#byNode.get(node) ?? new Set()).add(key));
    return new Set([...before, ...endpoints].map(({ node }) => node));
  }

  /** undefined: there is none. An agent that ends gives way to its successor, and IPv6 to IPv4. */
  of(node: string): AgentPlace | undefined {
    const all = [...(this.#byNode.get(node) ?? [])].sort().flatMap((key) => this.#slices.get(key) ?? []);
    const rank = ({ terminating, address }: AgentEndpoint) =>
      (terminating ? 2 : 0) + (familyOf(address) === 'IPv6' ? 1 : 0);
    const [best] = all.filter((each) => each.node === node).sort((a, b) => rank(a) - rank(b));
    return best === undefined ? undefined : { address: best.address, port: best.port };
  }
}
