/** Finds the endpoints of a Service's ports in its slices (docs/semantics.md 2.4). Pure. */

import { endpointText, type Family, type Protocol } from '../../base/address.ts';
import type { Endpoint, Slice } from './objects.ts';

/** An endpoint with the port number of the slice it came from. */
export interface PortEndpoint {
  readonly endpoint: Endpoint;
  readonly port: number;
  /** `ip:port`. */
  readonly text: string;
}

/** Endpoints by `name/PROTOCOL` of the slice port, each list sorted by `ip:port`. */
export type EndpointsByPort = ReadonlyMap<string, readonly PortEndpoint[]>;

/** The key of a Service port's endpoints. Target ports are not compared (docs/semantics.md 1.3). */
export function portKey(name: string, protocol: Protocol): string {
  return `${name}/${protocol}`;
}

/**
 * Limit of the pairs of an endpoint and a port, of one EndpointSlice, and of all slices of a Service for its own ports. Each pair takes memory.
 */
export const MAX_PAIRS = 1_000_000;

/**
 * Merges the slices of one Service for one family. An `ip:port` occurs twice while an endpoint moves between slices. The most useful
 * entry counts: ready before serving before not terminating (Kubernetes 1.36 compares only the last). Between equal entries the
 * slice whose name sorts first counts, so that the result does not depend on the order of arrival.
 *
 * `wanted`: keys of ports; others cost nothing. undefined: all.
 */
export function mergeSlices(slices: Iterable<Slice>, family: Family, wanted?: ReadonlySet<string>): EndpointsByPort {
  const ports = new Map<string, Map<string, PortEndpoint>>();
  const ordered = [...slices].filter((slice) => slice.family === family).sort((a, b) => (a.key < b.key ? -1 : 1));
  for (const slice of ordered) {
    for (const port of slice.ports) {
      if (wanted?.has(portKey(port.name, port.protocol)) ?? true) addPort(ports, slice, port);
    }
  }
  const merged = new Map<string, readonly PortEndpoint[]>();
  for (const [key, byText] of ports) {
    if (byText.size > 0)
      merged.set(
        key,
        [...byText.values()].sort((a, b) => (a.text < b.text ? -1 : 1)),
      );
  }
  return merged;
}

function addPort(ports: Map<string, Map<string, PortEndpoint>>, slice: Slice, port: Slice['ports'][number]): void {
  const key = portKey(port.name, port.protocol);
  let byText = ports.get(key);
  if (byText === undefined) {
    byText = new Map();
    ports.set(key, byText);
  }
  for (const endpoint of slice.endpoints) {
    const text = endpointText(endpoint.address, port.port);
    const before = byText.get(text);
    if (before === undefined || usefulness(endpoint) > usefulness(before.endpoint)) {
      byText.set(text, { endpoint, port: port.port, text });
    }
  }
}

function usefulness({ ready, serving, terminating }: Endpoint): number {
  return (ready ? 4 : 0) + (serving ? 2 : 0) + (terminating ? 0 : 1);
}
