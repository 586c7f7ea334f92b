/** What becomes of each endpoint of a Service port on this node, and the numbers of each fate. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { countUses, isSliceUsed, judgeSlices } from '../../../src/proxy/model/endpoint-uses.ts';
import type { Endpoint, Slice } from '../../../src/proxy/model/objects.ts';

const READY = { ready: true, serving: true, terminating: false, nodeName: 'here', zoneHints: [], nodeHints: [] };

function endpoint(n: number, more: Partial<Endpoint> = {}): Endpoint {
  return { ...READY, address: `10.244.1.${n}` as Address, ...more };
}

function slice(key: string, endpoints: readonly Endpoint[], more: Partial<Slice> = {}): Slice {
  const ports = [{ name: 'http', protocol: 'TCP', port: 8080 } as const];
  return { key, service: 'a/web', family: 'IPv4', ports, endpoints, ...more };
}

const SLICES: readonly Slice[] = [
  slice('a/web-1', [
    endpoint(1),
    endpoint(2, { nodeName: 'other' }),
    endpoint(3, { ready: false }),
    endpoint(4, { ready: false, serving: true, terminating: true }),
    endpoint(5, { ready: false, serving: false, terminating: true }),
  ]),
  slice('a/web-2', [endpoint(1, { ready: false })]),
  slice('a/web-3', [endpoint(7)], { ports: [{ name: 'metrics', protocol: 'TCP', port: 9090 }] }),
  slice('a/web-4', [endpoint(8)], { family: 'IPv6' }),
];
const PORT = {
  ...({ name: 'http', protocol: 'TCP', family: 'IPv4', slices: SLICES } as const),
  location: { nodeName: 'here', zone: 'z' },
};

it('every endpoint of the family is counted once under each policy', () => {
  const counts = countUses(PORT, ['Cluster', 'Local']);
  const unready = { 'not ready': 1, 'replaced by ready ones': 1, terminating: 1, duplicate: 1, 'no such port': 1 };
  assert.deepEqual(Object.fromEntries(counts.get('Cluster') ?? []), { ready: 2, ...unready });
  assert.deepEqual(Object.fromEntries(counts.get('Local') ?? []), {
    ...{ ready: 1, 'not on this node': 1 },
    ...unready,
  });
});

it('without a ready endpoint, those that terminate and still serve are used', () => {
  const slices = [slice('a/web-1', SLICES[0]?.endpoints.slice(3) ?? [])];
  const counts = countUses({ ...PORT, slices }, ['Cluster']).get('Cluster');
  assert.deepEqual(Object.fromEntries(counts ?? []), { draining: 1, terminating: 1 });
  assert.deepEqual([...(counts?.keys() ?? [])].map(isSliceUsed), [true, false]);
});

it('a duplicate names the entry that counts instead', () => {
  const [first, second] = SLICES;
  assert.ok(first !== undefined && second !== undefined);
  const [found] = judgeSlices(PORT)('Cluster', second);
  assert.equal(found?.use, 'duplicate');
  assert.equal(found?.counts, first.endpoints[0]);
});
