/** The controllers against an API server: ends right whatever happens between the two, and writes nothing twice. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointsObject } from '../../src/cluster/producers/api-objects.ts';
import { aWhile, until } from '../helpers/base/until.ts';
import { address, ControllerRig } from './rig.ts';

const many = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Kinds of objects that are watched. */
const KINDS = 5;

describe('the controllers', () => {
  it('write slices and Endpoints of a Service, and what changes of them', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    rig.pod('web', 2, { ready: false });
    await rig.start();
    await until('slices', () => rig.ready('web').length === 1);
    assert.equal(rig.slices('web').length, 1);
    assert.deepEqual(rig.ready('web'), [address(1)]);
    assert.equal(rig.slices('web')[0]?.endpoints.length, 2);
    rig.pod('web', 2);
    await until('the other is ready', () => rig.ready('web').length === 2);
    const [endpoints] = rig.server.objects('Endpoints') as unknown as EndpointsObject[];
    await until('Endpoints', () => rig.server.objects('Endpoints').length === 1);
    assert.equal(endpoints?.metadata.name, 'web');
    rig.server.delete('Pod', 'default/web-1');
    await until('one is gone', () => rig.ready('web').length === 1);
    await aWhile();
    assert.equal(rig.writes.length, 3, 'a write for each change, and none for what they wrote themselves');
  });

  it('mirror Endpoints that a person wrote, and follow them', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.service('outside', { selector: undefined });
    const outside = (ips: readonly string[]) => ({
      kind: 'Endpoints',
      metadata: { name: 'outside', namespace: 'default' },
      subsets: [{ addresses: ips.map((ip) => ({ ip })), ports: [{ port: 80, protocol: 'TCP' }] }],
    });
    rig.server.put(outside(['192.168.4.100', '192.168.4.254']));
    await rig.start();
    await until('the slice', () => rig.ready('outside').length === 2);
    rig.server.put(outside(['192.168.4.254']));
    await until('one server', () => rig.ready('outside').length === 1);
    rig.service('outside', { selector: { app: 'outside' } });
    await until('no mirrored slice', () => rig.slices('outside').every(({ endpoints }) => endpoints.length === 0));
    assert.deepEqual(
      rig.slices('outside').map(({ metadata }) => metadata.labels?.['endpointslice.kubernetes.io/managed-by']),
      ['endpointslice-controller.k8s.io'],
    );
  });

  it('remove what they wrote for a Service that is gone', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    await rig.start();
    await until('both', () => rig.slices('web').length === 1 && rig.server.objects('Endpoints').length === 1);
    rig.server.delete('Service', 'default/web');
    await until(
      'nothing is left',
      () => rig.slices('web').length === 0 && rig.server.objects('Endpoints').length === 0,
    );
  });

  it('remove Endpoints whose last change had no time', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    rig.pod('web', 2);
    await rig.start({ controllers: 'endpoints-controller' });
    const addresses = () => {
      const [endpoints] = rig.server.objects('Endpoints') as unknown as EndpointsObject[];
      return endpoints?.subsets.flatMap((subset) => subset.addresses ?? []) ?? [];
    };
    await until('both', () => addresses().length === 2);
    rig.server.delete('Pod', 'default/web-1');
    await until('one', () => addresses().length === 1);
    rig.server.delete('Service', 'default/web');
    await until('nothing is left', () => rig.server.objects('Endpoints').length === 0);
  });

  it('Endpoints that another program deleted are restored', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    await rig.start({ controllers: 'endpoints-controller' });
    await until('Endpoints', () => rig.server.objects('Endpoints').length === 1);
    const uid = () => rig.server.objects('Endpoints')[0]?.metadata.uid;
    const first = uid();
    rig.server.delete('Endpoints', 'default/web');
    await until('others', () => ![first, undefined].includes(uid()));
  });

  it('changes of Pods within the batch period are one write', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    const period = '1s';
    await rig.start({ endpointsliceUpdatesBatchPeriod: period, endpointUpdatesBatchPeriod: period });
    const writesOf = (kind: string) =>
      rig.server.requests({ kind: 'write' }).filter(({ path }) => path.split('/').includes(kind)).length;
    await until('both', () => writesOf('endpointslices') === 1 && writesOf('endpoints') === 1);
    for (const n of many(3)) rig.pod('web', n);
    await until('the Pods are endpoints', () => rig.ready('web').length === 3 && writesOf('endpoints') === 2);
    assert.deepEqual([writesOf('endpointslices'), writesOf('endpoints')], [2, 2]);
  });

  it('slices of other managers, and of none, are left alone', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    const manager = 'endpointslice.kubernetes.io/managed-by';
    for (const [name, by] of Object.entries({ theirs: { [manager]: 'somebody' }, nobodys: {} }))
      rig.server.put({
        kind: 'EndpointSlice',
        metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': 'web', ...by } },
        ...{ addressType: 'IPv4', ports: [], endpoints: [] },
      });
    const foreign = () => rig.slices('web').filter(({ metadata: { name } }) => name === 'theirs' || name === 'nobodys');
    const before = foreign();
    await rig.start();
    await until('the Pod is an endpoint', () => rig.ready('web').length === 1);
    rig.pod('web', 2);
    await until('so is the next one', () => rig.ready('web').length === 2);
    assert.equal(before.length, 2);
    assert.deepEqual(foreign(), before);
    assert.equal(rig.slices('web').length, 3);
  });

  it('a slice that another program changed or deleted is restored', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    await rig.start();
    await until('a slice', () => rig.ready('web').length === 1);
    const [slice] = rig.slices('web');
    rig.server.put({ ...slice, endpoints: [] });
    await until('its endpoint is back', () => rig.ready('web').length === 1);
    rig.server.delete('EndpointSlice', `default/${slice?.metadata.name}`);
    await until('it is back', () => rig.ready('web').length === 1);
  });

  it('a conflict is retried on the new state, and keeps the other program’s fields', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    await rig.start({ controllers: 'endpointslice-controller' });
    await until('a slice', () => rig.ready('web').length === 1);
    const [slice] = rig.slices('web');
    const metadata = { ...slice?.metadata, annotations: { 'example.com/note': 'mine' } };
    rig.server.trapWrite({ before: () => rig.server.put({ ...slice, metadata }) });
    rig.pod('web', 2);
    await until('both', () => rig.ready('web').length === 2);
    assert.equal(rig.slices('web')[0]?.metadata.annotations?.['example.com/note'], 'mine');
    assert.equal(rig.slices('web').length, 1);
  });

  it('a create of which the answer is lost leads to one slice', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    rig.server.trapWrite({ losesAnswer: true, tellsLate: 1500 });
    await rig.start({ controllers: 'endpointslice-controller' });
    await until('the slice', () => rig.slices('web').length === 1);
    rig.pod('web', 2);
    await until('both are in it', () => rig.ready('web').length === 2);
    await aWhile();
    assert.equal(rig.slices('web').length, 1);
  });

  it('nothing is done on the strength of a cache that is behind', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    for (const n of many(3)) rig.pod('web', n);
    await rig.start({ controllers: 'endpointslice-controller' });
    // A watch that is opened later receives earlier writes at once.
    await until('all is watched', () => rig.server.watches === KINDS);
    rig.server.trapWrite({ tellsLate: 800 });
    rig.service('web');
    await until('the slice is there', () => rig.slices('web').length === 1);
    // The watch does not tell of it yet: who believed the cache would write another one.
    rig.pod('web', 3);
    await aWhile();
    assert.equal(rig.writes.length, 1);
    await until('all four', () => rig.ready('web').length === 4);
    assert.deepEqual([rig.slices('web').length, rig.writes.length], [1, 2]);
  });

  it('go on after lost watches, 410 and a server that was away', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 0);
    await rig.start();
    await until('one', () => rig.ready('web').length === 1);
    rig.server.closeWatches();
    rig.pod('web', 1);
    await until('two, after watches ended', () => rig.ready('web').length === 2);
    rig.server.closeWatches();
    rig.pod('web', 2);
    rig.server.delete('Pod', 'default/web-0');
    rig.server.compact();
    await until('a new list', () => rig.ready('web').join() === [address(1), address(2)].join());
    rig.server.failNext(3, 503);
    rig.server.cutConnections();
    rig.pod('web', 3);
    await until('three, after the server was away', () => rig.ready('web').length === 3);
    assert.equal(rig.slices('web').length, 1);
  });

  it('a Pod whose Node is not known waits for it, and the others do not', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    rig.pod('web', 2, { node: 'node-b' });
    await rig.start();
    await until('one', () => rig.ready('web').length === 1);
    await until('an event', () => rig.server.events.length > 0);
    assert.match(String(rig.server.events[0]?.note), /skipping Pod default\/web-2: there is no Node node-b/);
    rig.node('node-b', 'zone-2');
    await until('both', () => rig.ready('web').length === 2);
    const zones = rig.slices('web').flatMap(({ endpoints }) => endpoints.map(({ zone }) => zone));
    assert.deepEqual(zones.sort(), ['zone-1', 'zone-2']);
  });

  it('Pods of a Service whose Node is not known have one line of the log, and one when they are written', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 30);
    for (const n of many(4)) rig.pod('web', n, { node: 'node-b' });
    await rig.start({ controllers: 'endpointslice-controller' });
    const said = (words: string) => rig.log.filter(({ msg }) => msg.includes(words)).map(({ level }) => level);
    await until('a line', () => said('there is no Node').length > 0);
    // Each change of the Service is a try, and each names another Pod first.
    for (const n of many(12)) {
      rig.server.delete('Pod', `default/web-${n}`);
      rig.pod('web', n + 40, { node: 'node-b' });
      rig.service('web', { ports: [{ port: 80, targetPort: 8081 + n, protocol: 'TCP' }] });
      await until('it is written', () => rig.slices('web').some(({ ports }) => ports?.[0]?.port === 8081 + n));
    }
    assert.deepEqual(said('there is no Node node-b; trying again'), ['warn']);
    // Changes count as tries: after 16 of them none is made by itself.
    assert.ok(said('there is no Node node-b; no more tries').length <= 1, JSON.stringify(rig.log));
    rig.node('node-b');
    await until('all', () => rig.ready('web').length > 1);
    await until('its end', () => said('done, after').length === 1);
    assert.deepEqual(said('done, after'), ['info']);
    assert.match(rig.log.at(-1)?.msg ?? '', /^Service default\/web: done, after \d+ tries that failed$/);
  });

  it('many Services that fail alike are twenty lines and one with the number of the others', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    for (const n of many(60)) {
      rig.service(`web-${n}`, { clusterIP: `10.96.1.${n + 1}` });
      rig.pod(`web-${n}`, n, { node: 'node-b' });
    }
    await rig.start({ controllers: 'endpointslice-controller' });
    const counted = () => rig.log.filter(({ msg }) => msg.includes('of this kind not logged one by one'));
    await until('the number', () => counted().length === 1);
    assert.match(counted()[0]?.msg ?? '', /^slices: NODE_MISSING: 40 more lines of this kind /);
    assert.equal(rig.log.filter(({ msg }) => msg.includes('there is no Node')).length, 20);
  });

  it('a namespace that goes away is left alone', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    rig.server.leaving.add('default');
    await rig.start();
    await until('a try', () => rig.writes.length > 0);
    await aWhile(1500);
    assert.equal(rig.writes.length, 1);
    assert.equal(rig.server.events.length, 0);
  });

  it('started on a correct state they write nothing', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    for (const name of ['web', 'shop', 'idle']) rig.service(name);
    for (const n of many(5)) rig.pod(n % 2 === 0 ? 'web' : 'shop', n);
    const first = await rig.start();
    await until('all', () => rig.slices().length === 3 && rig.server.objects('Endpoints').length === 3);
    await first.stop();
    const before = rig.server.requests({ kind: 'write' }).length;
    await rig.start();
    await until('it follows', () => rig.server.watches === 5);
    rig.pod('idle', 9);
    await until('it works', () => rig.ready('idle').length === 1);
    await until('Endpoints', () => rig.server.requests({ kind: 'write' }).length === before + 2);
    await aWhile();
    assert.equal(rig.server.requests({ kind: 'write' }).length, before + 2);
  });
});
