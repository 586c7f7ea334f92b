/** The simulated API server, asked by the real client and reflector. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { ApiWorld, assertSame, SERVICES_IN_PROTOBUF } from './following.ts';

async function following(t: TestContext, resource?: Parameters<ApiWorld['follow']>[0]) {
  const world = new ApiWorld(t);
  for (const name of ['a', 'b', 'c']) world.serve(name);
  const agent = world.follow(resource);
  await world.run(10);
  return { world, agent, api: world.api };
}

describe('a list and a watch', () => {
  for (const [name, resource] of [
    ['JSON', undefined],
    ['protobuf', SERVICES_IN_PROTOBUF],
  ] as const) {
    test(`in ${name}: pages, then changes`, async (t) => {
      const { world, agent, api } = await following(t, resource);
      assert.deepEqual(agent.take(), ['set default/a', 'set default/b', 'set default/c', 'synced']);
      world.serve('d');
      world.serve('a', '10.96.0.9');
      api.delete('Service', 'default/b');
      await world.run(1);
      assert.deepEqual(agent.take(), ['set default/d', 'set default/a', 'gone default/b']);
      assertSame(world, agent);
    });
  }

  test('goes on for hours without a failure, with a bookmark each minute', async (t) => {
    const { world, agent } = await following(t);
    agent.take();
    for (let hour = 0; hour < 3; hour++) {
      await world.run(3_600_000);
      world.serve(`hour-${hour}`);
      await world.run(1);
    }
    assert.deepEqual(agent.failures, []);
    assertSame(world, agent);
    assert.deepEqual(agent.process.open, ['connection to the API server', 'answer to GET /api/v1/services (watch)']);
  });

  test('ends with the signal, and nothing stays open', async (t) => {
    const { world, agent, api } = await following(t);
    agent.stop.abort(new Error('stop'));
    await world.run(1);
    await agent.ended;
    assert.equal(api.watches, 0);
    assert.deepEqual(agent.process.open, ['connection to the API server']);
    assert.equal(world.time.timersOf(agent.process), 0);
  });

  test('ends with its process: the server knows nothing of it, and nobody reads on', async (t) => {
    const { world, agent, api } = await following(t);
    agent.take();
    agent.process.kill();
    world.serve('d');
    await world.run(1_000_000);
    assert.deepEqual([api.watches, agent.take(), agent.process.open], [0, [], []]);
  });
});
