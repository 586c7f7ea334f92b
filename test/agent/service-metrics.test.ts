/** The metrics of Services as text: labels, reasons, a bound on the series, and looks at the counters that are not too many. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as pause } from 'node:timers/promises';
import { type MeasuredAgent, ServiceMetrics } from '../../src/agent/service-metrics.ts';
import { createMutex } from '../../src/base/mutex.ts';
import { Cache } from '../../src/cluster/cache/cache.ts';
import { ProxyModel } from '../../src/proxy/model/proxy-model.ts';
import type { ConnectionCount } from '../../src/proxy/modes/mode.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { eventOf, NEVER } from '../helpers/proxy/rig.ts';

const WEB = service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ name: 'http', port: 80 }] } });
const DNS = service({ name: 'dns', spec: { clusterIP: '10.96.0.53', ports: [{ port: 53, protocol: 'UDP' }] } });
const PORTS = [{ name: 'http', port: 8080 }];
const unready = (address: string) => ({ addresses: [address], conditions: { ready: false } });
const SLICES = [
  slice({
    name: 'web-1',
    service: 'web',
    ports: PORTS,
    endpoints: ['10.244.1.1', '10.244.1.2', unready('10.244.1.3')],
  }),
  slice({ name: 'web-2', service: 'web', ports: PORTS, endpoints: ['fd00::1'] }),
  slice({ name: 'web-3', service: 'web', ports: PORTS, endpoints: ['10.244.1.4', 'nowhere'], addressType: 'IPv4' }),
];

type Answer = ConnectionCount[] | Error;

function rig(maxSeries?: number) {
  const [clock, between] = [new FakeClock(), createMutex()];
  const [warned, cache, model] = [[] as string[], new Cache(), new ProxyModel({ nodeName: 'node', zone: '' })];
  const kernel = { counts: [] as Answer, looks: 0, takes: 0 };
  const log = { warn: (_: unknown, text = '') => void warned.push(text) };
  const metrics = new ServiceMetrics({
    ...{ log: log as never, signal: NEVER, clock },
    ...(maxSeries === undefined ? {} : { maxSeries }),
  });
  const agent = (): MeasuredAgent => ({
    mode: {
      ...{ name: 'iptables', isObserved: true },
      metrics: {
        connectionCounts({ between }) {
          kernel.looks += 1;
          return between(async () => {
            clock.advance(kernel.takes);
            if (kernel.counts instanceof Error) throw kernel.counts;
            return kernel.counts;
          });
        },
      },
    },
    kernelLock: { between },
    ...{ feed: { cache }, model },
  });
  metrics.use(agent(), { serviceMetrics: true });
  const put = (...objects: readonly object[]) => {
    for (const object of objects) cache.take(eventOf(object));
    const services = cache.takeChanges();
    metrics.update(model.update(services, cache, model.location).ports);
  };
  const lines = async () => (await metrics.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return { clock, between, warned, kernel, metrics, put, lines, agent };
}

const count = (connections: number, more: Partial<ConnectionCount> = {}): ConnectionCount => ({
  ...{ service: 'default/web', family: 'IPv4', address: '10.96.0.10' as ConnectionCount['address'] },
  ...{ protocol: 'TCP', port: 80, count: connections },
  ...more,
});

describe('metrics of Services', () => {
  it('have the connections and bytes of each port, and its endpoints by reason', async () => {
    const { kernel, put, lines, metrics } = rig();
    put(WEB, DNS, ...SLICES);
    kernel.counts = [count(7, { bytes: { in: 70, out: 700 } })];
    const [web, dns] = [
      'service="default/web",port="http",protocol="TCP",ip_family="IPv4"',
      'service="default/dns",port="53",protocol="UDP",ip_family="IPv4"',
    ];
    const endpoints = (of: string, state: string, reason: string, number: number) =>
      `slicewire_service_endpoints{${of},policy="Cluster",state="${state}",reason="${reason}"} ${number}`;
    assert.deepEqual((await lines()).sort(), [
      `slicewire_service_bytes_total{${web},direction="in"} 70`,
      `slicewire_service_bytes_total{${web},direction="out"} 700`,
      `slicewire_service_connections_total{${dns}} 0`,
      `slicewire_service_connections_total{${web}} 7`,
      endpoints(dns, 'used', 'ready', 0),
      endpoints(web, 'not used', 'not-ready', 1),
      endpoints(web, 'not used', 'other-family', 1),
      endpoints(web, 'used', 'ready', 3),
      'slicewire_service_endpoints{service="default/web",state="not used",reason="set-aside"} 1',
      'slicewire_service_series{state="left out"} 0',
      'slicewire_service_series{state="served"} 9',
    ]);
    assert.match(await metrics.text(), /^# TYPE slicewire_service_connections_total counter$/m);
  });

  it('have endpoints of another family at each port of the Service', async () => {
    const { put, lines } = rig();
    const ports = [
      { name: 'http', port: 80 },
      { name: 'https', port: 443 },
    ];
    put(service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports } }), ...SLICES.slice(1, 2));
    const others = (await lines()).filter((line) => line.includes('other-family'));
    assert.deepEqual(
      others.map((line) => /port="(\w+)"/.exec(line)?.[1]),
      ['http', 'https'],
    );
  });

  it('follow the slices, also where what is served stays the same', async () => {
    const { put, lines } = rig();
    put(WEB, ...SLICES.slice(0, 1));
    const notReady = async () => (await lines()).find((line) => line.includes('not-ready'))?.at(-1);
    assert.equal(await notReady(), '1');
    const endpoints = ['10.244.1.1', '10.244.1.2', unready('10.244.1.3'), unready('10.244.1.4')];
    put(slice({ name: 'web-1', service: 'web', ports: PORTS, endpoints }));
    assert.equal(await notReady(), '2');
  });

  it('are off unless they are asked for, and after a reload that leaves the flag out', async () => {
    const { put, lines, metrics, agent, kernel } = rig();
    put(WEB);
    assert.ok((await lines()).length > 0);
    metrics.use(agent(), { serviceMetrics: false });
    assert.deepEqual(await lines(), []);
    assert.equal(await metrics.trafficOf('default/web'), undefined);
    assert.equal(kernel.looks, 1);
  });

  it('look at the counters for a hundredth of the time at most, once for all who ask', async () => {
    const { clock, kernel, put, lines } = rig();
    put(WEB);
    kernel.takes = 300;
    await Promise.all([lines(), lines()]);
    assert.equal(kernel.looks, 1);
    clock.advance(29_000);
    await lines();
    assert.equal(kernel.looks, 1);
    clock.advance(1000);
    await lines();
    assert.equal(kernel.looks, 2);
  });

  it('do not wait for a long sync: they have the last values, and its time is no time of the look', async () => {
    const { clock, between, kernel, put, lines } = rig();
    put(WEB);
    const connections = async () => (await lines()).find((line) => line.includes('connections_total'))?.at(-1);
    kernel.counts = [count(7)];
    assert.equal(await connections(), '7');
    clock.advance(1000);
    kernel.counts = [count(8)];
    const { promise, resolve } = Promise.withResolvers<void>();
    const sync = between(() => promise);
    const during = connections();
    await pause();
    clock.advance(2000);
    assert.equal(await during, '7');
    clock.advance(58_000);
    resolve();
    await sync;
    await pause();
    clock.advance(1000);
    kernel.counts = [count(9)];
    assert.equal(await connections(), '9');
  });

  it('keep their values while the counters cannot be read, and warn once of each cause', async () => {
    const { clock, kernel, put, metrics, warned } = rig();
    put(WEB);
    kernel.counts = [count(7)];
    await metrics.text();
    for (const cause of ['no memory', 'no memory', 'no socket']) {
      kernel.counts = new Error(cause);
      clock.advance(1000);
      await metrics.text();
    }
    assert.equal((await metrics.trafficOf('default/web'))?.[0]?.connections, 7);
    assert.deepEqual(warned, [
      'connections to Services cannot be counted: no memory; the metrics of Services keep their last values',
      'connections to Services cannot be counted: no socket; the metrics of Services keep their last values',
    ]);
  });

  it('have no connections before the counters were read: 0 would look like a counter that begins anew', async () => {
    const { clock, kernel, put, lines, metrics } = rig();
    put(WEB);
    const connections = async () =>
      (await lines()).filter((line) => line.includes('connections_total')).map((line) => line.at(-1));
    kernel.counts = new Error('no memory');
    assert.deepEqual(await connections(), []);
    assert.equal(await metrics.trafficOf('default/web'), undefined);
    clock.advance(1000);
    // The kernel could not be read while we wrote.
    kernel.counts = [];
    assert.deepEqual(await connections(), []);
    clock.advance(1000);
    kernel.counts = [count(7)];
    assert.deepEqual(await connections(), ['7']);
    put(DNS);
    assert.deepEqual(await connections(), ['7', '0'], 'a Service that is new has none');
  });

  it('are written once for all who ask at the same time', async () => {
    const { put, metrics } = rig();
    put(WEB);
    const [first, second] = [metrics.text(), metrics.text()];
    assert.equal(first, second);
    assert.match(await first, /service_endpoints/);
    assert.notEqual(metrics.text(), first);
  });

  it('beyond the bound are left out Service by Service, and their number is told', async () => {
    const { put, lines, warned, metrics, kernel } = rig(3);
    kernel.counts = [count(1)];
    put(WEB, DNS);
    const [text] = [await lines(), await metrics.text()];
    assert.deepEqual(text.filter((line) => line.startsWith('slicewire_service_connections')).length, 1);
    assert.ok(text.includes('slicewire_service_series{state="left out"} 2'), text.join('\n'));
    assert.deepEqual(warned, [
      'the metrics of Services have 4 series, and 2 of them are left out: at most 3 are served',
    ]);
  });
});
