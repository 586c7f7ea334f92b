import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { historyOf } from '../../../src/inspect/history/history.ts';
import { BeforeHistory, objectsAt, writtenState } from '../../../src/inspect/history/past.ts';
import { ObjectStore, type PresentObjects } from '../../../src/inspect/history/past-objects.ts';
import { Recorder } from '../../../src/inspect/history/recorder.ts';
import { historySchema } from '../../../src/inspect/wire/history.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { aStep } from '../../helpers/cluster/histories.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { RecordedRig } from './recorded-rig.ts';

/** All objects, to compare. */
function contents(objects: PresentObjects): object {
  const byKey = (a: { key: string }, b: { key: string }) => (a.key < b.key ? -1 : 1);
  return {
    services: [...objects.services()].sort(byKey),
    slices: [...objects.slices.all()].sort(byKey),
    node: objects.node,
  };
}

/** A Service with an address of its own. */
function web(name: string, port = 80): object {
  const host = [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 60_000, 7);
  const clusterIP = `10.96.${host >> 8}.${host & 255}`;
  return service({
    name,
    spec: { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port }] },
  });
}

const endpoints = (...hosts: readonly number[]) => hosts.map((host) => ({ addresses: [`10.244.1.${host}`] }));

describe('the flight recorder', () => {
  it('names what changed, when it was received and when the kernel had it', async () => {
    const it = new RecordedRig();
    it.put(
      web('web'),
      slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1, 2) }),
    );
    await it.sync('start');
    it.clock.advance(1000);
    const received = it.clock.wall();
    const changed = slice({
      name: 'web-1',
      service: 'web',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: endpoints(1, 2, 3),
    }) as { metadata: object };
    it.put({ ...changed, metadata: { ...changed.metadata, resourceVersion: '77' } });
    it.clock.advance(5);
    await it.sync('changes', 20);
    const { changes, syncs, ...answer } = await historyOf(it.recorder, { service: 'default/web' });
    const [change] = changes;
    assert.deepEqual(change, {
      number: 2,
      at: new Date(received).toISOString(),
      object: 'EndpointSlice default/web-1',
      service: 'default/web',
      resourceVersion: '77',
      what: ['1 endpoint added: 10.244.1.3:8080'],
      sync: 2,
      inKernelAt: new Date(received + 25).toISOString(),
      milliseconds: 25,
    });
    assert.deepEqual(
      syncs.map(({ number, trigger, changes, services }) => ({ number, trigger, changes, services })),
      [{ number: 2, trigger: 'changes', changes: 1, services: ['default/web'] }],
    );
    const by = { who: 'agent', mode: 'iptables', node: 'node', version: '1', at: new Date().toISOString() };
    historySchema.parse({ apiVersion: 'slicewire/v1', kind: 'History', by, changes, syncs, ...answer });
    const { changes: all } = await historyOf(it.recorder, {});
    assert.deepEqual(all[0]?.what, ['1 Service', '1 EndpointSlice']);
    assert.equal(it.recorder.statistics.latency(it.clock.wall())?.changes, 1);
    assert.equal(it.recorder.statistics.latency(it.clock.wall())?.most, 25);
  });

  it('a change during a sync belongs to the next one', async () => {
    const it = new RecordedRig();
    await it.sync('start');
    it.put(web('a'));
    await it.sync('changes', 10, () => it.put(web('b')));
    const before = await historyOf(it.recorder, {});
    assert.deepEqual(
      before.changes.map(({ object, sync }) => [object, sync]),
      [
        ['the initial lists', 1],
        ['Service default/a', 2],
        ['Service default/b', null],
      ],
    );
    await it.sync();
    assert.equal((await historyOf(it.recorder, { service: 'default/b' })).changes[0]?.sync, 3);
  });

  it('a refused Service is not in the kernel until the kernel takes it', async () => {
    let refuses = true;
    const it = new RecordedRig({ refuse: (line) => refuses && line.includes('default/bad') });
    await it.sync('start');
    it.put(web('bad'), web('good'));
    for (const name of ['bad', 'good'])
      it.put(
        slice({ name: `${name}-1`, service: name, ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1) }),
      );
    const report = await it.sync();
    assert.equal(report.outcome, 'partial');
    const written = writtenState(it.recorder);
    assert.deepEqual(
      [...written.written.services()].map(({ key }) => key),
      ['default/good'],
    );
    assert.deepEqual(
      written.pending.map(({ delta }) => delta.key),
      ['default/bad', 'default/bad-1'],
    );
    const changes = async (service: string) => (await historyOf(it.recorder, { service })).changes;
    assert.deepEqual(
      (await changes('default/good')).map(({ sync }) => sync),
      [2, 2],
    );
    assert.deepEqual(
      (await changes('default/bad')).map(({ sync }) => sync),
      [null, null],
    );
    const moment = it.clock.wall();
    assert.equal((await objectsAt(it.recorder, moment)).service('default/bad'), undefined);
    refuses = false;
    it.clock.advance(60_000);
    await it.sync('retry');
    assert.deepEqual(
      (await changes('default/bad')).map(({ sync }) => sync),
      [3, 3],
    );
    assert.equal((await objectsAt(it.recorder, moment)).service('default/bad'), undefined);
    assert.notEqual((await objectsAt(it.recorder, it.clock.wall())).service('default/bad'), undefined);
  });

  it('after a failed sync the changes belong to the sync that wrote them', async () => {
    let fails = false;
    const it = new RecordedRig();
    it.iptables.options = {
      intercept: ({ file }) =>
        fails && file.endsWith('-restore') ? { exitCode: 4, stdout: '', stderr: 'no memory' } : undefined,
    };
    await it.sync('start');
    it.put(web('a'));
    fails = true;
    assert.notEqual((await it.sync()).outcome, 'complete');
    fails = false;
    await it.sync('retry');
    const { changes, syncs } = await historyOf(it.recorder, { service: 'default/a' });
    assert.deepEqual(
      changes.map(({ sync }) => sync),
      [3],
    );
    assert.deepEqual(
      syncs.map(({ number }) => number),
      [3],
    );
    assert.match(it.recorder.statistics.lastSyncs[1]?.failed[0] ?? '', /no memory/);
  });

  it('tells what stood at a moment', async () => {
    const it = new RecordedRig();
    it.put(
      web('web'),
      slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1) }),
    );
    await it.sync('start');
    const moment = it.clock.wall();
    it.clock.advance(1000);
    it.put(
      slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(2) }),
    ).remove('services', 'default/web');
    await it.sync();
    const then = await historyOf(it.recorder, { service: 'default/web', at: moment });
    assert.deepEqual(
      then.stood.map(({ object, lines }) => [object, lines.at(-1)]),
      [
        ['Service default/web', 'port http 80/TCP'],
        ['EndpointSlice default/web-1', '10.244.1.1:8080 ready'],
      ],
    );
    const now = await historyOf(it.recorder, { service: 'default/web', at: it.clock.wall() });
    assert.deepEqual(now.stood[0]?.lines, ['it did not exist']);
    await assert.rejects(historyOf(it.recorder, { at: moment - 1 }), (error) => {
      assert.ok(error instanceof BeforeHistory);
      assert.match(error.message, /^history reaches back to 2026-11-21T00:00:00\.010Z; --record-dir keeps more of it$/);
      return true;
    });
  });

  it('lists the latest changes, and counts the older ones', async () => {
    const it = new RecordedRig();
    await it.sync('start');
    for (let port = 1; port <= 30; port++) {
      it.put(web('a', port), web('b', port));
    }
    await it.sync();
    const { changes, omitted } = await historyOf(it.recorder, { service: 'default/a', most: 10 });
    assert.deepEqual([changes.length, omitted], [10, 20]);
    assert.deepEqual(changes.at(-1)?.what, ['port http: 29/TCP → 30/TCP']);
  });

  it('without a change within the hour there is no latency', () => {
    assert.equal(new Recorder(new FakeClock()).statistics.latency(0), undefined);
  });
});

describe('the past, from the present and the changes since', () => {
  it('is what was in the kernel, whatever happened', async () => {
    const aMoment = fc.record({ step: aStep, isRefused: fc.boolean(), during: fc.option(aStep, { nil: undefined }) });
    await fc.assert(
      fc.asyncProperty(fc.array(aMoment, { minLength: 1, maxLength: 40 }), async (moments) => {
        let refused = false;
        const it = new RecordedRig({ refuse: (line) => refused && line.includes('default/a') });
        const take = (step: (typeof moments)[number]['step'] | undefined) => {
          if (step?.kind === 'put') it.put(step.object);
          else if (step?.kind === 'zone') it.put(nodeOf(step.zone));
          else if (step?.kind === 'remove') {
            const [kind = '', key = ''] = step.id.split(' ');
            it.remove(kind === 'Service' ? 'services' : 'slices', key);
          }
        };
        const seen: { at: number; contents: object }[] = [];
        await it.sync('start');
        seen.push({ at: it.clock.wall(), contents: contents(it.rig.cache) });
        for (const { step, isRefused, during } of moments) {
          refused = isRefused;
          it.clock.advance(100);
          take(step);
          if (step.kind !== 'sync') continue;
          const taken = ObjectStore.copyOf(it.rig.cache);
          const report = await it.sync('changes', 10, () => take(during));
          if (report.outcome === 'complete') seen.push({ at: it.clock.wall(), contents: contents(taken) });
        }
        for (const { at, contents: expected } of seen) {
          assert.deepEqual(contents(await objectsAt(it.recorder, at)), expected);
          assert.deepEqual(contents(await objectsAt(it.recorder, at + 50)), expected);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('is found in portions, while other changes come in', async () => {
    const recorded = new RecordedRig();
    const port = (n: number) => {
      const clusterIPs = ['10.96.0.7'];
      const ports = [{ name: 'http', port: n }];
      return service({ name: 'web', spec: { type: 'ClusterIP', clusterIP: clusterIPs[0], clusterIPs, ports } });
    };
    recorded.put(port(1));
    await recorded.sync('start');
    const moment = recorded.clock.wall();
    recorded.clock.advance(1000);
    for (let n = 2; n <= 3000; n++) recorded.put(port(n));
    recorded.pretendSync();
    let turns = 0;
    let isFound = false;
    const others = (async () => {
      for (; !isFound; turns++) {
        recorded.put(port(4000 + turns));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const then = await objectsAt(recorded.recorder, moment);
    isFound = true;
    await others;
    assert.equal(then.service('default/web')?.ports[0]?.port, 1);
    assert.ok(turns >= 6, `the event loop went on ${turns} times`);
  });

  it('reaches back as far as the memory holds, and memory is bounded', async () => {
    const most = 1_400_000;
    const it = new RecordedRig({ most });
    for (let i = 0; i < 20; i++) it.put(web(`s${i}`));
    await it.sync('start');
    const seen: { at: number; contents: object }[] = [];
    for (let round = 0; round < 3000; round++) {
      it.clock.advance(100);
      const hosts = Array.from({ length: 30 }, (_, i) => ((round * 7 + i * 13) % 250) + 1);
      const name = `s${round % 20}`;
      it.put(
        slice({
          name: `${name}-1`,
          service: name,
          ports: [{ name: 'http', port: 8080 }],
          endpoints: endpoints(...new Set(hosts)),
        }),
      );
      it.pretendSync();
      if (round % 100 === 0) seen.push({ at: it.clock.wall(), contents: contents(it.rig.cache) });
    }
    assert.ok(it.recorder.bytes <= most, `${it.recorder.bytes} bytes`);
    const { reachesBackTo } = it.recorder.log;
    const known = seen.filter(({ at }) => at >= reachesBackTo);
    assert.ok(known.length > 3 && known.length < seen.length, `${known.length} of ${seen.length}`);
    for (const { at, contents: expected } of known) {
      assert.deepEqual(contents(await objectsAt(it.recorder, at)), expected);
    }
    await assert.rejects(objectsAt(it.recorder, reachesBackTo - 1), BeforeHistory);
    await objectsAt(it.recorder, reachesBackTo);
  });
});
