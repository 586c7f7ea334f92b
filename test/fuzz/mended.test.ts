/** What the attacks found, one by one, in the words of what could happen. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { addressAt, attribute, attributes, findAttribute } from '../../native/netlink.ts';
import { NFTA_EXPR_DATA, NFTA_EXPR_NAME } from '../../native/nft/constants.ts';
import { decodeExpressions } from '../../native/nft/decoding.ts';
import { commentAt } from '../../native/nft/listings.ts';
import type { Address } from '../../src/base/address.ts';
import { parseDuration } from '../../src/base/duration.ts';
import { decodeZonedNode } from '../../src/cluster/api/decode/producing.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { parseRule } from '../../src/inspect/explain/rule.ts';
import { DeltaMismatch } from '../../src/inspect/history/delta.ts';
import { headerBytes, readFrames } from '../../src/inspect/history/frames.ts';
import { ObjectStore } from '../../src/inspect/history/past-objects.ts';
import { lineSchema } from '../../src/inspect/history/shapes.ts';
import { SaveReader } from '../../src/proxy/modes/netfilter/restore-text.ts';

describe('answers of the kernel', () => {
  /** An attribute that says to be longer than it is, before one that is right. */
  const torn = () => {
    const bytes = Buffer.concat([attribute(1, Buffer.from('abcd')), attribute(2, Buffer.from('efgh'))]);
    bytes.writeUInt16LE(200, 0);
    return bytes;
  };

  it('an attribute of an impossible length is an error, and hides nothing after it', () => {
    const bytes = torn();
    assert.throws(() => findAttribute(bytes, 0, bytes.length, 2), /an attribute of 200 bytes at offset 0 of 16/);
    assert.throws(() => [...attributes(bytes, 0, bytes.length)], RangeError);
  });

  it('a value that is too short is an error, and no neighbour is read in its place', () => {
    const bytes = Buffer.concat([attribute(1, Buffer.from('ab')), attribute(2, Buffer.from('efgh'))]);
    assert.throws(() => findAttribute(bytes, 0, bytes.length, 1, 4), /the attribute 1 has 2 bytes instead of 4/);
    assert.equal(findAttribute(bytes, 0, bytes.length, 2, 4), 12);
  });

  it('an address has 4 or 16 bytes', () => {
    assert.throws(() => addressAt(attribute(1, Buffer.alloc(8)), 4), /an address of 8 bytes/);
    assert.deepEqual(addressAt(attribute(1, Buffer.from([10, 0, 0, 1])), 4), Buffer.from([10, 0, 0, 1]));
  });

  it('an expression with the name of a method is an unknown expression', () => {
    const one = Buffer.concat([
      attribute(NFTA_EXPR_NAME, Buffer.from('constructor\0')),
      attribute(NFTA_EXPR_DATA, Buffer.alloc(4)),
    ]);
    assert.deepEqual(decodeExpressions(attribute(1, one), 'IPv4'), [{ is: 'unknown', name: 'constructor' }]);
  });

  it('a comment ends with its user data, whatever length it says', () => {
    const data = attribute(1, Buffer.from([0, 200, 0x61, 0x62, 0]));
    assert.equal(commentAt(Buffer.concat([data, Buffer.from('of another rule')]), 4), 'ab');
    assert.equal(commentAt(attribute(1, Buffer.alloc(1)), 4), '');
  });
});

describe('what iptables prints', () => {
  const read = (text: string) => {
    const reader = new SaveReader();
    for (const line of text.split('\n')) reader.read(line);
    return reader.end();
  };

  it('a table or a chain that comes twice is not understood: the first one would be lost', () => {
    const table = '*nat\n:A - [0:0]\n-A A -j RETURN\nCOMMIT';
    assert.throws(() => read(`${table}\n${table}`), SyntaxError);
    assert.throws(() => read('*nat\n*filter\nCOMMIT'), SyntaxError);
    assert.throws(() => read('*nat\n:A - [0:0]\n-A A -j RETURN\n:A - [0:0]\nCOMMIT'), /printed a chain twice: :A/);
  });

  it('an option that is the name of a method is not understood', () => {
    assert.equal(parseRule('constructor -j ACCEPT').unknown, 'constructor -j');
    assert.equal(parseRule('-s 10.0.0.0/8 toString').unknown, 'toString');
  });

  it('ports, marks and chances that no rule has are not understood', () => {
    for (const text of [
      '--dport http',
      '--dport 1:2:3',
      '--dport 70000',
      '--mark 0x100000000',
      '--mark -1',
      '--set-xmark 1e3/0x1',
      '--probability 1.5',
      '--to-destination 10.0.0.1:',
      '--to-destination 10.0.0.1:70000',
    ])
      assert.equal(parseRule(text).unknown, text, text);
    assert.equal(parseRule('--dport 8080:8090').unknown, undefined);
    assert.equal(parseRule('--mark 0x4000/0x4000').unknown, undefined);
  });
});

describe('configuration', () => {
  it('a duration has at most 292 years, as in Go, and a long text is read at once', () => {
    assert.equal(parseDuration(`${'9'.repeat(400)}h`), undefined);
    assert.equal(parseDuration('9'.repeat(4_000_000)), undefined);
    assert.equal(parseDuration('2562047h'), 2_562_047 * 3_600_000);
    assert.equal(parseDuration('2562048h'), undefined);
    assert.equal(parseDuration('1.5h'), 5_400_000);
  });

  it('a word that is the name of a method is no address of node ports', () => {
    assert.throws(() => configFromFlags({ nodeportAddresses: 'constructor' }), /constructor/);
    assert.throws(
      () => configFromFlags({ nodeportAddresses: 'constructor' }),
      (error: Error) => !error.message.includes('native code'),
    );
  });
});

describe('objects', () => {
  it('a Node has at most a million processors', () => {
    const node = (cpu: string) => decodeZonedNode({ metadata: { name: 'n' }, status: { allocatable: { cpu } } }, 'n');
    assert.equal(node('1000000').value?.milliCpu, 1_000_000_000);
    for (const cpu of ['1000001', '9'.repeat(400), '9'.repeat(200_000)]) {
      assert.equal(node(cpu).value?.milliCpu, 0);
      assert.equal(node(cpu).faults[0]?.field, 'status.allocatable.cpu');
    }
  });
});

describe('recordings', () => {
  const service = {
    key: 'shop/web',
    uid: null,
    createdAt: 0,
    type: 'ClusterIP',
    clusterIPs: ['10.96.0.10'],
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: null,
    ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    affinitySeconds: 0,
    healthCheckNodePort: 0,
  };
  const lineWith = (more: object) =>
    lineSchema.safeParse({
      type: 'object',
      delta: { kind: 'Service', key: 'shop/web', delta: { all: { ...service, ...more } } },
    });

  it('times, ports, affinity and addresses are within what a Service has', () => {
    assert.ok(lineWith({}).success);
    for (const more of [
      { createdAt: 1e300 },
      { affinitySeconds: 86_401 },
      { ports: [{ name: '', protocol: 'TCP', port: 0, nodePort: 0 }] },
      { clusterIPs: ['10.96.0.1', '10.96.0.2', '10.96.0.3'] },
    ])
      assert.ok(!lineWith(more).success, JSON.stringify(more));
  });

  it('an object that changes its name, or an endpoint of another family, is no change', () => {
    const { data } = lineWith({ key: 'shop/other' });
    assert.ok(data?.type === 'object');
    assert.throws(() => new ObjectStore().apply(data.delta), DeltaMismatch);
    const slice = { service: 'shop/web', family: 'IPv4', ports: [], endpoints: [['fd00::1' as Address, 3]] } as const;
    const change = { kind: 'EndpointSlice', key: 'shop/web-1', delta: { all: slice } } as const;
    assert.throws(() => new ObjectStore().apply(change), /EndpointSlice shop\/web-1 of IPv4 has the endpoint fd00::1/);
  });

  it('a frame of millions of empty lines is damaged', async () => {
    const { crc32 } = await import('node:zlib');
    const content = deflateRawSync('\n'.repeat(2_000_000));
    const head = Buffer.alloc(8);
    head.writeUInt32LE(content.length, 0);
    head.writeUInt32LE(crc32(content), 4);
    const problems: string[] = [];
    const frames: number[] = [];
    async function* chunks() {
      yield Buffer.concat([headerBytes(), head, content]);
    }
    for await (const lines of readFrames(chunks(), (text) => problems.push(text))) frames.push(lines.length);
    assert.deepEqual(frames, []);
    assert.deepEqual(problems, ['frame 1 of the recording is damaged: it and all after it are dropped']);
  });
});
