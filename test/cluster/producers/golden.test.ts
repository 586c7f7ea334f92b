/** The writes for recorded objects of a real cluster equal those of its controllers (test/data/golden), apart from insignificant fields. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeZonedNode,
} from '../../../src/cluster/api/decode/producing.ts';
import type { EndpointsObject, SliceObject, ZonedNode } from '../../../src/cluster/producers/api-objects.ts';
import { reconcileEndpoints } from '../../../src/cluster/producers/endpoints-object.ts';
import { Membership } from '../../../src/cluster/producers/membership.ts';
import { isMirrored, reconcileMirror } from '../../../src/cluster/producers/mirror.ts';
import { reconcileSlices } from '../../../src/cluster/producers/slices.ts';
import { TopologyBook, zoneShares } from '../../../src/cluster/producers/topology.ts';
import { TriggerTimes } from '../../../src/cluster/producers/trigger-times.ts';
import { byName, bySlices, type Written } from './golden.ts';

const MANAGED = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' };

interface Golden {
  readonly input: Readonly<Record<'endpoints' | 'nodes' | 'pods' | 'services', readonly object[]>>;
  readonly output: Written;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL('../../data/golden/one-namespace.json', import.meta.url), 'utf8'),
);

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

describe('the golden namespace', () => {
  const produced = produce();

  it('gets the slices that the real controllers wrote', () => {
    assert.deepEqual(bySlices(produced.slices), bySlices(golden.output.endpointSlices));
  });

  it('gets the Endpoints that the real controller wrote', () => {
    // 1.33 added the label.
    const labelled = golden.output.endpoints.map((one) => ({
      ...one,
      metadata: { ...one.metadata, labels: { ...one.metadata.labels, ...MANAGED } },
    }));
    assert.deepEqual(byName(produced.endpoints), byName(labelled));
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
