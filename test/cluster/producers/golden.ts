/** Slices and Endpoints of a cluster in a form in which those of two controllers can be compared. */

import type { EndpointsObject, SliceObject } from '../../../src/cluster/producers/api-objects.ts';
import { TRIGGER_ANNOTATION } from '../../../src/proxy/model/labels.ts';

/** What controllers wrote. */
export interface Written {
  readonly endpointSlices: readonly SliceObject[];
  readonly endpoints: readonly EndpointsObject[];
}

/** What is compared of the time of the change that an object was written for. */
export type Times = 'exact' | 'present' | 'ignored';

/**
 * An object without the fields that the README of test/data calls insignificant; absent and empty are the same. A slice that is
 * written anew under its name keeps no generateName.
 */
export function significant(object: SliceObject | EndpointsObject, times: Times = 'present'): object {
  const {
    name: _,
    generateName,
    uid,
    resourceVersion,
    generation,
    creationTimestamp,
    ...metadata
  } = object.metadata as unknown as Record<string, unknown>;
  const annotations: Record<string, unknown> = { ...(metadata.annotations as object | undefined) };
  if (times !== 'exact' && TRIGGER_ANNOTATION in annotations) annotations[TRIGGER_ANNOTATION] = 'a time';
  if (times === 'ignored') delete annotations[TRIGGER_ANNOTATION];
  const sorted = (list: readonly unknown[] | null | undefined) =>
    (list ?? []).map((item) => JSON.stringify(sortKeys(item))).sort();
  const subsets = 'subsets' in object ? (object.subsets ?? []) : [];
  return {
    ...('addressType' in object
      ? { addressType: object.addressType, ports: sorted(object.ports), endpoints: sorted(object.endpoints) }
      : {}),
    metadata: sortKeys({ ...metadata, annotations, labels: metadata.labels ?? {} }),
    subsets: sorted(
      subsets.map(({ addresses, notReadyAddresses, ports }) => ({
        addresses: sorted(addresses),
        notReadyAddresses: sorted(notReadyAddresses),
        ports: sorted(ports),
      })),
    ),
  };
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, one]) => [key, sortKeys(one)]),
  );
}

/** The distribution of endpoints over the slices of a Service may differ: the numbers count, and the union. */
export function bySlices(
  slices: readonly SliceObject[],
  times?: Times,
): Map<string, { sizes: number[]; whole: object[] }> {
  const groups = Map.groupBy(slices, ({ metadata, ports, addressType }) =>
    JSON.stringify([
      metadata.labels?.['kubernetes.io/service-name'],
      metadata.labels?.['endpointslice.kubernetes.io/managed-by'],
      addressType,
      [...(ports ?? [])].map((port) => JSON.stringify(sortKeys(port))).sort(),
    ]),
  );
  return new Map(
    [...groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, ofGroup]) => [
        key,
        {
          sizes: ofGroup.map(({ endpoints }) => (endpoints ?? []).length).sort((a, b) => a - b),
          whole: [
            ...new Set(ofGroup.map((slice) => JSON.stringify(significant({ ...slice, endpoints: [] }, times)))),
            significant(
              { ...(ofGroup[0] as SliceObject), endpoints: ofGroup.flatMap(({ endpoints }) => endpoints ?? []) },
              times,
            ),
          ] as object[],
        },
      ]),
  );
}

/** Endpoints by name. */
export function byName(list: readonly EndpointsObject[], times?: Times): Map<string, object> {
  return new Map(list.map((one) => [String(one.metadata.name), significant(one, times)] as const).sort());
}

/** The uid of Endpoints that own a slice, as a word where they are there: the server makes it. */
function withOwners(slice: SliceObject, endpoints: readonly EndpointsObject[]): SliceObject {
  const uids = new Set(endpoints.map(({ metadata }) => metadata.uid));
  const ownerReferences = (slice.metadata.ownerReferences ?? []).map((owner) =>
    owner.kind === 'Endpoints' && uids.has(owner.uid) ? { ...owner, uid: 'its own' } : owner,
  );
  return { ...slice, metadata: { ...slice.metadata, ownerReferences } };
}

/** Slices and Endpoints, to be compared one by one. Which slice lost endpoints is a matter of chance: only their number counts. */
export function byService({ endpointSlices, endpoints }: Written, times?: Times): Map<string, unknown> {
  const owned = endpointSlices.map((slice) => withOwners(slice, endpoints));
  return new Map<string, unknown>([
    ...[...bySlices(owned, times)].map(
      ([key, { sizes, whole }]) => [`slices ${key}`, { slices: sizes.length, whole }] as const,
    ),
    ...[...byName(endpoints, times)].map(([name, of]) => [`Endpoints ${name}`, of] as const),
  ]);
}
