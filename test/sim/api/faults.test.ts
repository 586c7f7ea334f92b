/** What goes wrong on the way to the simulated API server, and that the real client and reflector come through all of it. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import type { Fault } from '../engine/process.ts';
import type { Outage } from './api.ts';
import { ApiWorld, assertSame, type Followed, SERVICES, SERVICES_IN_PROTOBUF } from './following.ts';

/** Milliseconds in which a reflector is well again: its longest wait, and a request without an answer. */
const WELL = 120_000;

async function following(t: TestContext, options: ConstructorParameters<typeof ApiWorld>[1] = {}) {
  const world = new ApiWorld(t, options);
  for (const name of ['a', 'b', 'c', 'd', 'e']) world.serve(name);
  const agent = world.follow(SERVICES_IN_PROTOBUF);
  await world.run(100);
  agent.take();
  return { world, agent, api: world.api };
}

/** Services change, go and come. */
function churn({ api, random }: ApiWorld): void {
  const name = `s${random.below(6)}`;
  if (random.chance(0.3)) api.delete('Service', `default/${name}`);
  else
    api.put({
      kind: 'Service',
      metadata: { name, namespace: 'default' },
      spec: { clusterIP: `10.96.0.${random.between(1, 250)}`, ports: [{ port: 80 }] },
    });
}

interface Round {
  readonly fault: Fault;
  /** The number of the call. */
  readonly at: number;
  readonly seed: number;
}

/** A history with one fault; returns what was told. */
async function round(t: TestContext, { fault, at, seed }: Round): Promise<readonly string[]> {
  const world = new ApiWorld(t, { seed, latency: () => 3 });
  let isMet = false;
  world.calls.faultAt = (number) => {
    if (number !== at) return undefined;
    isMet = true;
    return fault;
  };
  for (let i = 0; i < 5; i++) churn(world);
  const agent = world.follow(seed % 2 === 0 ? SERVICES_IN_PROTOBUF : SERVICES, 2);
  for (let i = 0; i < 12; i++) {
    churn(world);
    await world.run(world.random.below(30));
    if (i === 5) world.api.endWatches();
    if (i === 8) world.api.reset();
  }
  await world.run(WELL);
  if (isMet && fault.kind === 'kill') assert.deepEqual([agent.process.open, world.api.watches], [[], 0]);
  else assertWell(world, agent);
  assert.ok(isMet || at > 4, `call ${at} was never made`);
  return agent.told;
}

function assertWell(world: ApiWorld, agent: Followed): void {
  assertSame(world, agent);
  assert.deepEqual(agent.process.open, ['connection to the API server', 'answer to GET /api/v1/services (watch)']);
}

describe('one fault at any call', () => {
  const faults: Fault[] = [
    ...Array.from({ length: 13 }, (_, variant) => ({ kind: 'fails', when: 'before', variant }) as const),
    ...Array.from({ length: 13 }, (_, variant) => ({ kind: 'fails', when: 'after', variant }) as const),
    ...[0, 1, 2, 3].map((variant) => ({ kind: 'cut', variant }) as const),
    { kind: 'slow', milliseconds: 5000 },
    { kind: 'slow', milliseconds: 45_000 },
    { kind: 'kill', when: 'before' },
    { kind: 'kill', when: 'after' },
  ];
  for (const fault of faults) {
    test(JSON.stringify(fault), async (t) => {
      for (let at = 1; at <= 8; at++)
        await t.test(`call ${at}`, async (t) => void (await round(t, { fault, at, seed: at })));
    });
  }

  test('gives the same history each time', async (t) => {
    const input: Round = { fault: { kind: 'cut', variant: 0 }, at: 3, seed: 7 };
    const told: (readonly string[])[] = [];
    for (let i = 0; i < 2; i++) await t.test(`${i}`, async (t) => void told.push(await round(t, input)));
    assert.ok((told[0] ?? []).length > 10);
    assert.deepEqual(told[0], told[1]);
  });
});

describe('a server', () => {
  for (const how of ['refused', 'unanswered', 'overloaded', 'unavailable', 'internal', 'gateway'] satisfies Outage[]) {
    test(`that is ${how} for a while, with new watches: what was gone meanwhile is told`, async (t) => {
      const { world, agent, api } = await following(t);
      api.outage(how);
      api.endWatches();
      await world.run(60_000);
      api.delete('Service', 'default/a');
      world.serve('f');
      api.compact(how === 'refused' ? 'status' : 'event');
      await world.run(10_000);
      assert.ok(agent.failures.length > 0);
      api.outage(undefined);
      await world.run(WELL);
      assert.ok(agent.told.includes('gone default/a'));
      assertWell(world, agent);
    });
  }

  test('whose etcd is restored: the next list tells what never was', async (t) => {
    const { world, agent, api } = await following(t);
    const backup = api.resourceVersion;
    const before = api.versions;
    world.serve('f');
    await world.run(1);
    api.restoreTo(backup);
    assert.deepEqual(api.objectsAt(api.versions), api.objectsAt(before));
    world.serve('a', '10.96.0.77');
    api.compact('status');
    await world.run(WELL);
    assert.equal(api.resourceVersion, backup + 2);
    assertWell(world, agent);
  });

  test('whose etcd is restored is asked for its version, however many watches say nothing of it', async (t) => {
    const { world, agent, api } = await following(t, { stride: 1000 });
    world.serve('f');
    world.serve('a', '10.96.0.44');
    await world.run(1000);
    api.goBack(2);
    world.serve('b', '10.96.0.55');
    await world.run(WELL);
    assert.ok(agent.told.includes('gone default/f'));
    assertWell(world, agent);
  });

  test('whose etcd is restored writes on where the backup ends, in small steps until it has caught up', async (t) => {
    const { world, api } = await following(t, { stride: 1000 });
    assert.equal(api.resourceVersion, 6000);
    const before = api.objectsAt(api.versions);
    world.serve('f');
    api.delete('Service', 'default/a');
    api.goBack(2);
    assert.equal(api.resourceVersion, 6000);
    assert.deepEqual(api.objectsAt(api.versions), before);
    world.serve('g');
    assert.equal(api.resourceVersion, 6001);
    api.goBack(100);
    assert.equal(api.objectsAt(api.versions).get('Service'), undefined);
  });

  test('whose etcd is restored twice in a row gives out none of the versions that it took back again', async (t) => {
    const { world, agent, api } = await following(t, { stride: 1000 });
    // So few failures lead to no new list.
    const SHORT = 1500;
    world.serve('f');
    api.restoreTo(6000, SHORT);
    world.serve('g');
    world.serve('h');
    await world.run(WELL);
    assert.equal(api.resourceVersion, 6002);
    api.restoreTo(6000, SHORT);
    world.serve('i');
    assert.ok(api.resourceVersion > 6002);
    api.restoreTo(api.oldest, SHORT);
    world.serve('j');
    await world.run(WELL);
    assert.ok(agent.told.includes('gone default/h'));
    assertWell(world, agent);
  });

  test('knows every state it ever had, by a number that only grows', async (t) => {
    const { world, api } = await following(t);
    const before = api.versions;
    const backup = api.resourceVersion;
    api.delete('Service', 'default/a');
    world.serve('b', '10.96.0.5');
    api.restoreTo(backup);
    const names = (state: number) => [...(api.objectsAt(state).get('Service')?.keys() ?? [])].length;
    assert.deepEqual([0, before, before + 1, before + 2, before + 3].map(names), [0, 5, 4, 4, 5]);
    assert.equal(api.versions, before + 3);
    assert.throws(() => api.objectsAt(before + 4), RangeError);
    assert.throws(() => api.restoreTo(backup + 1), RangeError);
  });
});

describe('a watch', () => {
  test('that is silent on a dead connection fails when a PING finds it, and nothing is missed', async (t) => {
    const { world, agent, api } = await following(t);
    api.goSilent('dead');
    api.delete('Service', 'default/a');
    await world.run(39_000);
    assert.deepEqual(agent.take(), []);
    await world.run(10_000);
    assert.match(agent.failures.join(), /no answer to a PING: nothing was received for 40 s/);
    assert.ok(agent.told.includes('gone default/a'));
    assertWell(world, agent);
  });

  test('that is swallowed ends when its time is up, and nothing is missed', async (t) => {
    const { world, agent, api } = await following(t);
    api.goSilent('swallowed');
    api.delete('Service', 'default/a');
    await world.run(299_000);
    assert.deepEqual(agent.take(), []);
    await world.run(310_000);
    assert.deepEqual(agent.take(), ['gone default/a']);
    assertWell(world, agent);
  });

  for (const how of ['reset', 'short'] as const) {
    test(`whose line is torn (${how}) is no event`, async (t) => {
      const { world, agent, api } = await following(t);
      api.tear(how);
      world.serve('a', '10.96.0.50');
      await world.run(1);
      assert.equal(agent.failures.length, 1);
      await world.run(WELL);
      assertWell(world, agent);
    });
  }

  test('tells a kind late, and in order', async (t) => {
    const { world, agent, api } = await following(t);
    api.lag('Service', 500);
    world.serve('f');
    await world.run(100);
    api.lag('Service', 0);
    world.serve('g');
    await world.run(390);
    assert.deepEqual(agent.take(), []);
    await world.run(20);
    assert.deepEqual(agent.take(), ['set default/f', 'set default/g']);
    assertWell(world, agent);
  });
});
