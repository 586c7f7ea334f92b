/** The made-up clusters are what they say. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { decodeService } from '../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../src/cluster/api/decode/slice.ts';
import {
  type ClusterShape,
  churnStep,
  clusterIP,
  endpointsOf,
  lastAddress,
  objectsOf,
  SLICE_LIMIT,
} from './cluster.ts';

interface Made {
  readonly kind: string;
  readonly metadata: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly spec: Record<string, unknown>;
  readonly endpoints: readonly { readonly addresses: readonly string[]; readonly conditions: { ready: boolean } }[];
}

const each = <T>(count: number, of: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const addresses = (objects: readonly object[]) =>
  (objects as Made[]).flatMap(({ endpoints = [] }) => endpoints.flatMap((endpoint) => endpoint.addresses));

function assertDistinct(values: readonly string[]): void {
  assert.equal(new Set(values).size, values.length);
}

test('every address is of one Service and one turn', () => {
  const shape: ClusterShape = { services: 50, endpoints: 5 };
  const all = each(50, (n) => n);
  assertDistinct(all.map(clusterIP));
  assertDistinct([
    ...all.flatMap((n) => addresses(objectsOf(shape, n))),
    ...[1, 2, 3].flatMap((turn) => all.map((n) => lastAddress(shape, n, { turn }))),
  ]);
});

test('a turn replaces the last endpoint', () => {
  const shape: ClusterShape = { services: 10, endpoints: 5 };
  const before = addresses(objectsOf(shape, 7));
  const after = addresses(objectsOf(shape, 7, 3));
  assert.deepEqual(after.slice(0, 4), before.slice(0, 4));
  assert.equal(after[4], lastAddress(shape, 7, { turn: 3 }));
  assert.deepEqual(objectsOf(shape, 7, 3), objectsOf(shape, 7, 3));
});

test('addresses stay in their range, and end with an error', () => {
  const shape: ClusterShape = { services: 44_000, endpoints: 5 };
  const last = lastAddress(shape, 43_999, { turn: 80 });
  assert.match(last, /^10\.(12[89]|1[3-9]\d|2[0-4]\d|25[0-5])\./);
  assert.throws(() => lastAddress(shape, 43_999, { turn: 200 }), RangeError);
});

test('slices of at most 100 endpoints', () => {
  const [, ...slices] = objectsOf({ services: 3, endpoints: 5000 }, 2) as Made[];
  assert.equal(slices.length, 50);
  assert.ok(slices.every(({ endpoints }) => endpoints.length <= SLICE_LIMIT));
  assertDistinct(addresses(slices));
  assertDistinct(slices.map(({ metadata }) => metadata.name));
  const sizes = (objectsOf({ services: 3, endpoints: 250 }, 2).slice(1) as Made[]).map((one) => one.endpoints.length);
  assert.deepEqual(sizes, [100, 100, 50]);
});

test('shares are what they say', () => {
  const shape = { services: 1000, endpoints: 10, nodePorts: 0.1, affinity: 0.05, unready: 0.1 };
  const services = each(1000, (n) => objectsOf(shape, n)[0] as Made);
  const count = (field: string, value: string) => services.filter(({ spec }) => spec[field] === value).length;
  assert.equal(count('type', 'NodePort'), 100);
  assert.equal(count('sessionAffinity', 'ClientIP'), 50);
  const nodePorts = services.flatMap(({ spec }) =>
    (spec.ports as { nodePort?: number }[]).map((port) => port.nodePort),
  );
  assertDistinct(nodePorts.filter((port) => port !== undefined).map(String));
  const endpoints = each(1000, (n) => endpointsOf(shape, n)).flat() as unknown as Made['endpoints'];
  const unready = endpoints.filter(({ conditions }) => !conditions.ready).length / endpoints.length;
  assert.ok(unready > 0.09 && unready < 0.11, `${unready}`);
});

test('a real API server might have them: nothing is set aside', () => {
  const shape = { services: 60, endpoints: 120, nodePorts: 0.2, affinity: 0.1, unready: 0.1 };
  const objects = each(60, (n) => objectsOf(shape, n)).flat() as Made[];
  for (const object of objects) {
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    const event = object.kind === 'Service' ? decodeService(object, key) : decodeSlice(object, key);
    assert.ok('faults' in event);
    assert.deepEqual(event.faults, []);
  }
  assertDistinct(objects.map(({ metadata }) => metadata.uid));
});

test('changes take turns among the Services', () => {
  for (const services of [39, 76, 1000]) {
    const shape = { services, endpoints: 5 };
    const round = each(services - 2, (i) => churnStep(shape, i, 4));
    assert.deepEqual(new Set(round.map(({ n }) => n)), new Set(each(services - 2, (n) => n + 2)));
    assert.ok(round.every(({ turn }) => turn === 4));
    assert.equal(churnStep(shape, services - 2, 4).turn, 5);
  }
});
