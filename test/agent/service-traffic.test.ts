/** Connections of Services as totals: they only grow, whatever becomes of the kernel's counters and of the agent's generation. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ServiceTraffic } from '../../src/agent/service-traffic.ts';
import type { Address } from '../../src/base/address.ts';
import type { Frontend, ServicePort } from '../../src/proxy/model/service-port.ts';
import type { ConnectionCount } from '../../src/proxy/modes/mode.ts';

const address = (text: string) => text as Address;
const IP = address('10.96.0.10');

function port(frontends: readonly Partial<Frontend>[], changes: Partial<ServicePort> = {}): ServicePort {
  return {
    key: 'a/web:http/TCP/IPv4',
    id: 'a/web:http',
    service: 'a/web',
    family: 'IPv4',
    protocol: 'TCP',
    frontends: frontends.map((one) => ({
      role: one.address === undefined ? 'node-port' : 'cluster-ip',
      address: undefined,
      port: 80,
      policy: 'Cluster',
      empty: undefined,
      ...one,
    })),
    ...{ cluster: [], local: [], hasAny: true, internalPolicy: 'Cluster', externalPolicy: 'Cluster' },
    ...{ affinitySeconds: 0, sourceRanges: undefined, healthCheckNodePort: 0, readyLocal: [] },
    ...{ flowTargets: undefined, alsoAnswering: [], idleHints: undefined },
    ...changes,
  };
}

const WEB = port([{ address: IP }, { port: 30_080 }]);

function count(more: Partial<ConnectionCount>): ConnectionCount {
  return { service: 'a/web', family: 'IPv4', address: IP, protocol: 'TCP', port: 80, count: 0, ...more };
}

function traffic(...ports: readonly ServicePort[]): ServiceTraffic {
  const made = new ServiceTraffic();
  made.update(new Map(ports.map((one) => [one.key, one])));
  return made;
}

const totals = (of: ServiceTraffic, service = 'a/web') =>
  of.of(service).flatMap(({ frontends }) => frontends.map(({ connections }) => connections));

describe('connections of Services', () => {
  it('grow by the counts of the kernel, over counters that began anew and frontends that are missing', () => {
    const web = traffic(WEB);
    web.take([count({ count: 5 }), count({ address: undefined, port: 30_080, count: 2 })]);
    assert.deepEqual(totals(web), [5, 2], 'what was counted before the agent began');
    web.take([count({ count: 8 })]);
    assert.deepEqual(totals(web), [8, 2]);
    web.take([count({ count: 1 }), count({ address: undefined, port: 30_080, count: 2 })]);
    assert.deepEqual(totals(web), [9, 2]);
  });

  it('add the counters that a virtual server and a rule have for one frontend, each with a beginning of its own', () => {
    const web = traffic(WEB);
    web.take([count({ count: 5, isBesideServer: true }), count({ count: 3 })]);
    web.take([count({ count: 6, isBesideServer: true }), count({ count: 1 })]);
    assert.deepEqual(totals(web), [10, 0]);
    web.take([count({ count: 7, isBesideServer: true, hasEnded: true }), count({ count: 1 })]);
    web.take([count({ count: 2 })]);
    assert.deepEqual(totals(web), [12, 0]);
  });

  it('take the last count of a counter that was removed, and the first one of the next, in one reading', () => {
    const web = traffic(WEB);
    web.take([count({ count: 5 })]);
    web.take([count({ count: 7, hasEnded: true }), count({ count: 9 })]);
    assert.deepEqual(totals(web), [16, 0]);
    web.take([count({ count: 10 })]);
    assert.deepEqual(totals(web), [17, 0]);
  });

  it('of a node port are the sum over the addresses of the node, of which one may go', () => {
    const web = traffic(WEB);
    const at = (to: string, connections: number, bytes: number) =>
      count({ address: address(to), port: 30_080, count: connections, bytes: { in: bytes, out: 2 * bytes } });
    web.take([at('192.0.2.1', 3, 30), at('192.0.2.2', 4, 40)]);
    web.take([at('192.0.2.1', 5, 50)]);
    assert.deepEqual(totals(web), [0, 9]);
    assert.deepEqual(web.of('a/web')[0]?.frontends[1]?.bytes, { in: 90, out: 180 });
    // The server is made anew.
    web.take([at('192.0.2.1', 1, 60)]);
    assert.deepEqual(web.of('a/web')[0]?.frontends[1]?.bytes, { in: 150, out: 300 });
  });

  it('stay when the endpoints change, and end with the frontend, the port or the Service', () => {
    const web = traffic(WEB);
    web.take([count({ count: 5 }), count({ address: undefined, port: 30_080, count: 2 })]);
    web.update(new Map([[WEB.key, port([{ address: IP, empty: 'reject' }])]]));
    assert.deepEqual(totals(web), [5]);
    web.update(new Map([[WEB.key, undefined]]));
    assert.deepEqual([...web.ports], []);
    web.take([count({ count: 9 })]);
    assert.deepEqual([...web.ports], [], 'a Service that is not there any more');
  });

  it('stay over a new generation of the agent, which reports all of its ports and those that are gone', () => {
    const other = port([{ address: address('10.96.0.11') }], {
      key: 'a/other/TCP/IPv4',
      id: 'a/other',
      service: 'a/other',
    });
    const both = traffic(WEB, other);
    both.take([count({ count: 5 })]);
    both.update(new Map([[WEB.key, WEB]]));
    both.update(new Map([[other.key, undefined]]));
    assert.deepEqual(
      [...both.ports].flat().map(({ key }) => key),
      [WEB.key],
    );
    both.take([count({ count: 6 })]);
    assert.deepEqual(totals(both), [6, 0]);
    // Another mode counts by other counters.
    both.begin();
    both.take([count({ count: 7 })]);
    assert.deepEqual(totals(both), [13, 0]);
  });

  it('have the name of the port, or its number', () => {
    const names = (id: string) => traffic(port([{ address: IP }], { id, key: `${id}/TCP/IPv4` })).of('a/web')[0];
    assert.deepEqual([names('a/web:http')?.name, names('a/web:http')?.portName], ['http', 'http']);
    assert.deepEqual([names('a/web')?.name, names('a/web')?.portName], ['80', '']);
  });
});
