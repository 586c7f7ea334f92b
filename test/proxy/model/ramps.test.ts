/** Slow start (docs/traffic.md): steps by the clock, the same on every node, and after a restart. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { SOURCE_KINDS } from '../../../src/proxy/model/events.ts';
import type { Ramp } from '../../../src/proxy/model/ramps.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { eventOf } from '../../helpers/proxy/rig.ts';

const [A, B] = ['10.244.1.11', '10.244.1.12'];
const KEY = 'default/web';

const web = (slowStart?: string) =>
  service({
    name: 'web',
    spec: { type: 'ClusterIP', clusterIP: '10.96.0.10', ports: [{ port: 80 }] },
    ...(slowStart === undefined ? {} : { annotations: { 'slicewire.dev/slow-start': slowStart } }),
  });

interface Pods {
  readonly ready: readonly string[];
  readonly unready?: readonly string[];
  readonly name?: string;
  /** The time of the change, in milliseconds since 1970. */
  readonly at?: number;
  readonly weight?: string;
}

const pods = ({ ready, unready = [], name = 'web-1', at, weight }: Pods) =>
  slice({
    name,
    service: 'web',
    addressType: 'IPv4',
    endpoints: [
      ...ready.map((address) => ({ addresses: [address] })),
      ...unready.map((address) => ({ addresses: [address], conditions: { ready: false } })),
    ],
    annotations: {
      ...(at === undefined ? {} : { 'endpoints.kubernetes.io/last-change-trigger-time': new Date(at).toISOString() }),
      ...(weight === undefined ? {} : { 'slicewire.dev/weight': weight }),
    },
  });

class World {
  readonly clock = new FakeClock();
  readonly cache: Cache;
  saved: readonly Ramp[] = [];
  steps = 0;

  constructor(clock?: FakeClock) {
    if (clock !== undefined) this.clock = clock;
    this.cache = new Cache({
      clock: this.clock,
      onSteps: () => {
        this.steps += 1;
      },
      onChange: () => {
        this.saved = [...this.cache.growing.ramps];
      },
    });
  }

  put(...objects: object[]): this {
    for (const object of objects) this.cache.take(eventOf(object));
    return this;
  }

  synced(): this {
    for (const kind of SOURCE_KINDS) this.cache.take({ kind: 'synced', of: kind });
    this.cache.takeChanges();
    return this;
  }

  /** The weights by the last number of the address. */
  weights(): Record<string, number> {
    const all = this.cache.slicesOf(KEY).flatMap(({ endpoints }) => endpoints);
    return Object.fromEntries(all.map(({ address, weight = 100 }) => [address.split('.').at(-1) ?? '', weight]));
  }
}

const begun = () => new World().put(web('60s'), pods({ ready: [A] })).synced();

describe('slow start', () => {
  it('leads an endpoint that became ready from a tenth to all of its weight in five steps', () => {
    const world = begun();
    assert.deepEqual(world.weights(), { '11': 100 }, 'those of the first list may be ready for long');
    world.put(pods({ ready: [A, B] }));
    const seen = [world.weights()['12']];
    for (let second = 0; second < 70; second += 1) {
      world.cache.takeChanges();
      world.clock.advance(1000);
      const touched = world.cache.takeChanges();
      const weight = world.weights()['12'];
      if (weight !== seen.at(-1)) {
        seen.push(weight);
        assert.deepEqual([...touched], [KEY], `the step to ${weight} is written`);
      } else assert.equal(touched.size, 0);
    }
    assert.deepEqual(seen, [10, 28, 46, 64, 82, 100]);
    assert.equal(world.steps, 5);
    assert.deepEqual(world.saved, []);
  });

  it('counts from the time of the change, so that all nodes make the steps at the same time', () => {
    const world = begun();
    world.put(pods({ ready: [A, B], at: world.clock.wall() - 30_000 }));
    assert.equal(world.weights()['12'], 46);
    world.clock.advance(6000);
    assert.equal(world.weights()['12'], 64);
  });

  it('does not begin for an endpoint that is ready for longer than that, or whose time is to come', () => {
    const world = begun();
    world.put(pods({ ready: [A, B], at: world.clock.wall() - 61_000 }));
    assert.equal(world.weights()['12'], 100);
    world.put(pods({ ready: [A], unready: [B] }), pods({ ready: [A, B], at: world.clock.wall() + 99_000 }));
    assert.equal(world.weights()['12'], 10);
  });

  it('begins anew when an endpoint becomes ready again, and not when it moves to another slice', () => {
    const world = begun();
    world.put(pods({ ready: [A, B] }));
    world.clock.advance(30_000);
    world.put(pods({ ready: [A], unready: [B] }), pods({ ready: [A, B] }));
    assert.equal(world.weights()['12'], 10);
    world.clock.advance(30_000);
    world.put(pods({ ready: [B], name: 'web-2' }), pods({ ready: [A] }));
    assert.equal(world.weights()['12'], 46);
  });

  it('grows to the weight of the slice', () => {
    const world = new World().put(web('60s'), pods({ ready: [A], weight: '20' })).synced();
    world.put(pods({ ready: [A, B], weight: '20' }));
    assert.deepEqual(world.weights(), { '11': 20, '12': 2 });
  });

  it('ends when the Service asks for none any more', () => {
    const world = begun();
    world.put(pods({ ready: [A, B] }), web());
    assert.deepEqual([world.weights()['12'], world.saved], [100, []]);
  });

  it('goes on after a restart', () => {
    const world = begun();
    world.put(pods({ ready: [A, B] }));
    world.clock.advance(30_000);
    const next = new World(world.clock).put(web('60s'), pods({ ready: [A, B] })).synced();
    next.cache.restoreRamps([
      ...world.saved,
      ...world.saved.map((one) => ({ ...one, address: '10.9.9.9' as typeof one.address })),
    ]);
    assert.equal(next.weights()['12'], 46);
    assert.deepEqual([...next.cache.takeChanges()], [KEY]);
    next.clock.advance(30_000);
    assert.equal(next.weights()['12'], 100);
  });

  it('makes the steps of another time at once', () => {
    const world = new World().put(web('1h'), pods({ ready: [A] })).synced();
    world.put(pods({ ready: [A, B] }));
    world.clock.advance(240_000);
    assert.equal(world.weights()['12'], 10);
    world.put(web('10m'));
    assert.equal(world.weights()['12'], 46);
    world.cache.takeChanges();
    world.clock.advance(120_000);
    assert.deepEqual([world.weights()['12'], [...world.cache.takeChanges()]], [64, [KEY]]);
  });

  it('makes no step after it was stopped', () => {
    const world = begun();
    world.put(pods({ ready: [A, B] }));
    world.cache.takeChanges();
    world.cache.stopGrowing();
    world.clock.advance(60_000);
    assert.equal(world.cache.takeChanges().size, 0);
  });

  it('is set aside where it is no time', () => {
    const world = begun();
    world.put(web('soon'), pods({ ready: [A, B] }));
    assert.equal(world.weights()['12'], 100);
    const faults = [...world.cache.faults.all];
    assert.deepEqual(
      faults.map(({ field, value, effect }) => [field, value, effect]),
      [['metadata.annotations["slicewire.dev/slow-start"]', 'soon', 'default used']],
    );
  });
});
