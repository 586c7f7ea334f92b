/**
 * Derives the node ports that the relay serves on loopback, with their endpoints, from ServicePorts (docs/semantics.md 6.17). The protocol
 * is decided here, as it is in subject.ts, notes.ts and packet-query.ts of inspect/explain and in overview/exposure-list.ts; relay.ts knows
 * its sockets by address and port without a protocol, and config/relay-settings.ts has addresses alone. Pure.
 */
import { endpointText, type Family } from '../../base/address.ts';
import { mergeSlices, portKey } from '../../proxy/model/endpoints.ts';
import type { ServiceKey, Slice } from '../../proxy/model/objects.ts';
import type { Backend, ServicePort, ServicePortKey } from '../../proxy/model/service-port.ts';
import { relayable } from '../../proxy/model/special-address.ts';

/** A node port of TCP, in one family. */
export interface RelayPort {
  readonly key: ServicePortKey;
  readonly service: ServiceKey;
  /** The name of the Service's port; "" for none. */
  readonly name: string;
  readonly family: Family;
  readonly port: number;
  /** The endpoints for new connections. */
  readonly endpoints: readonly Backend[];
  /** The endpoints, as `ip:port`, whose present connections go on. */
  readonly lasting: readonly string[];
  /** 0 without session affinity. */
  readonly affinitySeconds: number;
}

/**
 * undefined for a ServicePort that is not TCP or has no node port. Policy Local restricts the node's own connections to endpoints on this node,
 * too (KEP-6032), unlike in the kernel's rules (docs/semantics.md 4.1).
 */
export function relayPort(port: ServicePort): RelayPort | undefined {
  if (port.protocol !== 'TCP') return undefined;
  const frontend = port.frontends.find(({ role }) => role === 'node-port');
  if (frontend === undefined) return undefined;
  const { key, id, service, family, cluster, local, alsoAnswering, affinitySeconds } = port;
  const list = frontend.policy === 'Local' ? local : cluster;
  return {
    key,
    service,
    name: id.slice(service.length + 1),
    family,
    port: frontend.port,
    // By their addresses alone, whatever the protocol is.
    endpoints: relayable(list),
    lasting: [...cluster.map(({ text }) => text), ...local.map(({ text }) => text), ...alsoAnswering],
    affinitySeconds,
  };
}

/** The endpoints, as `ip:port`, that slices list for the port, whatever their conditions are. */
export function listedEndpoints(
  { name, family }: Pick<RelayPort, 'name' | 'family'>,
  slices: readonly Slice[],
): ReadonlySet<string> {
  const key = portKey(name, 'TCP');
  const found = mergeSlices(slices, family, new Set([key])).get(key) ?? [];
  return new Set(found.map(({ endpoint, port }) => endpointText(endpoint.address, port)));
}
