import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { type Address, cidrContains, familyOf, parseAddress, parseCidr } from '../../../src/base/address.ts';
import { AnonymousAddresses, anonymized } from '../../../src/inspect/history/anonymize.ts';
import { frameBytes, headerBytes, recordingBytes } from '../../../src/inspect/history/frames.ts';
import { readRecording } from '../../../src/inspect/history/reading.ts';
import { rememberedRecording } from '../../../src/inspect/history/recording-writer.ts';
import { Replay } from '../../../src/inspect/replay/replay-recording.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { chunksOf, partsOf, record, recordedRig } from '../replay/recorded-parts.ts';
import type { RecordedRig } from './recorded-rig.ts';

const SECRET = Buffer.from('a secret of thirty-two bytes....');

const aV4 = fc.ipV4().map((text) => parseAddress(text));
const aV6 = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) =>
    parseAddress(
      Array.from(
        { length: 8 },
        (_, i) => (bytes[2 * i] ?? 0).toString(16) + (bytes[2 * i + 1] ?? 0).toString(16).padStart(2, '0'),
      ).join(':'),
    ),
  );

describe('anonymous addresses', () => {
  for (const [family, anAddress, width, least] of [
    ['IPv4', aV4, 32, 8],
    ['IPv6', aV6, 128, 16],
  ] as const) {
    it(`of ${family} are equal where the real ones are, and in the same ranges`, () => {
      const known = fc.tuple(anAddress, anAddress, fc.integer({ min: least, max: width }), fc.boolean());
      fc.assert(
        fc.property(known, ([a, b, length, isNear]) => {
          if (a === undefined || b === undefined || familyOf(a) !== family || familyOf(b) !== family) return;
          if ([a, b].some((text) => /^(0\.|127\.|169\.254\.|:|fe80:)/.test(text))) return;
          const range = parseCidr(`${isNear ? b : a}/${length}`);
          assert.ok(range !== undefined);
          const replaced = new AnonymousAddresses(SECRET);
          const [x, y, z] = [replaced.address(a), replaced.address(b), replaced.cidr(range)];
          assert.equal(familyOf(x), family);
          assert.equal(x === y, a === b);
          assert.equal(cidrContains(z, x), cidrContains(range, a));
          assert.equal(cidrContains(z, y), cidrContains(range, b));
        }),
        { numRuns: 500 },
      );
    });
  }

  it('in a range at the beginning of all IPv6 addresses stay in it', () => {
    const replaced = new AnonymousAddresses(SECRET);
    for (const text of ['::/16', '::/20', '::/40']) {
      const range = parseCidr(text);
      assert.ok(range !== undefined);
      assert.equal(cidrContains(range, '0:1::1' as Address), text !== '::/40');
      assert.equal(cidrContains(replaced.cidr(range), replaced.address('0:1::1' as Address)), text !== '::/40');
    }
  });

  it('leave loopback and the whole range alone', () => {
    const replaced = new AnonymousAddresses(SECRET);
    for (const text of ['127.0.0.1', '::1', '0.0.0.0', '::']) assert.equal(replaced.address(text as Address), text);
    const all = parseCidr('0.0.0.0/0');
    assert.ok(all !== undefined);
    assert.equal(replaced.cidr(all), '0.0.0.0/0');
    assert.match(replaced.address('169.254.20.10' as Address), /^169\.254\./);
  });
});

async function secretRig(): Promise<{ readonly rig: RecordedRig; readonly bytes: () => Buffer }> {
  const rig = recordedRig('nftables');
  const recording = record(rig, 'nftables');
  const web = (externalIPs: string[]) => {
    const clusterIPs = ['10.96.7.7', 'fd00:96::77'];
    const ports = [{ name: 'acme-portal', port: 443 }];
    const loadBalancerSourceRanges = ['203.0.113.0/24'];
    const spec = {
      type: 'ClusterIP',
      clusterIP: clusterIPs[0],
      clusterIPs,
      externalIPs,
      ports,
      loadBalancerSourceRanges,
    };
    const annotations = { 'slicewire.dev/slow-start': '60s' };
    return service({ name: 'payroll', namespace: 'acme-corp', spec, annotations });
  };
  const endpoint = (host: number) => ({
    addresses: [`10.244.9.${host}`],
    nodeName: 'acme-worker-1',
    hints: { forZones: [{ name: 'acme-zone' }], forNodes: [{ name: 'acme-worker-2' }] },
  });
  rig.put(
    web([]),
    slice({
      name: 'payroll-x7',
      namespace: 'acme-corp',
      service: 'payroll',
      ports: [{ name: 'acme-portal', port: 8443 }],
      endpoints: [endpoint(11)],
    }),
  );
  await rig.sync('start');
  rig.put(web(['198.51.100.99']));
  await rig.sync();
  rig.put(
    slice({
      name: 'payroll-x7',
      namespace: 'acme-corp',
      service: 'payroll',
      ports: [{ name: 'acme-portal', port: 8443 }],
      endpoints: [endpoint(11), endpoint(12)],
    }),
  );
  await rig.sync();
  rig.remove('services', 'acme-corp/payroll');
  await rig.sync();
  await setImmediate();
  return { rig, bytes: recording.bytes };
}

const REAL = /acme|payroll|10\.96\.7|fd00:96|203\.0\.113|198\.51\.100|10\.244\.9|192\.168\.77|fd00:77|10\.244\.1/;

describe('an anonymous recording', () => {
  it('has no name and no address of the real one, and replays the same way', async () => {
    const { bytes } = await secretRig();
    const lines = anonymized(readRecording(chunksOf(bytes()), assert.fail), SECRET);
    const anonymous = Buffer.concat(await Array.fromAsync(recordingBytes(lines)));
    const text = (await Array.fromAsync(readRecording(chunksOf(anonymous), assert.fail))).map((line) =>
      JSON.stringify(line),
    );
    const real = (await Array.fromAsync(readRecording(chunksOf(bytes()), assert.fail))).map((line) =>
      JSON.stringify(line),
    );
    assert.match(real.join('\n'), REAL);
    assert.match(real.join('\n'), /"growing":.*10\.244\.9\.12/);
    assert.doesNotMatch(text.join('\n'), REAL);
    const replay = async (content: Buffer) => {
      const syncs = new Replay({ signal: NEVER }).syncs(readRecording(chunksOf(content), assert.fail));
      return (await Array.fromAsync(syncs)).map(({ planText }) => planText.split('\n').length);
    };
    const [ofReal, ofAnonymous] = [await replay(bytes()), await replay(anonymous)];
    assert.deepEqual(ofAnonymous, ofReal);
  });
});

it('an anonymous recording names no program that wrote before a sync, in the former form of the trigger neither', async () => {
  const { bytes } = await secretRig();
  const lines = (await Array.fromAsync(readRecording(chunksOf(bytes()), assert.fail))).map((line) => {
    if (line.type !== 'sync') return line;
    const named = { trigger: 'another program wrote: payroll-agent, pid 7', by: 'payroll-agent, pid 7' };
    return { ...line, record: { ...line.record, ...named } };
  });
  const anonymous = await Array.fromAsync(anonymized(Readable.from(lines), SECRET));
  const syncs = anonymous.flatMap((line) => (line.type === 'sync' ? [line.record] : []));
  assert.ok(syncs.length > 0);
  for (const { trigger, by } of syncs)
    assert.deepEqual([trigger, /payroll/.test(by)], ['another program wrote', false]);
});

describe('a recording of what the recorder remembers', () => {
  it('replays as the same plans', async () => {
    const { rig } = await secretRig();
    const context = { parts: () => partsOf('nftables'), isWaiting: () => false, wall: () => rig.clock.wall() };
    const bytes = Buffer.concat(await Array.fromAsync(rememberedRecording(rig.recorder, context)));
    const syncs = await Array.fromAsync(
      new Replay({ signal: NEVER }).syncs(readRecording(chunksOf(bytes), assert.fail)),
    );
    assert.deepEqual(
      syncs.map(({ number, isSame }) => [number, isSame]),
      [
        [2, true],
        [3, true],
        [4, true],
      ],
    );
  });
});

describe('a recording that is damaged', () => {
  const frame = frameBytes(['{"type":"started","objects":0}']);

  async function read(bytes: Uint8Array): Promise<{ lines: number; problems: string[] }> {
    const problems: string[] = [];
    const lines = await Array.fromAsync(readRecording(chunksOf(Buffer.from(bytes)), (text) => problems.push(text)));
    return { lines: lines.length, problems };
  }

  it('is read up to the damage, and the reader is told', async () => {
    const whole = Buffer.concat([headerBytes(), frame, frame]);
    assert.deepEqual(await read(whole), { lines: 2, problems: [] });
    for (let cut = headerBytes().length + frame.length + 1; cut < whole.length; cut++) {
      const { lines, problems } = await read(whole.subarray(0, cut));
      assert.deepEqual(
        [lines, problems],
        [1, ['frame 2 of the recording is incomplete: it and all after it are dropped']],
      );
    }
    const flipped = Buffer.from(whole);
    flipped[whole.length - 1] = (flipped.at(-1) ?? 0) ^ 1;
    assert.deepEqual(await read(flipped), {
      lines: 1,
      problems: ['frame 2 of the recording is damaged: it and all after it are dropped'],
    });
  });

  it('is refused when it is of another version, or none at all', async () => {
    await assert.rejects(
      read(Buffer.from('slicewire-recording 2\nx')),
      /this recording has version "2", and this slicewire reads version 1/,
    );
    await assert.rejects(read(Buffer.from('GIF89a')), /it does not begin with "slicewire-recording"/);
    await assert.rejects(
      read(Buffer.concat([headerBytes(), frameBytes(['{"type":"object","delta":{"kind":"Node","key":"a b"}}'])])),
      /line 1 of the recording: delta\.key: /,
    );
    await assert.rejects(
      read(Buffer.concat([headerBytes(), frameBytes(['{'])])),
      /line 1 of the recording is not JSON/,
    );
  });
});
