/** Lists in protobuf say the same as their JSON, and what is none is refused. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeService, SERVICES } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice, SLICES } from '../../../src/cluster/api/decode/slice.ts';
import { readStatusMessage } from '../../../src/cluster/api/protobuf/kind.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import { objectsOf } from '../../bench/cluster.ts';
import { listBytes, statusBytes } from '../../helpers/cluster/api/api-protobuf.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';

const KINDS = {
  Service: { apiVersion: 'v1', reader: SERVICES, decode: decodeService },
  EndpointSlice: { apiVersion: 'discovery.k8s.io/v1', reader: SLICES, decode: decodeSlice },
} as const;
type Kind = keyof typeof KINDS;

function listOf(kind: Kind, objects: readonly object[], metadata: object = { resourceVersion: '7' }): Buffer {
  const whole = objects.map((object) => ({ ...object, kind }) as ApiObject);
  return Buffer.concat(listBytes({ kind: `${kind}List`, apiVersion: KINDS[kind].apiVersion, metadata }, whole));
}

/** What follows from the same objects in both. */
function same(kind: Kind, objects: readonly object[]): void {
  const { reader, decode } = KINDS[kind];
  const items = [...reader.list(listOf(kind, objects)).items];
  assert.equal(items.length, objects.length);
  for (const [i, object] of objects.entries()) {
    const { namespace, name } = (object as ApiObject).metadata;
    const key = `${namespace}/${name}`;
    const { metadata } = items[i] ?? assert.fail();
    assert.equal(`${metadata.namespace}/${metadata.name}`, key);
    assert.equal(metadata.resourceVersion ?? '', (object as ApiObject).metadata.resourceVersion ?? '');
    assert.deepEqual(decode(items[i], key), decode(object, key));
  }
}

/** The Services of a list. */
function itemsOf(bytes: Buffer) {
  return [...SERVICES.list(bytes).items];
}

/** The items of a recorded list of a real API server. */
function recorded(file: string): object[] {
  const path = new URL(`../../data/apiserver/${file}.json`, import.meta.url);
  const { body } = JSON.parse(readFileSync(path, 'utf8')) as { body: string };
  return (JSON.parse(body) as { items: object[] }).items;
}

/** The bytes that a real API server sent. */
function recordedBytes(file: string): Buffer {
  const path = new URL(`../../data/apiserver/protobuf/${file}.json`, import.meta.url);
  const { body } = JSON.parse(readFileSync(path, 'utf8')) as { body: string };
  return Buffer.from(body, 'base64');
}

const FULL = service({
  name: 'full',
  createdAt: '2026-11-21T00:27:50Z',
  labels: { 'app.kubernetes.io/name': 'Zoë 東京', 'service.kubernetes.io/other': 'x' },
  annotations: { 'slicewire.dev/ipvs-scheduler': 'mh,mh-port', 'example.com/other': 'x' },
  spec: {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.10',
    clusterIPs: ['10.96.0.10', 'fd00:96::10'],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'PreferDualStack',
    externalIPs: ['192.0.2.1', '2001:db8::1'],
    loadBalancerSourceRanges: ['192.0.2.0/24'],
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_400 } },
    internalTrafficPolicy: 'Local',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    selector: { app: 'web' },
    ports: [
      { name: 'http', protocol: 'TCP', port: 80, targetPort: 'web', nodePort: 30_080, appProtocol: 'http' },
      { name: 'dns', protocol: 'UDP', port: 53, targetPort: 53, nodePort: 30_053 },
      { name: 'm3ua', protocol: 'SCTP', port: 2905, nodePort: 32_767 },
    ],
  },
  status: {
    loadBalancer: {
      ingress: [
        { ip: '198.51.100.1' },
        { ip: '198.51.100.2', ipMode: 'VIP' },
        { ip: '198.51.100.3', ipMode: 'Proxy' },
        { hostname: 'lb.example' },
      ],
    },
  },
});

describe('lists in protobuf', () => {
  it('say what recorded lists of a real API server say as JSON', () => {
    const services = ['list-services-page1', 'list-services-page2'].flatMap(recorded);
    const slices = recorded('list-endpointslices');
    assert.ok(services.length > 5 && slices.length > 1, `${services.length} Services, ${slices.length} slices`);
    same('Service', services);
    same('EndpointSlice', slices);
  });

  it('say, as a real API server wrote them, what it says in JSON', () => {
    const lists = [
      ['Service', 'list-services'],
      ['Service', 'list-services-page1'],
      ['EndpointSlice', 'list-endpointslices'],
    ] as const;
    for (const [kind, file] of lists) {
      const { reader, decode } = KINDS[kind];
      const { metadata, items } = reader.list(recordedBytes(file));
      const objects = recorded(`protobuf/${file}.as-json`) as ApiObject[];
      assert.ok(objects.length > 1, file);
      assert.match(metadata.resourceVersion ?? '', /^\d+$/);
      assert.equal((metadata.continue ?? '') !== '', file.endsWith('page1'));
      const decoded = (list: readonly object[]) =>
        list.map((item) => {
          const { namespace, name } = (item as ApiObject).metadata;
          return decode(item, `${namespace}/${name}`);
        });
      assert.deepEqual(decoded([...items]), decoded(objects), file);
    }
  });

  it('say what those of a made-up cluster say', () => {
    const shape = { services: 60, endpoints: 130, nodePorts: 0.2, affinity: 0.1, localPolicy: 0.1, unready: 0.1 };
    const all = Array.from({ length: 60 }, (_, n) => objectsOf(shape, n)).flat() as ApiObject[];
    for (const kind of ['Service', 'EndpointSlice'] as const)
      same(
        kind,
        all.filter((object) => object.kind === kind),
      );
  });

  it('have every field of a Service that is used, and one that another proxy serves', () => {
    const spec = { clusterIP: '10.96.0.2', ports: [] };
    const other = service({ name: 'other', labels: { 'service.kubernetes.io/service-proxy-name': 'x' }, spec });
    const headless = service({ name: 'headless', labels: { 'service.kubernetes.io/headless': '' }, spec });
    same('Service', [FULL, other, headless]);
  });

  it('have every field of a slice that is used', () => {
    const full = slice({
      name: 'web-1',
      service: 'web',
      ports: [{ name: 'http', protocol: 'TCP', port: 8080 }, { name: 'any' }, {}],
      endpoints: [
        { addresses: ['10.0.0.1', '10.0.0.2'], conditions: { ready: true, serving: true, terminating: false } },
        { addresses: ['10.0.0.3'], conditions: { ready: false, serving: true, terminating: true }, zone: 'z' },
        { addresses: ['10.0.0.4'], nodeName: 'node-a', hints: { forZones: [{ name: 'a' }, { name: 'b' }] } },
        { addresses: ['10.0.0.5'], hints: { forZones: [], forNodes: [{ name: 'node-a' }] } },
      ],
    });
    const metadata = {
      name: 'web-2',
      namespace: 'default',
      uid: 'c5f33a0a-6490-4017-946a-8d35a8e292f1',
      labels: { 'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'x' },
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-11-21T01:00:00.5Z', note: 'x' },
    };
    const headless = { ...metadata.labels, 'service.kubernetes.io/headless': '' };
    same('EndpointSlice', [
      full,
      { ...full, metadata },
      { ...full, metadata: { ...metadata, labels: headless } },
      {
        ...full,
        metadata: { ...metadata, labels: { ...metadata.labels, 'service.kubernetes.io/service-proxy-name': '' } },
      },
      { ...full, metadata: { ...metadata, labels: {} } },
      slice({ name: 'six', service: 'web', endpoints: ['2001:db8::1'] }),
      { ...slice({ name: 'names', service: 'web', endpoints: [] }), addressType: 'FQDN' },
    ]);
  });

  it('report the same faults', () => {
    const ports = [{ port: 70_000 }, { port: 80, nodePort: -1 }, { port: 81, name: 'Not A Name' }];
    for (const port of ports)
      same('Service', [service({ name: 'a', spec: { clusterIP: '10.96.0.1', ports: [port] } })]);
    same('Service', [service({ name: 'b', spec: { clusterIP: 'nowhere', ports: [{ port: 80 }] } })]);
    same('EndpointSlice', [slice({ name: 'a', service: 'web', endpoints: ['nowhere', 'fd00::1', '10.0.0.1'] })]);
  });

  it('are read by the numbers of Kubernetes’ generated.proto, as these bytes have them', () => {
    const meta = of(
      1,
      of(1, 'web-1'),
      of(3, 'default'),
      of(6, '41'),
      of(11, of(1, 'kubernetes.io/service-name'), of(2, 'web')),
    );
    const endpoint = of(2, of(1, '10.0.0.1'), of(2, int(1, 1), int(2, 0)), of(6, 'n'), of(8, of(1, of(1, 'z'))));
    const item = of(2, meta, endpoint, of(3, of(1, 'http'), of(2, 'UDP'), int(3, 80)), of(4, 'IPv4'));
    const list = of(2, of(1, of(2, '7')), item);
    const type = of(1, of(1, 'discovery.k8s.io/v1'), of(2, 'EndpointSliceList'));
    const { metadata, items } = SLICES.list(Buffer.concat([Buffer.from('k8s\0'), type, list]));
    assert.equal(metadata.resourceVersion, '7');
    const [first = assert.fail()] = [...items];
    assert.deepEqual(decodeSlice(first, 'default/web-1'), {
      kind: 'slice',
      key: 'default/web-1',
      slice: {
        key: 'default/web-1',
        service: 'default/web',
        family: 'IPv4',
        ports: [{ name: 'http', protocol: 'UDP', port: 80 }],
        endpoints: [
          {
            address: '10.0.0.1',
            ready: true,
            serving: false,
            terminating: false,
            nodeName: 'n',
            zoneHints: ['z'],
            nodeHints: [],
          },
        ],
      },
      triggeredAt: 0,
      faults: [],
    });
    const spec = of(2, of(1, int(3, 80)), of(3, '10.96.0.1'), of(4, 'ClusterIP'), of(18, '10.96.0.1'), of(22, 'Local'));
    const named = of(1, of(1, 'web'), of(3, 'default'), of(8, int(1, 90)));
    const services = of(
      2,
      of(1, of(2, '7')),
      of(2, named, spec, of(3, of(1, of(1, of(1, '192.0.2.1'), of(3, 'VIP'))))),
    );
    const head = of(1, of(1, 'v1'), of(2, 'ServiceList'));
    const [web = assert.fail()] = itemsOf(Buffer.concat([Buffer.from('k8s\0'), head, services]));
    const event = decodeService(web, 'default/web');
    assert.ok(event.kind === 'service' && event.service !== undefined);
    const { clusterIPs, loadBalancerIPs, internalTrafficPolicy, ports, createdAt } = event.service;
    assert.deepEqual(
      [clusterIPs, loadBalancerIPs, internalTrafficPolicy, ports, createdAt],
      [['10.96.0.1'], ['192.0.2.1'], 'Local', [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }], 90_000],
    );
  });

  it('have the version and the token of the page', () => {
    const { metadata } = SERVICES.list(
      listOf('Service', [], { resourceVersion: '3952', continue: 'eyJ2', remainingItemCount: 7 }),
    );
    assert.deepEqual({ ...metadata }, { resourceVersion: '3952', continue: 'eyJ2' });
  });

  it('are refused wherever they break off', () => {
    const whole = listOf('Service', [FULL]);
    const end = whole.length - Buffer.from('\x1a\0\x22\0').length;
    for (let length = 0; length < end; length++) {
      assert.throws(() => itemsOf(whole.subarray(0, length)), ProtobufUnreadable, `${length} of ${whole.length}`);
    }
    assert.equal(itemsOf(whole).length, 1);
  });

  it('are refused when they are something else', () => {
    assert.throws(() => SERVICES.list(listOf('EndpointSlice', [])), /it is EndpointSliceList, not ServiceList/);
    assert.throws(() => SERVICES.list(Buffer.from('{"kind":"ServiceList"}')), /does not begin with the magic bytes/);
    assert.throws(() => SLICES.list(Buffer.alloc(0)), ProtobufUnreadable);
  });

  it('are refused where a field has the wrong wire type, has no number, or comes at the wrong end', () => {
    const list = (...item: Buffer[]) => {
      const type = of(1, of(1, 'v1'), of(2, 'ServiceList'));
      return Buffer.concat([Buffer.from('k8s\0'), type, of(2, of(1, of(2, '7')), of(2, ...item))]);
    };
    assert.equal(itemsOf(list(of(2, of(3, '10.96.0.1'))))[0]?.spec.clusterIP, '10.96.0.1');
    for (const wrong of [
      of(2, int(3, 1), of(1, 'a')),
      of(2, of(1, of(3, '80'))),
      of(2, of(3, '10.96.0.1'), Buffer.of(0)),
      of(1, of(11, of(2, 'web'), of(1, 'kubernetes.io/service-name'))),
      int(2, 1),
    ]) {
      assert.throws(() => itemsOf(list(wrong)), ProtobufUnreadable, wrong.toString('hex'));
    }
  });

  it('may have fields that nobody knows yet', () => {
    const future = [of(99, 'new'), int(98, 1), Buffer.concat([varint(97 * 8 + 5), Buffer.alloc(4)])];
    const item = of(2, ...future, of(2, ...future, of(3, '10.96.0.1'), ...future), ...future);
    const type = of(1, of(1, 'v1'), of(2, 'ServiceList'));
    const bytes = Buffer.concat([Buffer.from('k8s\0'), type, of(2, of(1, of(2, '7'), ...future), item, ...future)]);
    assert.equal(itemsOf(bytes)[0]?.spec.clusterIP, '10.96.0.1');
  });

  it('without a version are refused, as watches begin there', () => {
    for (const metadata of [{}, { resourceVersion: '' }])
      assert.throws(() => SERVICES.list(listOf('Service', [], metadata)), /it has no resourceVersion/);
  });

  it('have times that are none, too', () => {
    // 10^15 seconds.
    const created = of(8, varint(8), Buffer.from('80809aa6eaafe301', 'hex'));
    const type = of(1, of(1, 'v1'), of(2, 'ServiceList'));
    const item = of(2, of(1, created), of(2, of(3, '10.96.0.1'), of(1, int(3, 80))));
    const bytes = Buffer.concat([Buffer.from('k8s\0'), type, of(2, of(1, of(2, '7')), item)]);
    const event = decodeService(itemsOf(bytes)[0], 'default/web');
    assert.ok(event.kind === 'service');
    assert.equal(event.service?.createdAt, 0);
  });

  it('of any bytes are read or refused, and nothing else happens', () => {
    const slices = [
      slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.1', { addresses: ['10.0.0.2'], nodeName: 'n' }] }),
    ];
    anyBytes(listOf('Service', [FULL, FULL]), (bytes) => {
      for (const item of itemsOf(bytes)) decodeService(item, 'default/full');
    });
    anyBytes(listOf('EndpointSlice', slices), (bytes) => {
      for (const item of SLICES.list(bytes).items) decodeSlice(item, 'default/web-1');
    });
  });
});

/** Some bytes of what is right are others: it is read, or refused. */
function anyBytes(whole: Buffer, read: (bytes: Buffer) => void): void {
  const place = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
  fc.assert(
    fc.property(fc.array(place, { minLength: 1, maxLength: 4 }), (places) => {
      const bytes = Buffer.from(whole);
      for (const [at, byte] of places) bytes[at] = byte;
      try {
        read(bytes);
      } catch (error) {
        assert.ok(error instanceof ProtobufUnreadable, String(error));
      }
    }),
    { numRuns: 3000 },
  );
}

describe('a Status in protobuf', () => {
  it('is read as a real API server wrote it', () => {
    const { message, reason } = readStatusMessage(recordedBytes('not-found'));
    assert.deepEqual([message, reason], ['services "nothing" not found', 'NotFound']);
  });

  it('has its message, its reason and those of its causes', () => {
    const causes = [{ reason: 'ResourceVersionTooLarge', message: 'Too large', field: '' }];
    const fields = { status: 'Failure', message: 'too old', reason: 'Expired', code: 410, metadata: {} };
    const bytes = statusBytes({ kind: 'Status', apiVersion: 'v1', ...fields, details: { causes } } as never);
    const { message, reason, details } = readStatusMessage(Buffer.concat(bytes));
    assert.deepEqual(
      [message, reason, details.causes],
      ['too old', 'Expired', [{ reason: 'ResourceVersionTooLarge' }]],
    );
    anyBytes(Buffer.concat(bytes), readStatusMessage);
  });

  it('without a message has none', () => {
    const bytes = statusBytes({ kind: 'Status', apiVersion: 'v1', ...{ message: '', code: 500 } });
    assert.equal(readStatusMessage(Buffer.concat(bytes)).message, undefined);
  });
});

/** A field with a length: a text, or a message of fields. */
function of(field: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  assert.ok(content.length < 2 ** 14);
  return Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
}

function int(field: number, value: number): Buffer {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

function varint(value: number): Buffer {
  return value < 128 ? Buffer.of(value) : Buffer.of((value % 128) + 128, Math.floor(value / 128));
}
