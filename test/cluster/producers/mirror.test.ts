/** User-written Endpoints become slices. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type {
  EndpointsObject,
  EndpointsSubset,
  Metadata,
  SliceObject,
} from '../../../src/cluster/producers/api-objects.ts';
import { isMirrored, type MirrorResult, reconcileMirror } from '../../../src/cluster/producers/mirror.ts';
import {
  MANAGED_BY_LABEL,
  MIRROR_MANAGER,
  SERVICE_NAME_LABEL,
  TRIGGER_ANNOTATION,
} from '../../../src/proxy/model/labels.ts';
import { SliceStore, serviceView, type Writes } from '../../helpers/cluster/producers/producing.ts';

const SERVICE = serviceView({ selector: undefined });
const HTTP = [{ name: 'http', port: 8080, protocol: 'TCP' }];

function endpointsOf(subsets: readonly EndpointsSubset[], metadata: Partial<Metadata> = {}): EndpointsObject {
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'web', namespace: 'default', uid: 'endpoints-uid', ...metadata },
    subsets,
  };
}

function subset(...ips: readonly string[]): EndpointsSubset {
  return { addresses: ips.map((ip) => ({ ip })), ports: HTTP };
}

/** Slices of Endpoints: `sync` writes, and checks that nothing is left to do. */
class Mirror {
  readonly store = new SliceStore();
  service: typeof SERVICE | undefined = SERVICE;
  mostPerSubset = 1000;

  sync(endpoints: EndpointsObject | undefined): MirrorResult & { readonly writes: Writes } {
    const { service, mostPerSubset } = this;
    const once = () => reconcileMirror({ endpoints, service, existing: this.store.all, mostPerSubset });
    const result = once();
    const writes = this.store.apply(result.changes, () => undefined);
    if (endpoints?.metadata.deletionTimestamp === undefined) {
      assert.deepEqual(once().changes, { create: [], update: [], remove: [] }, 'nothing is left');
    }
    return { ...result, writes };
  }

  /** Type of addresses, ports and addresses with their readiness of each slice. */
  get content() {
    const of = ({ addressType, ports, endpoints }: SliceObject) => ({
      addressType,
      ports: ports.map(({ port }) => port),
      ready: endpoints.filter(({ conditions }) => conditions?.ready).flatMap(({ addresses }) => addresses),
      notReady: endpoints.filter(({ conditions }) => !conditions?.ready).flatMap(({ addresses }) => addresses),
    });
    return this.store.all.map(of);
  }
}

describe('mirrored Endpoints', () => {
  it('become a slice for each family, with those that are not ready', () => {
    const mirror = new Mirror();
    const { writes } = mirror.sync(
      endpointsOf([
        {
          addresses: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }],
          notReadyAddresses: [{ ip: '192.0.2.2' }],
          ports: HTTP,
        },
      ]),
    );
    assert.deepEqual(writes, { create: 2, update: 0, remove: 0 });
    assert.deepEqual(mirror.content, [
      { addressType: 'IPv4', ports: [8080], ready: ['192.0.2.1'], notReady: ['192.0.2.2'] },
      { addressType: 'IPv6', ports: [8080], ready: ['2001:db8::1'], notReady: [] },
    ]);
  });

  it('of the other family become a new slice, because the API server keeps the family of a slice', () => {
    const mirror = new Mirror();
    mirror.sync(endpointsOf([subset('192.0.2.1')]));
    assert.deepEqual(mirror.sync(endpointsOf([subset('2001:db8::1')])).writes, { create: 1, update: 0, remove: 1 });
    assert.deepEqual(mirror.content, [{ addressType: 'IPv6', ports: [8080], ready: ['2001:db8::1'], notReady: [] }]);
  });

  it('have an address as not ready that is not ready in one subset and ready in a later one of the same ports', () => {
    const mirror = new Mirror();
    mirror.sync(endpointsOf([{ notReadyAddresses: [{ ip: '192.0.2.1' }], ports: HTTP }, subset('192.0.2.1')]));
    assert.deepEqual(mirror.content, [{ addressType: 'IPv4', ports: [8080], ready: [], notReady: ['192.0.2.1'] }]);
  });

  it('become a slice for each set of ports, and subsets of the same ports share one', () => {
    const mirror = new Mirror();
    const other = { addresses: [{ ip: '192.0.2.3' }], ports: [{ port: 9090 }] };
    mirror.sync(endpointsOf([subset('192.0.2.1'), other, subset('192.0.2.2')]));
    assert.deepEqual(
      mirror.content.map(({ ports, ready }) => [ports, ready]),
      [
        [[8080], ['192.0.2.1', '192.0.2.2']],
        [[9090], ['192.0.2.3']],
      ],
    );
    assert.deepEqual(mirror.store.all[1]?.ports, [{ name: '', port: 9090, protocol: 'TCP' }]);
  });

  it('have the owner, the labels and the annotations of the Endpoints', () => {
    const mirror = new Mirror();
    const reference = { kind: 'VirtualMachine', name: 'db-0' };
    mirror.sync(
      endpointsOf(
        [
          {
            addresses: [{ ip: '192.0.2.1', hostname: 'db-0', nodeName: 'node-a', targetRef: reference }],
            ports: HTTP,
          },
        ],
        {
          labels: { tier: 'data', [MANAGED_BY_LABEL]: 'me' },
          annotations: {
            note: 'by hand',
            [TRIGGER_ANNOTATION]: '2026-01-01T00:00:00Z',
            'kubectl.kubernetes.io/last-applied-configuration': '{}',
          },
        },
      ),
    );
    const [{ metadata, endpoints } = assert.fail('no slice')] = mirror.store.all;
    assert.deepEqual(metadata.labels, {
      tier: 'data',
      [SERVICE_NAME_LABEL]: 'web',
      [MANAGED_BY_LABEL]: MIRROR_MANAGER,
    });
    assert.deepEqual(metadata.annotations, { note: 'by hand' });
    assert.deepEqual(metadata.ownerReferences, [
      {
        apiVersion: 'v1',
        kind: 'Endpoints',
        name: 'web',
        uid: 'endpoints-uid',
        controller: true,
        blockOwnerDeletion: true,
      },
    ]);
    assert.deepEqual(endpoints, [
      {
        addresses: ['192.0.2.1'],
        conditions: { ready: true },
        hostname: 'db-0',
        targetRef: reference,
        nodeName: 'node-a',
      },
    ]);
  });

  it('are written once when an address, its state, a label or an annotation changes', () => {
    const mirror = new Mirror();
    mirror.sync(endpointsOf([subset('192.0.2.1', '192.0.2.2')]));
    const changed = [
      endpointsOf([subset('192.0.2.1', '192.0.2.3')]),
      endpointsOf([{ addresses: [{ ip: '192.0.2.1' }], notReadyAddresses: [{ ip: '192.0.2.3' }], ports: HTTP }]),
      endpointsOf([subset('192.0.2.1')], { labels: { a: 'b' } }),
      endpointsOf([subset('192.0.2.1')], { labels: { a: 'b' }, annotations: { c: 'd' } }),
      endpointsOf([subset('192.0.2.1')], { annotations: { c: 'e' } }),
    ];
    for (const endpoints of changed) {
      assert.deepEqual(mirror.sync(endpoints).writes, { create: 0, update: 1, remove: 0 });
    }
    const reordered = endpointsOf([subset('192.0.2.1')], { annotations: { c: 'e' }, resourceVersion: '9' });
    assert.deepEqual(mirror.sync(reordered).writes, { create: 0, update: 0, remove: 0 });
  });

  it('keep their slices when ports change, with the current annotations', () => {
    const mirror = new Mirror();
    mirror.sync(endpointsOf([subset('192.0.2.1')], { annotations: { note: 'one' } }));
    const moved = { addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 9090 }] };
    assert.deepEqual(mirror.sync(endpointsOf([moved], { annotations: { note: 'two' } })).writes, {
      create: 0,
      update: 1,
      remove: 0,
    });
    assert.deepEqual(mirror.store.all[0]?.metadata.annotations, { note: 'two' });
  });

  it('lose slices of a removed family or of removed ports', () => {
    const mirror = new Mirror();
    mirror.sync(endpointsOf([subset('192.0.2.1', '2001:db8::1')]));
    assert.deepEqual(mirror.sync(endpointsOf([subset('192.0.2.1')])).writes, { create: 0, update: 0, remove: 1 });
    assert.deepEqual(mirror.sync(endpointsOf([])).writes, { create: 0, update: 0, remove: 1 });
  });

  it('with two slices keep one', () => {
    const mirror = new Mirror();
    const { changes } = reconcileMirror({
      endpoints: endpointsOf([subset('192.0.2.1')]),
      service: SERVICE,
      existing: [],
      mostPerSubset: 1000,
    });
    mirror.store.apply({ ...changes, create: [...changes.create, ...changes.create] }, () => undefined);
    assert.deepEqual(mirror.sync(endpointsOf([subset('192.0.2.1')])).writes, { create: 0, update: 0, remove: 1 });
  });

  it('that are terminating get no new slice', () => {
    const mirror = new Mirror();
    const leaving = endpointsOf([subset('192.0.2.1')], { deletionTimestamp: '2026-01-01T00:00:00Z' });
    assert.deepEqual(mirror.sync(leaving).writes, { create: 0, update: 0, remove: 0 });
  });
});

describe('addresses that cannot be mirrored', () => {
  it('are omitted when they are invalid, with a notice', () => {
    const mirror = new Mirror();
    const { notices, counts } = mirror.sync(endpointsOf([subset('192.0.2.1', 'db.example.org', '10.0.0.256')]));
    assert.deepEqual(notices, [
      {
        type: 'Warning',
        reason: 'InvalidIPAddress',
        note: 'Skipped 2 invalid IP addresses when mirroring to EndpointSlices',
      },
    ]);
    assert.deepEqual([mirror.content[0]?.ready, counts.skipped], [['192.0.2.1'], 2]);
  });

  it('are omitted above the limit, those that are not ready first, with a notice', () => {
    const mirror = new Mirror();
    mirror.mostPerSubset = 2;
    const { notices, counts } = mirror.sync(
      endpointsOf([
        {
          notReadyAddresses: [{ ip: '192.0.2.9' }],
          addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }],
          ports: HTTP,
        },
      ]),
    );
    assert.deepEqual(notices, [
      {
        type: 'Warning',
        reason: 'TooManyAddressesToMirror',
        note: 'A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped',
      },
    ]);
    assert.deepEqual([mirror.content[0]?.ready, counts.skipped], [['192.0.2.1', '192.0.2.2'], 1]);
  });

  it('count together for the limit when two subsets have the same ports', () => {
    const mirror = new Mirror();
    const ips = (net: number) => Array.from({ length: 600 }, (_, i) => `10.${net}.${i >> 8}.${i & 255}`);
    const { counts } = mirror.sync(endpointsOf([subset(...ips(1)), subset(...ips(2))]));
    assert.deepEqual([mirror.content[0]?.ready.length, counts.skipped], [1000, 200]);
  });
});

describe('Endpoints that are not mirrored', () => {
  const mirrored = (metadata: Partial<Metadata>) =>
    isMirrored({ endpoints: endpointsOf([], metadata), service: SERVICE });

  it('have the label skip-mirror, or are a lock of leader election', () => {
    assert.ok(mirrored({}));
    assert.ok(mirrored({ labels: { 'endpointslice.kubernetes.io/skip-mirror': 'false' } }));
    assert.ok(!mirrored({ labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } }));
    assert.ok(!mirrored({ annotations: { 'control-plane.alpha.kubernetes.io/leader': '{}' } }));
  });

  it('lose their slices when the Service gets a selector, or either is deleted', () => {
    const endpoints = endpointsOf([subset('192.0.2.1')]);
    const cases = [
      [endpoints, serviceView()],
      [endpoints, undefined],
      [undefined, SERVICE],
    ] as const;
    for (const [after, service] of cases) {
      const mirror = new Mirror();
      mirror.sync(endpoints);
      mirror.service = service;
      assert.deepEqual(mirror.sync(after).writes, { create: 0, update: 0, remove: 1 });
    }
  });
});
