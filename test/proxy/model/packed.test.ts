import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Address, type Cidr, parseAddress, parseCidr } from '../../../src/base/address.ts';
import { SlicesByService } from '../../../src/cluster/cache/cache.ts';
import type { Endpoint, Service, Slice } from '../../../src/proxy/model/objects.ts';
import { Packer, Unpacker } from '../../../src/proxy/model/packed/bytes.ts';
import {
  keyOfSlice,
  Names,
  packedVersion,
  packService,
  packSlice,
  sameContent,
  unpackService,
  unpackSlice,
} from '../../../src/proxy/model/packed/packed-objects.ts';
import { packPorts, unpackPorts } from '../../../src/proxy/model/packed/ports.ts';
import { servicePorts } from '../../../src/proxy/model/service-port.ts';

/** Objects as code makes them: with the usual prototype. */
const plain = <T extends object>(of: { readonly [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(of, { noNullPrototype: true }) as unknown as fc.Arbitrary<T>;
const v4 = fc.ipV4().map((text) => parseAddress(text) as Address);
const v6 = fc
  .ipV6()
  .map((text) => parseAddress(text))
  .filter((address) => address?.includes(':') === true) as fc.Arbitrary<Address>;
const address = fc.oneof(v4, v6);
const cidr = fc
  .constantFrom('10.0.0.0/8', '0.0.0.0/0', 'fd00::/8', '192.0.2.1/32')
  .map((text) => parseCidr(text) as Cidr);
const port = fc.integer({ min: 1, max: 65_535 });
const name = fc.constantFrom('', 'http', 'a-name-of-63-letters'.repeat(3), 'ü', 'Ω-wide');
const protocol = fc.constantFrom('TCP' as const, 'UDP' as const, 'SCTP' as const);
const policy = fc.constantFrom('Cluster' as const, 'Local' as const);
const few = <T>(one: fc.Arbitrary<T>) => fc.array(one, { maxLength: 4 });

const service: fc.Arbitrary<Service> = plain({
  key: fc.constantFrom('default/web', 'a/b'),
  uid: fc.option(fc.oneof(fc.uuid(), fc.constantFrom('', 'not a uuid', '8790B480-b3c8-4946-a37e-5b5ee1a4c125')), {
    nil: undefined,
  }),
  createdAt: fc.constantFrom(0, 1_795_220_870_000, 1_795_220_870_123, 1),
  type: fc.constantFrom('ClusterIP' as const, 'NodePort' as const, 'LoadBalancer' as const),
  clusterIPs: fc.tuple(v4, v6).chain(([a, b]) => fc.constantFrom([a], [b], [a, b], [b, a])),
  externalIPs: few(address),
  loadBalancerIPs: few(address),
  sourceRanges: fc.option(few(cidr), { nil: undefined }),
  ports: few(plain({ name, protocol, port, nodePort: fc.oneof(fc.constant(0), port) })),
  internalTrafficPolicy: policy,
  externalTrafficPolicy: policy,
  affinitySeconds: fc.constantFrom(0, 1, 10_800, 86_400),
  healthCheckNodePort: fc.oneof(fc.constant(0), port),
  ipvsScheduler: fc.constantFrom(undefined, undefined, 'mh', 'sh,sh-port'),
}).map(({ uid, ipvsScheduler, ...rest }) => ({
  ...rest,
  ...(uid === undefined ? {} : { uid }),
  ...(ipvsScheduler === undefined ? {} : { ipvsScheduler }),
}));

const NODES = ['', 'node-1', 'node-2'];
const endpoint = (addresses: fc.Arbitrary<Address>): fc.Arbitrary<Endpoint> =>
  plain({
    address: addresses,
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    nodeName: fc.constantFrom(...NODES),
    zoneHints: few(fc.constantFrom('a', 'b')),
    nodeHints: few(fc.constantFrom('node-1', 'node-9')),
  });

const slice: fc.Arbitrary<Slice> = fc.constantFrom('IPv4' as const, 'IPv6' as const).chain((family) =>
  plain({
    key: fc.constantFrom('default/web-abcde', 'default/other', 'default/we', 'x/web-1'),
    service: fc.constant('default/web'),
    family: fc.constant(family),
    ports: few(plain({ name, protocol, port })),
    endpoints: few(endpoint(family === 'IPv4' ? v4 : v6)),
  }),
);

describe('packed', () => {
  it('a Service is the same when it is unpacked', () => {
    fc.assert(fc.property(service, (one) => assert.deepEqual(unpackService(one.key, packService(one)), one)));
  });

  it('an EndpointSlice is the same when it is unpacked, whatever its name', () => {
    const names = new Names();
    fc.assert(
      fc.property(slice, (one) => {
        const packed = packSlice(one, names);
        assert.deepEqual(unpackSlice(one.service, packed, names), one);
        assert.equal(keyOfSlice(one.service, packed), one.key);
      }),
    );
  });

  it('the ServicePorts of a Service are the same when they are unpacked', () => {
    fc.assert(
      fc.property(service, fc.array(slice, { maxLength: 3 }), fc.constantFrom('', 'a'), (one, slices, zone) => {
        const ports = servicePorts(one, slices, { nodeName: 'node-1', zone });
        const packed = packPorts({ createdAt: one.createdAt, ports });
        assert.deepEqual(unpackPorts(one.key, packed), { createdAt: one.createdAt, ports });
      }),
    );
  });

  it('objects that differ have different texts', () => {
    fc.assert(
      fc.property(service, service, (a, b) => {
        const isSame = isEqual({ ...a, key: '' }, { ...b, key: '' });
        assert.equal(packService(a) === packService(b), isSame);
      }),
    );
  });

  it('a text begins with the resourceVersion, which is no part of the value', () => {
    const versions = fc.constantFrom('', '7', '127', '128', '4711', '16384', '999999999999999');
    const names = new Names();
    fc.assert(
      fc.property(service, service, slice, versions, versions, (one, other, part, a, b) => {
        const [first, second] = [packService(one, a), packService(one, b)];
        assert.deepEqual([packedVersion(first), packedVersion(second)], [a, b]);
        assert.deepEqual(unpackService(one.key, first), one);
        assert.ok(sameContent(first, second));
        const isSame = isEqual({ ...one, key: '' }, { ...other, key: '' });
        assert.equal(sameContent(first, packService(other, b)), isSame);
        const packed = packSlice(part, names, a);
        assert.deepEqual([packedVersion(packed), keyOfSlice(part.service, packed)], [a, part.key]);
        assert.deepEqual(unpackSlice(part.service, packed, names), part);
        assert.ok(sameContent(packed, packSlice(part, names, b)));
      }),
    );
    const [one] = fc.sample(service, 1);
    for (const none of ['abc', '007', '-1', '1000000000000000', '1.5']) {
      assert.ok(one);
      assert.equal(packedVersion(packService(one, none)), '', none);
    }
  });

  it('nothing of an object that could not be packed is left for the next one', () => {
    const [one] = fc.sample(service, 1);
    assert.ok(one);
    const packed = packService(one);
    assert.throws(() => packService({ ...one, affinitySeconds: -1 }), RangeError);
    assert.equal(packService(one), packed);
  });

  it('numbers may be as large as a number is exact, and texts as long as the room has to grow for them', () => {
    const packer = new Packer();
    for (const number of [0, 127, 128, 2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]) {
      packer.number(number);
      assert.equal(new Unpacker(packer.end()).number(), number);
    }
    for (const text of ['x'.repeat(5000), 'Ω'.repeat(5000)]) {
      packer.text(text);
      assert.equal(new Unpacker(packer.end()).text(), text);
    }
  });

  it('no number that would be read back as another one is taken, and none is read after the end', () => {
    const packer = new Packer();
    for (const number of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      packer.byte(7);
      assert.throws(() => packer.number(number), RangeError, `${number}`);
    }
    packer.begin();
    packer.byte(200);
    assert.throws(() => new Unpacker(packer.end()).number(), /in the middle of a number/);
  });
});

function isEqual(a: unknown, b: unknown): boolean {
  try {
    assert.deepEqual(a, b);
    return true;
  } catch {
    return false;
  }
}

describe('the slices of many nodes that come and go', () => {
  const slices = new SlicesByService(() => undefined);
  const sliceOn = (n: number): Slice => ({
    key: `default/web-${n % 7}`,
    service: 'default/web',
    family: 'IPv4',
    ports: [],
    endpoints: [{ ...DEFAULTS, address: `10.0.${n % 200}.1` as Address, nodeName: `node-${n}` }],
  });

  it('are right after names of gone nodes were forgotten', () => {
    for (let n = 0; n < 5000; n++) slices.set(`default/web-${n % 7}`, sliceOn(n), String(n));
    const found = slices.of('default/web').map(({ endpoints }) => endpoints[0]?.nodeName ?? '');
    assert.deepEqual(
      found.sort(),
      ['4993', '4994', '4995', '4996', '4997', '4998', '4999'].map((n) => `node-${n}`),
    );
    assert.deepEqual(slices.get('default/web-0'), sliceOn(4998 - (4998 % 7)));
    assert.equal(slices.resourceVersion('default/web-0'), String(4998 - (4998 % 7)));
  });

  it('are found whatever their names are, also when they change their Service', () => {
    const moved = { ...sliceOn(1), key: 'default/odd', service: 'default/other' };
    assert.equal(slices.set('default/odd', { ...moved, service: 'default/web' }), true);
    assert.equal(slices.get('default/odd')?.service, 'default/web');
    assert.equal(slices.set('default/odd', moved), true);
    assert.equal(slices.get('default/odd')?.service, 'default/other');
    assert.equal(
      slices.of('default/web').some(({ key }) => key === 'default/odd'),
      false,
    );
    slices.set('default/odd', undefined);
    assert.equal(slices.get('default/odd'), undefined);
  });
});

const DEFAULTS = { ready: true, serving: true, terminating: false, zoneHints: [], nodeHints: [] };
