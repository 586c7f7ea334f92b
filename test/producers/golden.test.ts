/** The writes for recorded objects of a real cluster equal those of its controllers (test/data/golden), apart from insignificant fields. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { objectKey } from '../../src/api/decode/fields.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeZonedNode,
} from '../../src/api/decode/producing.ts';
import { reconcileEndpoints } from '../../src/producers/endpoints-object.ts';
import { Membership } from '../../src/producers/membership.ts';
import { isMirrored, reconcileMirror } from '../../src/producers/mirror.ts';
import type { EndpointsObject, SliceObject, ZonedNode } from '../../src/producers/objects.ts';
import { reconcileSlices } from '../../src/producers/slices.ts';
import { TopologyBook, zoneShares } from '../../src/producers/topology.ts';
import { TriggerTimes } from '../../src/producers/trigger-times.ts';

interface Golden {
  readonly input: Readonly<Record<'endpoints' | 'nodes' | 'pods' | 'services', readonly object[]>>;
  readonly output: { readonly endpointSlices: readonly SliceObject[]; readonly endpoints: readonly EndpointsObject[] };
}

const golden: Golden = JSON.parse(readFileSync(new URL('../data/golden/one-namespace.json', import.meta.url), 'utf8'));

/** An object without the fields that the README of test/data calls insignificant; absent and empty are the same. */
function significant(object: SliceObject | EndpointsObject): object {
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

/** All writes of three controllers that start with the golden input. */
function produce() {
  const members = new Membership();
  const nodes = new Map<string, ZonedNode>();
  const must = <T>({ value }: { value: T | undefined }): T => {
    assert.ok(value);
    return value;
  };
  for (const pod of golden.input.pods) {
    const key = objectKey(pod) ?? '';
    members.setPod(key, must(decodePod(pod, key, { isHandWritten: false })));
  }
  for (const service of golden.input.services) {
    const key = objectKey(service) ?? '';
    members.setService(key, must(decodeSelectingService(service, key)));
  }
  for (const node of golden.input.nodes) {
    const { name } = (node as { metadata: { name: string } }).metadata;
    nodes.set(name, must(decodeZonedNode(node, name)));
  }
  const topology = new TopologyBook();
  topology.setShares(zoneShares(nodes.values()));
  const slices: SliceObject[] = [];
  const endpoints: EndpointsObject[] = [];
  for (const key of members.services) {
    const service = members.service(key);
    if (service?.selector === undefined) continue;
    const pods = members.podsOf(service);
    const { changes } = reconcileSlices({
      service,
      pods,
      existing: [],
      node: (name) => nodes.get(name),
      topology,
      mostPerSlice: 100,
    });
    const triggeredAt = new TriggerTimes().take(service, pods);
    for (const slice of changes.create) {
      slices.push({
        ...slice,
        metadata: { ...slice.metadata, annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '' } },
      });
    }
    assert.deepEqual([changes.update, changes.remove], [[], []]);
    const wanted = reconcileEndpoints({ service, pods, existing: undefined, triggeredAt });
    if (wanted) endpoints.push(wanted);
  }
  for (const object of golden.input.endpoints) {
    const key = objectKey(object) ?? '';
    const written = must(decodeEndpointsObject(object, key));
    const service = members.service(key);
    assert.ok(isMirrored({ endpoints: written, service }));
    slices.push(...reconcileMirror({ endpoints: written, service, existing: [], mostPerSubset: 1000 }).changes.create);
  }
  return { slices, endpoints };
}

/** The distribution of endpoints over the slices of a Service may differ: the numbers count, and the union. */
function bySlices(slices: readonly SliceObject[]): Map<string, { sizes: number[]; whole: object[] }> {
  const groups = Map.groupBy(slices, ({ metadata, ports, addressType }) =>
    JSON.stringify([
      metadata.labels?.['kubernetes.io/service-name'],
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

describe('the golden namespace', () => {
  const produced = produce();

  it('gets the slices that the real controllers wrote', () => {
    assert.deepEqual(bySlices(produced.slices), bySlices(golden.output.endpointSlices));
  });

  it('gets the Endpoints that the real controller wrote', () => {
    const listed = (list: readonly EndpointsObject[]) =>
      Object.fromEntries(list.map((one) => [String(one.metadata.name), significant(one)]).sort());
    assert.deepEqual(listed(produced.endpoints), listed(golden.output.endpoints));
  });

  it('covers its cases: several sets of ports, a placeholder, hints, three slices of 230 endpoints', () => {
    const of = (name: string) =>
      produced.slices.filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === name);
    assert.equal(of('multi').length, 3);
    assert.deepEqual(
      of('empty').map(({ endpoints, ports }) => [endpoints, ports]),
      [[[], []]],
    );
    assert.ok(
      of('topo').every(({ endpoints }) => endpoints.every(({ hints, zone }) => hints?.forZones?.[0]?.name === zone)),
    );
    assert.deepEqual(
      of('big').map(({ endpoints }) => endpoints.length),
      [100, 100, 30],
    );
  });
});
