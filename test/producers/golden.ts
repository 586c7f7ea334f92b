/** Slices and Endpoints of a cluster in a form in which those of two controllers can be compared. */
import type { EndpointsObject, SliceObject } from '../../src/producers/objects.ts';

/** What controllers wrote. */
export interface Written {
  readonly endpointSlices: readonly SliceObject[];
  readonly endpoints: readonly EndpointsObject[];
}

/** An object without the fields that the README of test/data calls insignificant; absent and empty are the same. */
export function significant(object: SliceObject | EndpointsObject): object {
  const {
    name: _,
    uid,
    resourceVersion,
    generation,
    creationTimestamp,
    ...metadata
  } = object.metadata as unknown as Record<string, unknown>;
  const annotations = Object.fromEntries(
    Object.entries((metadata.annotations as object | undefined) ?? {}).map(([key, value]) =>
      key === 'endpoints.kubernetes.io/last-change-trigger-time' ? [key, typeof value] : [key, value],
    ),
  );
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
export function bySlices(slices: readonly SliceObject[]): Map<string, { sizes: number[]; whole: object[] }> {
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
            ...new Set(ofGroup.map((slice) => JSON.stringify(significant({ ...slice, endpoints: [] })))),
            significant({
              ...(ofGroup[0] as SliceObject),
              endpoints: ofGroup.flatMap(({ endpoints }) => endpoints ?? []),
            }),
          ] as object[],
        },
      ]),
  );
}

/** Endpoints by name. */
export function byName(list: readonly EndpointsObject[]): Map<string, object> {
  return new Map(list.map((one) => [String(one.metadata.name), significant(one)] as const).sort());
}

/** Slices and Endpoints, to be compared one by one. */
export function byService({ endpointSlices, endpoints }: Written): Map<string, unknown> {
  return new Map<string, unknown>([
    ...[...bySlices(endpointSlices)].map(([key, of]) => [`slices ${key}`, of] as const),
    ...[...byName(endpoints)].map(([name, of]) => [`Endpoints ${name}`, of] as const),
  ]);
}
