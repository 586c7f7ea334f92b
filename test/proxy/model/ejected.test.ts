/** Endpoints of Nodes that do not answer: which ones are held back, never too many, and what becomes of flows (docs/semantics.md 3.6). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Address, type Protocol, socketBytes } from '../../../src/base/address.ts';
import { countUses } from '../../../src/proxy/model/endpoint-uses.ts';
import { mergeSlices } from '../../../src/proxy/model/endpoints.ts';
import type { Endpoint, Slice } from '../../../src/proxy/model/objects.ts';
import { ejected, isUsed, judge, selectEndpoints } from '../../../src/proxy/model/selection.ts';
import { servicePorts } from '../../../src/proxy/model/service-port.ts';
import { serviceModel } from '../../helpers/proxy/model/service-model.ts';

const NODES = ['here', 'a', 'b', 'c'];

function endpoint(host: number, nodeName: string, some: Partial<Endpoint> = {}): Endpoint {
  const address = `10.244.1.${host}` as Address;
  const ready = { ready: true, serving: true, terminating: false };
  return { address, ...ready, nodeName, zoneHints: [], nodeHints: [], ...some };
}

function slice(endpoints: readonly Endpoint[], protocol: Protocol = 'TCP'): Slice {
  const ports = [{ name: '', protocol, port: 8080 }];
  return { key: 'shop/web-1', service: 'shop/web', family: 'IPv4', ports, endpoints };
}

const merged = (endpoints: readonly Endpoint[]) => mergeSlices([slice(endpoints)], 'IPv4').get('/TCP') ?? [];

const anEndpoint = fc.record({
  ready: fc.boolean(),
  serving: fc.boolean(),
  terminating: fc.boolean(),
  nodeName: fc.constantFrom('', ...NODES),
  zoneHints: fc.subarray(['x', 'y']),
  nodeHints: fc.subarray(['here', 'a']),
});
const someEndpoints = fc
  .array(anEndpoint, { maxLength: 12 })
  .map((all) => all.map((one, i): Endpoint => ({ ...one, address: `10.244.1.${i + 1}` as Address })));
const someSuspects = fc.subarray(NODES.slice(1));

/** What is selected for policy Cluster. */
function selected(endpoints: readonly Endpoint[], suspects: readonly string[], zone = '') {
  return selectEndpoints({
    ...{ endpoints: merged(endpoints), nodeName: 'here', zone, suspects },
    ...{ internalPolicy: 'Cluster', externalPolicy: 'Local', externallyAccessible: true },
  });
}

describe('endpoints of Nodes that do not answer', () => {
  it('are at most half of the ready ones, never the last, and only such endpoints, for random slices', () => {
    fc.assert(
      fc.property(someEndpoints, someSuspects, (endpoints, suspects) => {
        const held = ejected(merged(endpoints), suspects);
        const ready = endpoints.filter((one) => one.ready);
        assert.ok(held.size * 2 <= ready.length, `${held.size} of ${ready.length}`);
        assert.ok(ready.length === 0 || held.size < ready.length);
        for (const one of held) assert.ok(one.ready && suspects.includes(one.nodeName));
        if (ready.every(({ nodeName }) => suspects.includes(nodeName))) assert.equal(held.size, 0);
        else if (ready.filter(({ nodeName }) => suspects.includes(nodeName)).length * 2 <= ready.length)
          assert.equal(held.size, ready.filter(({ nodeName }) => suspects.includes(nodeName)).length);
      }),
    );
  });

  it('leave traffic of every policy an endpoint where it had one, for random slices and hints', () => {
    fc.assert(
      fc.property(someEndpoints, someSuspects, fc.constantFrom('', 'x'), (endpoints, suspects, zone) => {
        const before = selected(endpoints, [], zone);
        const now = selected(endpoints, suspects, zone);
        assert.equal(now.cluster.length === 0, before.cluster.length === 0);
        assert.equal(now.hasAny, before.hasAny);
        assert.deepEqual(now.local, before.local, 'policy Local does not ask other Nodes');
        for (const one of now.cluster) assert.ok(!now.held.has(one.endpoint));
      }),
    );
  });

  it('are the same on every node, whatever the order in the slices is', () => {
    const endpoints = [1, 2, 3, 4, 5].map((host) => endpoint(host, host <= 4 ? 'a' : 'b'));
    const names = (of: readonly Endpoint[]) => [...ejected(merged(of), ['a'])].map(({ address }) => address);
    assert.deepEqual(names(endpoints), ['10.244.1.1', '10.244.1.2']);
    assert.deepEqual(names(endpoints.toReversed()), names(endpoints));
  });

  it('do not count for hints: the endpoints of other zones are used where those of this zone are held back', () => {
    const endpoints = [endpoint(1, 'a', { zoneHints: ['x'] }), endpoint(2, 'b', { zoneHints: ['y'] })];
    const addresses = (suspects: readonly string[]) =>
      selected(endpoints, suspects, 'x').cluster.map(({ text }) => text);
    assert.deepEqual(addresses([]), ['10.244.1.1:8080']);
    assert.deepEqual(addresses(['a']), ['10.244.1.2:8080']);
  });

  it('have a reason of their own, which agrees with the selection, for random slices', () => {
    fc.assert(
      fc.property(someEndpoints, someSuspects, (endpoints, suspects) => {
        const input = { endpoints: merged(endpoints), nodeName: 'here', zone: '', suspects };
        const useOf = judge(input, 'Cluster');
        const { cluster, held } = selected(endpoints, suspects);
        assert.deepEqual(
          cluster,
          input.endpoints.filter((one) => isUsed(useOf(one.endpoint))),
        );
        for (const one of held) assert.equal(useOf(one), 'node does not answer');
        const port = {
          name: '',
          protocol: 'TCP',
          family: 'IPv4',
          slices: [slice(endpoints)],
          location: input,
        } as const;
        const counts = countUses(port, ['Cluster']).get('Cluster');
        assert.equal(counts?.get('node does not answer') ?? 0, held.size);
      }),
    );
  });
});

const WEB = serviceModel('shop/web', { clusterIPs: ['10.96.0.10' as Address] });

describe('flows to endpoints of Nodes that do not answer', () => {
  const endpoints = [endpoint(1, 'a'), endpoint(2, 'b')];

  function portOf(protocol: Protocol, suspects: readonly string[]) {
    const ports = [{ name: '', protocol, port: 80, nodePort: 0 }];
    const [port] = servicePorts({ ...WEB, ports }, [slice(endpoints, protocol)], {
      nodeName: 'here',
      zone: '',
      suspects,
    });
    return port ?? assert.fail('no port');
  }

  it('of TCP that nobody answered do not go on: their next try goes elsewhere', () => {
    const { cluster, alsoAnswering } = portOf('TCP', ['a']);
    assert.deepEqual([cluster.map(({ text }) => text), alsoAnswering], [['10.244.1.2:8080'], []]);
  });

  it('of UDP do not go on', () => {
    const bytes = (host: number) => socketBytes(`10.244.1.${host}` as Address, 8080);
    assert.deepEqual(portOf('UDP', []).flowTargets?.all, [bytes(1), bytes(2)]);
    assert.deepEqual(portOf('UDP', ['a']).flowTargets?.all, [bytes(2)]);
  });
});
