import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Latencies } from '../../../src/base/latencies.ts';
import { decodeNode } from '../../../src/cluster/api/decode/node.ts';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { phrasesOf } from '../../../src/inspect/history/changes.ts';
import {
  type Change,
  DeltaMismatch,
  deltaOf,
  type HistoryDelta,
  reversed,
} from '../../../src/inspect/history/delta.ts';
import { ObjectStore } from '../../../src/inspect/history/past-objects.ts';
import type { Service, Slice } from '../../../src/proxy/model/objects.ts';
import { aStep } from '../../helpers/cluster/histories.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { eventOf } from '../../helpers/proxy/rig.ts';

const KEY = 'default/web';

function web(spec: Record<string, unknown>): Service | undefined {
  const shared = { type: 'ClusterIP', clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'] };
  const event = decodeService(
    service({ name: 'web', spec: { ...shared, ports: [{ name: 'http', port: 80 }], ...spec } }),
    KEY,
  );
  return event.kind === 'service' ? event.service : undefined;
}

function slicePart(endpoints: readonly object[], port = 8080): Slice | undefined {
  const object = slice({
    name: 'web',
    service: 'web',
    addressType: 'IPv4',
    ports: [{ name: 'http', port }],
    endpoints,
  });
  const event = decodeSlice(object, KEY);
  return event.kind === 'slice' ? event.slice : undefined;
}

const pod = (host: number, conditions: object = {}, more: object = {}) => ({
  addresses: [`10.244.1.${host}`],
  conditions,
  ...more,
});
const ofService = (from: object, to: object) =>
  phrasesOf({ kind: 'Service', key: KEY, from: web({ ...from }), to: web({ ...to }) });
const ofSlice = (from: readonly object[], to: readonly object[]) =>
  phrasesOf({ kind: 'EndpointSlice', key: KEY, from: slicePart(from), to: slicePart(to) });

describe('what changed, as phrases', () => {
  it('name the fields of a Service with both values', () => {
    const phrases: readonly (readonly [from: object, to: object, phrase: string])[] = [
      [{}, { internalTrafficPolicy: 'Local' }, 'spec.internalTrafficPolicy: Cluster → Local'],
      [{}, { ports: [{ name: 'http', port: 8080 }] }, 'port http: 80/TCP → 8080/TCP'],
      [{}, { ports: [{ name: 'http', port: 80, nodePort: 30_080 }] }, 'port http: 80/TCP → 80/TCP, node port 30080'],
      [{}, { sessionAffinity: 'ClientIP' }, 'spec.sessionAffinity: None → ClientIP, 10800 s'],
      [{ externalIPs: ['192.0.2.1'] }, {}, 'spec.externalIPs: 192.0.2.1 → none'],
      [{}, { loadBalancerSourceRanges: ['10.0.0.0/8'] }, 'spec.loadBalancerSourceRanges: none → 10.0.0.0/8'],
    ];
    for (const [from, to, phrase] of phrases) assert.deepEqual(ofService(from, to), [phrase]);
    assert.deepEqual(phrasesOf({ kind: 'Service', key: KEY, from: undefined, to: web({}) }), [
      'created: ClusterIP, 10.96.0.7, http 80/TCP',
    ]);
    assert.deepEqual(phrasesOf({ kind: 'Service', key: KEY, from: web({}), to: undefined }), [
      'deleted, or not for this proxy any more',
    ]);
  });

  it('name the endpoints of a slice that came, went or changed', () => {
    const terminating = { ready: false, serving: true, terminating: true };
    const phrases: readonly (readonly [from: readonly object[], to: readonly object[], phrases: readonly string[]])[] =
      [
        [[pod(7)], [pod(7, { ready: false, serving: false })], ['10.244.1.7:8080 is not ready any more']],
        [[pod(7, { ready: false })], [pod(7)], ['10.244.1.7:8080 is ready']],
        [[pod(7)], [pod(7, terminating)], ['10.244.1.7:8080 terminates and still serves']],
        [[pod(1)], [pod(1), pod(2), pod(3)], ['2 endpoints added: 10.244.1.2:8080, 10.244.1.3:8080']],
        [[pod(1), pod(2)], [pod(2)], ['1 endpoint removed: 10.244.1.1:8080']],
        [[pod(1)], [pod(1, {}, { hints: { forZones: [{ name: 'a' }] } })], ['zone hints of 10.244.1.1:8080: none → a']],
        [[pod(1), pod(2)], [pod(2), pod(1)], ['the order of its endpoints changed']],
        [
          [1, 2, 3, 4, 5, 6, 7].map((host) => pod(host)),
          [1, 2, 3, 4, 5, 6, 7].map((host) => pod(host, { ready: false, serving: false })),
          [
            `7 endpoints are not ready any more: ${[1, 2, 3, 4, 5].map((host) => `10.244.1.${host}:8080`).join(', ')} and 2 more`,
          ],
        ],
      ];
    for (const [from, to, expected] of phrases) assert.deepEqual(ofSlice(from, to), expected);
  });

  it('name the annotations about traffic with both values', () => {
    const annotated = (annotations: Record<string, string>) => {
      const object = service({ name: 'web', spec: { clusterIP: '10.96.0.7', ports: [{ port: 80 }] }, annotations });
      return decodeService(object, KEY).service;
    };
    const to = annotated({
      'slicewire.dev/balance': 'hash',
      'slicewire.dev/slow-start': '90s',
      'slicewire.dev/new-connections': '100/s',
      'slicewire.dev/max-connections': '20',
    });
    assert.deepEqual(phrasesOf({ kind: 'Service', key: KEY, from: annotated({}), to }), [
      'metadata.annotations slicewire.dev/balance: random → hash',
      'metadata.annotations slicewire.dev/slow-start: none → 1m30s',
      'metadata.annotations slicewire.dev/new-connections: none → 100/s burst 100',
      'metadata.annotations slicewire.dev/max-connections: none → 20',
    ]);
    const weighted = (annotations: Record<string, string>) => {
      const ports = [{ name: 'http', port: 8080 }];
      const object = slice({ name: 'web', service: 'web', ports, endpoints: ['10.244.1.1'], annotations });
      return decodeSlice(object, KEY).slice;
    };
    const change: Change = {
      ...{ kind: 'EndpointSlice', key: KEY, from: weighted({}) },
      to: weighted({ 'slicewire.dev/weight': '20', 'slicewire.dev/backup': 'true' }),
    };
    assert.deepEqual(phrasesOf(change), ['weight of 10.244.1.1:8080: 100 → 20', 'backup of 10.244.1.1:8080: no → yes']);
    const { delta } = deltaOf(change) as Extract<HistoryDelta, { kind: 'EndpointSlice' }>;
    assert.ok('endpoints' in delta && delta.endpoints !== undefined, 'a recording has the change');
  });

  it('name the fields of the Node with both values', () => {
    const node = (zone: string) => {
      const event = decodeNode(nodeOf(zone), 'node');
      return event.kind === 'node' ? event.node : undefined;
    };
    assert.deepEqual(phrasesOf({ kind: 'Node', key: 'node', from: node('a'), to: node('b') }), ['zone: a → b']);
  });
});

describe('deltas', () => {
  it('lead from any value of an object to any other, and back, also as JSON', () => {
    const aValue = aStep.map((step) => (step.kind === 'put' ? eventOf(step.object) : undefined));
    fc.assert(
      fc.property(fc.array(aValue, { minLength: 2, maxLength: 12 }), (events) => {
        const store = new ObjectStore();
        const undo: HistoryDelta[] = [];
        const states: unknown[] = [];
        const stateOf = () => ({
          services: [...store.services()].map(byKey).sort(),
          slices: [...store.slices.all()].map(byKey).sort(),
        });
        for (const event of events) {
          const change = changeOf(store, event);
          if (change === undefined) continue;
          states.push(stateOf());
          store.apply(asJson(deltaOf(change)));
          const now = change.kind === 'Service' ? store.service(change.key) : store.slices.get(change.key);
          assert.deepEqual(now, change.to);
          undo.push(asJson(deltaOf(reversed(change))));
        }
        for (const delta of undo.reverse()) {
          store.apply(delta);
          assert.deepEqual(stateOf(), states.pop());
        }
      }),
      { numRuns: 200 },
    );
  });

  it('that do not fit are refused', () => {
    const change: Change = {
      kind: 'EndpointSlice',
      key: KEY,
      from: slicePart([pod(1)]),
      to: slicePart([pod(1), pod(2)]),
    };
    assert.throws(() => new ObjectStore().apply(deltaOf(change)), DeltaMismatch);
  });
});

const byKey = (object: { readonly key: string }) => JSON.stringify(object);

function asJson(delta: HistoryDelta): HistoryDelta {
  return JSON.parse(JSON.stringify(delta));
}

function changeOf(store: ObjectStore, event: ReturnType<typeof eventOf> | undefined): Change | undefined {
  if (event?.kind === 'service')
    return { kind: 'Service', key: event.key, from: store.service(event.key), to: event.service };
  if (event?.kind !== 'slice') return undefined;
  return { kind: 'EndpointSlice', key: event.key, from: store.slices.get(event.key), to: event.slice };
}

describe('latencies', () => {
  it('are right to a seventh, and those of an hour ago are forgotten', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.2, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 }),
        (values) => {
          const latencies = new Latencies();
          for (const value of values) latencies.add(0, value);
          const sorted = values.toSorted((a, b) => a - b);
          const found = latencies.summary(1000);
          assert.ok(found !== undefined);
          assert.equal(found.changes, values.length);
          assert.equal(found.most, sorted.at(-1));
          for (const [share, value] of [
            [0.5, found.p50],
            [0.99, found.p99],
          ] as const) {
            const exact = sorted[Math.ceil(values.length * share) - 1] ?? 0;
            assert.ok(value >= exact * 0.999 && value <= exact * 1.15, `${value} for ${exact}`);
          }
          assert.equal(latencies.summary(3_600_000), undefined);
        },
      ),
    );
  });
});
