/** The use of each endpoint of each slice of a Service port on this node, with its reason (docs/semantics.md 2.4, 3.4). Pure. */
import { endpointText, type Family, type Protocol } from '../../base/address.ts';
import { mergeSlices, type PortEndpoint, portKey } from './endpoints.ts';
import type { Endpoint, Fault, Slice, TrafficPolicy } from './objects.ts';
import { type EndpointUse, isUsed, judge } from './selection.ts';
import type { Location } from './service-port.ts';

export type SliceUse =
  | EndpointUse
  /** Another entry of the same address and port is of more use, or comes first (docs/semantics.md 2.4). */
  | 'duplicate'
  /** The slice has no port of the name and the protocol (docs/semantics.md 1.3). */
  | 'no such port';

export interface JudgedEndpoint {
  readonly endpoint: Endpoint;
  /** undefined when the slice has no such port. */
  readonly port: number | undefined;
  readonly use: SliceUse;
  /** The entry that counts instead of a duplicate. */
  readonly counts?: Endpoint | undefined;
}

export interface JudgedPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly family: Family;
  /** All slices of the Service. */
  readonly slices: readonly Slice[];
  readonly location: Location;
}

/** Judges the slices of the port's family under each policy. */
export function judgeSlices(port: JudgedPort): (policy: TrafficPolicy, slice: Slice) => JudgedEndpoint[] {
  const { name, protocol, family, slices, location } = port;
  const key = portKey(name, protocol);
  const counting = mergeSlices(slices, family, new Set([key])).get(key) ?? [];
  const byText = new Map<string, PortEndpoint>(counting.map((each) => [each.text, each]));
  const judges = new Map<TrafficPolicy, ReturnType<typeof judge>>();
  return (policy, slice) => {
    const useOf = judges.get(policy) ?? judge({ endpoints: counting, ...location }, policy);
    judges.set(policy, useOf);
    const ports = slice.ports.filter((each) => each.name === name && each.protocol === protocol);
    if (ports.length === 0) {
      return slice.endpoints.map((endpoint) => ({ endpoint, port: undefined, use: 'no such port' }));
    }
    return ports.flatMap(({ port: number }) =>
      slice.endpoints.map((endpoint): JudgedEndpoint => {
        const counts = byText.get(endpointText(endpoint.address, number))?.endpoint;
        if (counts !== endpoint) return { endpoint, port: number, use: 'duplicate', counts };
        return { endpoint, port: number, use: useOf(endpoint) };
      }),
    );
  };
}

/** Whether a fault of a slice sets one of its endpoints aside. */
export function isOfEndpoint({ part, effect }: Fault): boolean {
  return part === 'endpoint' && effect === 'part left out';
}

export function isSliceUsed(use: SliceUse): boolean {
  return use !== 'duplicate' && use !== 'no such port' && isUsed(use);
}

/** The number of endpoints by their use, under a policy. */
export function countUses(
  port: JudgedPort,
  policies: Iterable<TrafficPolicy>,
): Map<TrafficPolicy, Map<SliceUse, number>> {
  const judged = judgeSlices(port);
  const counts = new Map<TrafficPolicy, Map<SliceUse, number>>();
  for (const policy of policies) {
    const byUse = new Map<SliceUse, number>();
    for (const slice of port.slices) {
      if (slice.family !== port.family) continue;
      for (const { use } of judged(policy, slice)) byUse.set(use, (byUse.get(use) ?? 0) + 1);
    }
    counts.set(policy, byUse);
  }
  return counts;
}
