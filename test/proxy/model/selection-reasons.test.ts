/** A property that holds whatever the rules are: endpoints with a reason to be used are exactly the backends. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Address } from '../../../src/base/address.ts';
import { countUses, isSliceUsed, type SliceUse } from '../../../src/proxy/model/endpoint-uses.ts';
import { mergeSlices } from '../../../src/proxy/model/endpoints.ts';
import type { Endpoint, Slice } from '../../../src/proxy/model/objects.ts';
import { isUsed, judge, selectEndpoints } from '../../../src/proxy/model/selection.ts';

const anEndpoint: fc.Arbitrary<Endpoint> = fc.record({
  address: fc.integer({ min: 1, max: 5 }).map((host) => `10.244.1.${host}` as Address),
  ready: fc.boolean(),
  serving: fc.boolean(),
  terminating: fc.boolean(),
  nodeName: fc.constantFrom('', 'here', 'there'),
  zoneHints: fc.subarray(['a', 'b']),
  nodeHints: fc.subarray(['here', 'there']),
});
const someSlices: fc.Arbitrary<Slice[]> = fc
  .array(fc.array(anEndpoint, { maxLength: 4 }), { maxLength: 3 })
  .map((all) =>
    all.map((endpoints, i) => ({
      key: `shop/web-${i}`,
      service: 'shop/web',
      family: 'IPv4',
      ports: [{ name: '', protocol: 'TCP', port: 8080 }],
      endpoints,
    })),
  );

describe('reasons of endpoints', () => {
  it('agree with the selection, for random slices', () => {
    const policy = fc.constantFrom('Cluster', 'Local');
    const input = fc.record({ slices: someSlices, internal: policy, external: policy, zone: fc.constantFrom('', 'a') });
    fc.assert(
      fc.property(input, fc.boolean(), ({ slices, internal, external, zone }, externallyAccessible) => {
        const endpoints = mergeSlices(slices, 'IPv4').get('/TCP') ?? [];
        const policies = { internalPolicy: internal, externalPolicy: external } as const;
        const here = { endpoints, nodeName: 'here', zone };
        const selected = selectEndpoints({ ...here, ...policies, externallyAccessible });
        const used = (of: 'Cluster' | 'Local') => endpoints.filter((e) => isUsed(judge(here, of)(e.endpoint)));
        const port = {
          name: '',
          protocol: 'TCP',
          family: 'IPv4',
          slices,
          location: { nodeName: 'here', zone },
        } as const;
        for (const [of, counts] of countUses(port, ['Cluster', 'Local'])) {
          const sum = (uses: [SliceUse, number][]) => uses.reduce((before, [, count]) => before + count, 0);
          assert.equal(sum([...counts].filter(([use]) => isSliceUsed(use))), used(of).length);
          assert.equal(sum([...counts]), slices.flatMap((one) => one.endpoints).length);
        }
        if (endpoints.length === 0) return;
        if (internal !== 'Local' || externallyAccessible) assert.deepEqual(selected.cluster, used('Cluster'));
        if (internal === 'Local' || (external === 'Local' && externallyAccessible))
          assert.deepEqual(selected.local, used('Local'));
      }),
    );
  });
});
