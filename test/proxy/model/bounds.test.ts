/** The cost of one Service for the model, whatever its owner writes into it, its slices and their hints. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { MAX_PAIRS, mergeSlices } from '../../../src/proxy/model/endpoints.ts';
import { FaultBook } from '../../../src/proxy/model/fault-book.ts';
import { type Endpoint, type Fault, MAX_FAULTS, type Service, type Slice } from '../../../src/proxy/model/objects.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import { serviceModel } from '../../helpers/proxy/model/service-model.ts';

const HERE = { nodeName: 'node', zone: 'here' };

function endpoint(i: number, more: Partial<Endpoint> = {}): Endpoint {
  return {
    address: `10.${1 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}` as Address,
    ...{ nodeName: 'node', zone: 'here', ready: true, serving: true, terminating: false, nodeHints: [], zoneHints: [] },
    ...more,
  };
}

const ports = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `p${i}`, protocol: 'TCP' as const, port: 1 + i, nodePort: 0 }));

function slice(key: string, endpoints: readonly Endpoint[], count: number): Slice {
  return { key, service: 's/web', family: 'IPv4', ports: ports(count), endpoints };
}

function updated(model: ProxyModel, services: readonly Service[], slices: readonly Slice[] = []) {
  const service = (key: string) => services.find((one) => one.key === key);
  const slicesOf = (key: string) => slices.filter((one) => one.service === key);
  return model.update(
    services.map(({ key }) => key),
    { service, slicesOf },
    HERE,
  );
}

describe('one Service', () => {
  it('has a bounded number of faults, the last of which counts the others', () => {
    const externalIPs = Array.from({ length: 60 }, (_, i) => `192.0.2.${i + 1}` as Address);
    const of = (name: string, createdAt: number, ip: string) =>
      serviceModel(`s/${name}`, { createdAt, clusterIPs: [ip as Address], externalIPs, ports: ports(20) });
    const { faults } = updated(new ProxyModel(HERE), [of('old', 1, '10.0.0.1'), of('young', 2, '10.0.0.2')]);
    const found = faults.get('s/young') ?? [];
    assert.equal(found.length, MAX_FAULTS);
    const last = found.at(-1);
    assert.deepEqual(
      [last?.problem, last?.effect],
      [`${60 * 20 - MAX_FAULTS + 1} more of its fields cannot be used`, 'part left out'],
    );
  });

  it('costs nothing for ports of its slices that it has not', () => {
    let reads = 0;
    const counted = Array.from({ length: 3 }, (_, i) => {
      const { address, ...rest } = endpoint(i);
      return {
        ...rest,
        get address() {
          reads += 1;
          return address;
        },
      };
    });
    assert.deepEqual(
      [...mergeSlices([slice('s/web-1', counted, 100)], 'IPv4', new Set(['p7/TCP'])).keys()],
      ['p7/TCP'],
    );
    assert.equal(reads, 3);
  });

  it('uses endpoints of as many slices as are within the limit of pairs, in the order of their names, and says so', () => {
    const model = new ProxyModel(HERE);
    const web = serviceModel('s/web', { ports: ports(1000) });
    const all = Array.from({ length: 500 }, (_, i) => endpoint(i));
    const slices = ['s/web-3', 's/web-1', 's/web-2'].map((key, i) =>
      slice(
        key,
        all.map((one, n) => ({ ...one, ...endpoint(n + 1000 * i) })),
        1000,
      ),
    );
    assert.equal(2 * 500 * 1000, MAX_PAIRS);
    const { faults } = updated(model, [web], slices);
    assert.deepEqual(
      faults.get('s/web')?.map(({ field, value, problem }) => `${field}: ${value}: ${problem}`),
      [
        'spec.ports: 1000 ports: with the endpoints of all EndpointSlices they make 1500000 pairs; 1000000 is the limit, and the last 1 EndpointSlices by name are left out',
      ],
    );
    const [first] = model.portsOf('s/web');
    assert.equal(first?.cluster.length, 1000);
    assert.ok(first?.cluster.every(({ address }) => !address.startsWith(endpoint(0).address)));
    assert.deepEqual(updated(model, [web], slices.slice(1)).faults.get('s/web'), []);
  });

  it('has few zones of hints that do not apply in its ports and faults', () => {
    const model = new ProxyModel(HERE);
    const zoneHints = Array.from({ length: 300 }, (_, i) => `zone-${String(i).padStart(3, '0')}-${'z'.repeat(50)}`);
    const { faults } = updated(
      model,
      [serviceModel('s/web')],
      [{ ...slice('s/web-1', [endpoint(1, { zoneHints })], 0), ports: [{ name: '', protocol: 'TCP', port: 80 }] }],
    );
    const [fault] = faults.get('s/web') ?? [];
    assert.match(fault?.value ?? '', /^zone-000-z+,.*zone-009-z+ and 290 more$/);
    const [port] = model.portsOf('s/web');
    assert.equal(port?.idleHints?.zones, fault?.value);
  });
});

describe('the book of faults', () => {
  it('tells which are new at a cost that follows their number', () => {
    const book = new FaultBook();
    let reads = 0;
    const faults = (first: number): Fault[] =>
      Array.from({ length: 100 }, (_, i) => ({
        ...{ kind: 'Service', object: 's/web', field: 'spec', value: `${first + i}`, effect: 'part left out' },
        get problem() {
          reads += 1;
          return 'taken';
        },
      }));
    assert.equal(book.set('s/web', faults(0)).length, 100);
    assert.deepEqual(
      book.set('s/web', faults(1)).map(({ value }) => value),
      ['100'],
    );
    assert.equal(reads, 200);
  });
});
