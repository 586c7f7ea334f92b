/** The annotations of docs/traffic.md: right values, wrong ones, and what of them stays. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeService } from '../../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../../src/cluster/api/decode/slice.ts';
import { faultText, type Service } from '../../../../src/proxy/model/objects.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';

const [A, B] = ['10.244.1.11', '10.244.1.12'];

function weighted(annotations: Record<string, string>) {
  const object = slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: [A, B], annotations });
  const { slice: found, faults } = decodeSlice(object, 'default/web-1');
  const endpoints = found?.endpoints.map(({ weight, isBackup }) => ({ weight, isBackup }));
  return { endpoints, texts: faults.map(faultText) };
}

function balanced(
  annotations: Record<string, string>,
  spec: object = {},
): { value: Service | undefined; texts: string[] } {
  const whole = { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec };
  const { service: value, faults } = decodeService(service({ name: 'web', spec: whole, annotations }), 'default/web');
  return { value, texts: faults.map(faultText) };
}

const WEIGHT = 'EndpointSlice default/web-1: metadata.annotations["slicewire.dev/weight"]';
const PLAIN = { weight: undefined, isBackup: undefined };

describe('the weight of a slice', () => {
  it('is a number for all endpoints, or numbers by address; the usual one is no weight of its own', () => {
    const weights = (text: string) => weighted({ 'slicewire.dev/weight': text }).endpoints?.map(({ weight }) => weight);
    assert.deepEqual(weights('20'), [20, 20]);
    assert.deepEqual(weights('0'), [0, 0]);
    assert.deepEqual(weights('1000'), [1000, 1000]);
    assert.deepEqual(weights('100'), [undefined, undefined]);
    assert.deepEqual(weights(`{"${A}": 5}`), [5, undefined]);
    assert.deepEqual(weights(`{"::ffff:0:0": 5, "${B}": 0}`), [undefined, 0]);
  });

  for (const text of ['', 'half', '-1', '1001', '1.5', '"20"', '[20]', 'null', 'true'])
    it(`that is none is set aside: ${text}`, () => {
      const { endpoints, texts } = weighted({ 'slicewire.dev/weight': text });
      assert.deepEqual(endpoints, [PLAIN, PLAIN]);
      const problem =
        'must be a whole number from 0 to 1000, or a JSON object of addresses with such numbers; each endpoint has the weight 100 (default used)';
      assert.deepEqual(texts, [`${WEIGHT}: ${text === '' ? '' : `${text}: `}${problem}`]);
    });

  it('of one address that is wrong leaves the others', () => {
    const { endpoints, texts } = weighted({
      'slicewire.dev/weight': `{"nowhere": 1, "${A}": "5", "${B}": 7, "10.9.9.9": 3}`,
    });
    assert.deepEqual(
      endpoints?.map(({ weight }) => weight),
      [undefined, 7],
    );
    assert.deepEqual(texts, [
      `${WEIGHT}["nowhere"]: 1: must have an IP address as its name (part left out)`,
      `${WEIGHT}["${A}"]: 5: must be a whole number from 0 to 1000; the weight is 100 (default used)`,
      `${WEIGHT}["10.9.9.9"]: 3: no endpoint of the slice has the address (no effect here)`,
    ]);
  });

  it('has a bounded number of faults', () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`name-${i}`, 1]));
    assert.ok(weighted({ 'slicewire.dev/weight': JSON.stringify(many) }).texts.length <= 100);
  });
});

describe('a backup', () => {
  it('is true or false, and nothing else', () => {
    const backup = { weight: undefined, isBackup: true };
    assert.deepEqual(weighted({ 'slicewire.dev/backup': 'true' }), { endpoints: [backup, backup], texts: [] });
    assert.deepEqual(weighted({ 'slicewire.dev/backup': 'false' }), { endpoints: [PLAIN, PLAIN], texts: [] });
    assert.deepEqual(weighted({ 'slicewire.dev/backup': 'yes' }), {
      endpoints: [PLAIN, PLAIN],
      texts: [
        'EndpointSlice default/web-1: metadata.annotations["slicewire.dev/backup"]: yes: must be "true" or "false"; the endpoints are no backups (default used)',
      ],
    });
  });
});

describe('the balance of a Service', () => {
  const field = 'Service default/web: metadata.annotations["slicewire.dev/balance"]';
  it('is random, hash or hash-port', () => {
    const hashes = (text: string) => balanced({ 'slicewire.dev/balance': text }).value?.hashes;
    assert.deepEqual(['random', 'hash', 'hash-port'].map(hashes), [undefined, 'address', 'address and port']);
    assert.deepEqual(balanced({ 'slicewire.dev/balance': 'maglev' }).texts, [
      `${field}: maglev: must be one of random, hash, hash-port; endpoints are chosen at random (default used)`,
    ]);
  });

  it('gives way to session affinity, and is for few frontends', () => {
    const sticky = balanced(
      { 'slicewire.dev/balance': 'hash' },
      {
        ...{ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
      },
    );
    assert.deepEqual(
      [sticky.value?.hashes, sticky.texts],
      [
        undefined,
        [`${field}: hash: spec.sessionAffinity ClientIP decides about the endpoint of a client (no effect here)`],
      ],
    );
    const ports = Array.from({ length: 21 }, (_, i) => ({ name: `p${i}`, port: 80 + i }));
    const large = balanced({ 'slicewire.dev/balance': 'hash' }, { ports });
    assert.deepEqual(
      [large.value?.hashes, large.texts],
      [
        undefined,
        [
          `${field}: hash: is for Services with up to 20 frontends, and this one has 21; endpoints are chosen at random (default used)`,
        ],
      ],
    );
  });

  it('says that a scheduler of its own decides in IPVS mode', () => {
    const both = balanced({ 'slicewire.dev/balance': 'hash', 'slicewire.dev/ipvs-scheduler': 'lc' });
    assert.equal(both.value?.hashes, 'address');
    assert.deepEqual(both.texts, [
      `${field}: hash: in IPVS mode slicewire.dev/ipvs-scheduler decides (no effect here)`,
    ]);
  });
});

describe('the slow start of a Service', () => {
  it('is a time from a second to an hour', () => {
    const time = (text: string) => balanced({ 'slicewire.dev/slow-start': text }).value?.slowStart;
    assert.deepEqual(['1s', '1m30s', '1h', '999ms', '1h1s', '-60s', '60'].map(time), [
      ...[1000, 90_000, 3_600_000],
      ...[undefined, undefined, undefined, undefined],
    ]);
  });
});

describe('the limits of a Service', () => {
  const limits = (annotations: Record<string, string>) => {
    const prefixed = Object.entries(annotations).map(([name, text]) => [`slicewire.dev/${name}`, text]);
    return balanced(Object.fromEntries(prefixed));
  };

  it('are a rate with a burst, and numbers of open connections, in the order in which a connection meets them', () => {
    const { value, texts } = limits({
      'max-connections': '10000',
      'new-connections': '100/s burst 200',
      'max-connections-per-client': '20',
    });
    assert.deepEqual(value?.limits, [
      { name: 'new-connections', most: 100, burst: 200 },
      { name: 'max-connections-per-client', most: 20, burst: 0 },
      { name: 'max-connections', most: 10_000, burst: 0 },
    ]);
    assert.deepEqual(texts, []);
    assert.deepEqual(limits({ 'new-connections': ' 7/s ' }).value?.limits, [
      { name: 'new-connections', most: 7, burst: 7 },
    ]);
    assert.equal(limits({}).value?.limits, undefined);
  });

  for (const text of ['', '0', '-1', '1.5', '1e3', '0x10', '10001', '100/s', 'many'])
    it(`of open connections that is wrong is set aside alone: ${text}`, () => {
      const { value, texts } = limits({ 'max-connections': text, 'new-connections': '5/s' });
      assert.deepEqual(value?.limits, [{ name: 'new-connections', most: 5, burst: 5 }]);
      const field = 'Service default/web: metadata.annotations["slicewire.dev/max-connections"]';
      const problem = 'must be a whole number from 1 to 10000; the limit is not applied (default used)';
      assert.deepEqual(texts, [`${field}: ${text === '' ? '' : `${text}: `}${problem}`]);
    });

  for (const text of ['100', '100/m', '0/s', '100001/s', '5/s burst 0', '5/s burst 100001', '5/s burst', '5 /s'])
    it(`of new connections that is wrong is set aside: ${text}`, () => {
      const { value, texts } = limits({ 'new-connections': text });
      assert.equal(value?.limits, undefined);
      assert.match(
        texts.join(),
        /new-connections"\]: .*: must be new connections a second, such as 100\/s or 100\/s burst 200/,
      );
    });
});
