import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { historyOf } from '../../../src/inspect/history/history-content.ts';
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
    const recorded = new RecordedRig();
    recorded.put(
      web('web'),
      slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1, 2) }),
    );
    await recorded.sync('start');
    recorded.clock.advance(1000);
    const received = recorded.clock.wall();
    const changed = slice({
      name: 'web-1',
      service: 'web',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: endpoints(1, 2, 3),
    }) as { metadata: object };
    recorded.put({ ...changed, metadata: { ...changed.metadata, resourceVersion: '77' } });
    recorded.clock.advance(5);
    await recorded.sync('changes', 20);
    const { changes, syncs, ...answer } = await historyOf(recorded.recorder, { service: 'default/web' });
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
    const { changes: all } = await historyOf(recorded.recorder, {});
    assert.deepEqual(all[0]?.what, ['1 Service', '1 EndpointSlice']);
    assert.equal(recorded.recorder.statistics.latency(recorded.clock.wall())?.changes, 1);
    assert.equal(recorded.recorder.statistics.latency(recorded.clock.wall())?.most, 25);
  });

  it('a change during a sync belongs to the next one', async () => {
    const recorded = new RecordedRig();
    await recorded.sync('start');
    recorded.put(web('a'));
    await recorded.sync('changes', 10, () => recorded.put(web('b')));
    const before = await historyOf(recorded.recorder, {});
    assert.deepEqual(
      before.changes.map(({ object, sync }) => [object, sync]),
      [
        ['the initial lists', 1],
        ['Service default/a', 2],
        ['Service default/b', null],
      ],
    );
    await recorded.sync();
    assert.equal((await historyOf(recorded.recorder, { service: 'default/b' })).changes[0]?.sync, 3);
  });

  it('a refused Service is not in the kernel until the kernel takes it', async () => {
    let refuses = true;
    const recorded = new RecordedRig({ refuse: (line) => refuses && line.includes('default/bad') });
    await recorded.sync('start');
    recorded.put(web('bad'), web('good'));
    for (const name of ['bad', 'good'])
      recorded.put(
        slice({ name: `${name}-1`, service: name, ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1) }),
      );
    const report = await recorded.sync();
    assert.equal(report.outcome, 'partial');
    const written = writtenState(recorded.recorder);
    assert.deepEqual(
      [...written.written.services()].map(({ key }) => key),
      ['default/good'],
    );
    assert.deepEqual(
      written.pending.map(({ delta }) => delta.key),
      ['default/bad', 'default/bad-1'],
    );
    const changes = async (service: string) => (await historyOf(recorded.recorder, { service })).changes;
    assert.deepEqual(
      (await changes('default/good')).map(({ sync }) => sync),
      [2, 2],
    );
    assert.deepEqual(
      (await changes('default/bad')).map(({ sync }) => sync),
      [null, null],
    );
    const moment = recorded.clock.wall();
    assert.equal((await objectsAt(recorded.recorder, moment)).service('default/bad'), undefined);
    refuses = false;
    recorded.clock.advance(60_000);
    await recorded.sync('retry');
    assert.deepEqual(
      (await changes('default/bad')).map(({ sync }) => sync),
      [3, 3],
    );
    assert.equal((await objectsAt(recorded.recorder, moment)).service('default/bad'), undefined);
    assert.notEqual((await objectsAt(recorded.recorder, recorded.clock.wall())).service('default/bad'), undefined);
  });

  it('after a failed sync the changes belong to the sync that wrote them', async () => {
    let fails = false;
    const recorded = new RecordedRig();
    recorded.iptables.options = {
      intercept: ({ file }) =>
        fails && file.endsWith('-restore') ? { exitCode: 4, stdout: '', stderr: 'no memory' } : undefined,
    };
    await recorded.sync('start');
    recorded.put(web('a'));
    fails = true;
    assert.notEqual((await recorded.sync()).outcome, 'complete');
    fails = false;
    await recorded.sync('retry');
    const { changes, syncs } = await historyOf(recorded.recorder, { service: 'default/a' });
    assert.deepEqual(
      changes.map(({ sync }) => sync),
      [3],
    );
    assert.deepEqual(
      syncs.map(({ number }) => number),
      [3],
    );
    assert.match(recorded.recorder.statistics.lastSyncs[1]?.failed[0] ?? '', /no memory/);
  });

  it('tells what stood at a moment', async () => {
    const recorded = new RecordedRig();
    recorded.put(
      web('web'),
      slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(1) }),
    );
    await recorded.sync('start');
    const moment = recorded.clock.wall();
    recorded.clock.advance(1000);
    recorded
      .put(slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: endpoints(2) }))
      .remove('services', 'default/web');
    await recorded.sync();
    const then = await historyOf(recorded.recorder, { service: 'default/web', at: moment });
    assert.deepEqual(
      then.stood.map(({ object, lines }) => [object, lines.at(-1)]),
      [
        ['Service default/web', 'port http 80/TCP'],
        ['EndpointSlice default/web-1', '10.244.1.1:8080 ready'],
      ],
    );
    const now = await historyOf(recorded.recorder, { service: 'default/web', at: recorded.clock.wall() });
    assert.deepEqual(now.stood[0]?.lines, ['it did not exist']);
    await assert.rejects(historyOf(recorded.recorder, { at: moment - 1 }), (error) => {
      assert.ok(error instanceof BeforeHistory);
      assert.match(error.message, /^history reaches back to 2026-11-21T00:00:00\.010Z; --record-dir keeps more of it$/);
      return true;
    });
  });

  it('lists the latest changes, and counts the older ones', async () => {
    const recorded = new RecordedRig();
    await recorded.sync('start');
    for (let port = 1; port <= 30; port++) {
      recorded.put(web('a', port), web('b', port));
    }
    await recorded.sync();
    const { changes, omitted } = await historyOf(recorded.recorder, { service: 'default/a', most: 10 });
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
        const recorded = new RecordedRig({ refuse: (line) => refused && line.includes('default/a') });
        const take = (step: (typeof moments)[number]['step'] | undefined) => {
          if (step?.kind === 'put') recorded.put(step.object);
          else if (step?.kind === 'zone') recorded.put(nodeOf(step.zone));
          else if (step?.kind === 'remove') {
            const [kind = '', key = ''] = step.id.split(' ');
            recorded.remove(kind === 'Service' ? 'services' : 'slices', key);
          }
        };
        const seen: { at: number; contents: object }[] = [];
        await recorded.sync('start');
        seen.push({ at: recorded.clock.wall(), contents: contents(recorded.rig.cache) });
        for (const { step, isRefused, during } of moments) {
          refused = isRefused;
          recorded.clock.advance(100);
          take(step);
          if (step.kind !== 'sync') continue;
          const taken = ObjectStore.copyOf(recorded.rig.cache);
          const report = await recorded.sync('changes', 10, () => take(during));
          if (report.outcome === 'complete') seen.push({ at: recorded.clock.wall(), contents: contents(taken) });
        }
        for (const { at, contents: expected } of seen) {
          assert.deepEqual(contents(await objectsAt(recorded.recorder, at)), expected);
          assert.deepEqual(contents(await objectsAt(recorded.recorder, at + 50)), expected);
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
    const recorded = new RecordedRig({ most });
    for (let i = 0; i < 20; i++) recorded.put(web(`s${i}`));
    await recorded.sync('start');
    const seen: { at: number; contents: object }[] = [];
    for (let round = 0; round < 3000; round++) {
      recorded.clock.advance(100);
      const hosts = Array.from({ length: 30 }, (_, i) => ((round * 7 + i * 13) % 250) + 1);
      const name = `s${round % 20}`;
      recorded.put(
        slice({
          name: `${name}-1`,
          service: name,
          ports: [{ name: 'http', port: 8080 }],
          endpoints: endpoints(...new Set(hosts)),
        }),
      );
      recorded.pretendSync();
      if (round % 100 === 0) seen.push({ at: recorded.clock.wall(), contents: contents(recorded.rig.cache) });
    }
    assert.ok(recorded.recorder.bytes <= most, `${recorded.recorder.bytes} bytes`);
    const { reachesBackTo } = recorded.recorder.log;
    const known = seen.filter(({ at }) => at >= reachesBackTo);
    assert.ok(known.length > 3 && known.length < seen.length, `${known.length} of ${seen.length}`);
    for (const { at, contents: expected } of known) {
      assert.deepEqual(contents(await objectsAt(recorded.recorder, at)), expected);
    }
    await assert.rejects(objectsAt(recorded.recorder, reachesBackTo - 1), BeforeHistory);
    await objectsAt(recorded.recorder, reachesBackTo);
  });
});
