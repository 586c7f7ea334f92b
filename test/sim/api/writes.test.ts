/** What controllers write to the simulated API server. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { type ApiClient, ApiError, type WriteRequest } from '../../../src/cluster/api/client.ts';
import { slice } from '../../helpers/cluster/objects.ts';
import type { Fault } from '../engine/process.ts';
import { ApiWorld } from './following.ts';

const SLICES = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases';

interface Written {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly [field: string]: unknown;
}

class Writer {
  readonly world: ApiWorld;
  readonly client: ApiClient;
  readonly #never = new AbortController().signal;

  constructor(t: TestContext) {
    this.world = new ApiWorld(t, { latency: () => 2 });
    this.client = this.world.client();
  }

  async write(request: WriteRequest): Promise<Written> {
    return (await this.#until(this.client.write(request, this.#never))) as Written;
  }

  async get(path: string): Promise<unknown> {
    return await this.#until(this.client.get(path, {}, this.#never));
  }

  /** The status with which it is refused; 0 without an answer. */
  async refused(request: WriteRequest): Promise<number> {
    return await this.write(request).then(
      () => assert.fail('it was done'),
      (error: unknown) => {
        if (error instanceof ApiError) return error.status;
        throw error;
      },
    );
  }

  create(name = 'web-1'): Promise<Written> {
    return this.write({ method: 'POST', path: SLICES, body: web(name) });
  }

  async #until<T>(answer: Promise<T>): Promise<T> {
    answer.catch(() => undefined);
    await this.world.run(60_000);
    return await answer;
  }
}

function web(name: string): object {
  return slice({ name, service: 'web', endpoints: ['10.0.0.1'] });
}

describe('writes', () => {
  test('create, replace and delete; each is a state, and is told', async (t) => {
    const writer = new Writer(t);
    const { api } = writer.world;
    const agent = writer.world.follow({ path: '/apis/discovery.k8s.io/v1/endpointslices' });
    const before = api.versions;
    const made = await writer.create();
    assert.match(made.metadata.uid, /^0{8}-0{4}-4000-8000-0{11}1$/);
    const replaced = await writer.write({ method: 'PUT', path: `${SLICES}/web-1`, body: { ...made, endpoints: [] } });
    assert.equal(replaced.metadata.uid, made.metadata.uid);
    assert.ok(Number(replaced.metadata.resourceVersion) > Number(made.metadata.resourceVersion));
    const { uid, resourceVersion } = replaced.metadata;
    await writer.write({
      method: 'DELETE',
      path: `${SLICES}/web-1`,
      body: { preconditions: { uid, resourceVersion } },
    });
    assert.deepEqual(agent.told, ['synced', 'set default/web-1', 'set default/web-1', 'gone default/web-1']);
    const endpoints = [1, 2, 3].map(
      (n) =>
        api
          .objectsAt(before + n)
          .get('EndpointSlice')
          ?.get('default/web-1')?.endpoints,
    );
    assert.deepEqual(endpoints, [[{ addresses: ['10.0.0.1'] }], [], undefined]);
  });

  test('are refused where another was faster', async (t) => {
    const writer = new Writer(t);
    const made = await writer.create();
    assert.equal(await writer.refused({ method: 'POST', path: SLICES, body: web('web-1') }), 409);
    writer.world.api.put(web('web-1'));
    const path = `${SLICES}/web-1`;
    assert.equal(await writer.refused({ method: 'PUT', path, body: made }), 409);
    const { uid, resourceVersion } = made.metadata;
    const preconditions = { uid, resourceVersion };
    assert.equal(await writer.refused({ method: 'DELETE', path, body: { preconditions } }), 409);
    assert.equal(await writer.refused({ method: 'PUT', path: `${SLICES}/none`, body: web('none') }), 404);
    assert.equal(await writer.refused({ method: 'DELETE', path: `${SLICES}/none` }), 404);
  });

  test('get a name from the server where they ask for one, the same for the same seed', async (t) => {
    const names: string[] = [];
    for (let i = 0; i < 2; i++) {
      await t.test(`${i}`, async (t) => {
        const writer = new Writer(t);
        const body = { ...web(''), metadata: { generateName: 'web-' } };
        const { metadata } = await writer.write({ method: 'POST', path: SLICES, body });
        names.push(metadata.name);
      });
    }
    assert.match(names[0] ?? '', /^web-\w{5}$/);
    assert.equal(names[0], names[1]);
  });

  test('of Leases and Events', async (t) => {
    const writer = new Writer(t);
    const body = { metadata: { name: 'lock', namespace: 'kube-system' }, spec: { holderIdentity: 'a' } };
    await writer.write({ method: 'POST', path: LEASES, body });
    assert.deepEqual(((await writer.get(`${LEASES}/lock`)) as Written).spec, { holderIdentity: 'a' });
    const path = '/apis/events.k8s.io/v1/namespaces/default/events';
    await writer.write({ method: 'POST', path, body: { metadata: { name: 'e1' }, reason: 'Drift' } });
    assert.deepEqual(
      writer.world.api.events.map(({ reason }) => reason),
      ['Drift'],
    );
  });

  for (const [name, fault, isDone] of [
    ['that fail before they are done are not', { kind: 'fails', when: 'before', variant: 1 }, false],
    ['whose answer is lost are done', { kind: 'fails', when: 'after', variant: 0 }, true],
    ['whose answer never comes are done', { kind: 'fails', when: 'after', variant: 1 }, true],
    ['whose answer is cut are done', { kind: 'cut', variant: 0 }, true],
    ['whose answer comes too late are done', { kind: 'slow', milliseconds: 50_000 }, true],
  ] satisfies [string, Fault, boolean][]) {
    test(name, async (t) => {
      const writer = new Writer(t);
      writer.world.calls.faultAt = (number) => (number === 1 ? fault : undefined);
      assert.equal(await writer.refused({ method: 'POST', path: SLICES, body: web('web-1') }), 0);
      assert.equal(writer.world.api.get('EndpointSlice', 'default/web-1') !== undefined, isDone);
    });
  }

  test('fail with a status that says so where the server has one for it, never with one that is not true', async (t) => {
    const statuses = new Set<number>();
    for (let variant = 0; variant < 5; variant++) {
      await t.test(`${variant}`, async (t) => {
        const writer = new Writer(t);
        writer.world.calls.faultAt = (number) => (number === 1 ? { kind: 'fails', when: 'after', variant } : undefined);
        statuses.add(await writer.refused({ method: 'POST', path: SLICES, body: web('web-1') }));
      });
    }
    // None of them says that nothing was written.
    assert.deepEqual([...statuses].sort(), [0, 500, 504]);
  });
});

test('three hundred restarts leave nothing behind', async (t) => {
  const world = new ApiWorld(t);
  for (const name of ['a', 'b', 'c']) world.serve(name);
  for (let i = 0; i < 300; i++) {
    const agent = world.follow();
    await world.run(20);
    assert.equal(world.api.watches, 1);
    agent.process.kill();
    await world.run(1);
    assert.equal(world.api.watches, 0);
    assert.equal(world.time.timersOf(agent.process), 0);
  }
});
