/** What is asked of the API server itself before something is removed, and what a refused write leaves alone. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { realClock } from '../../src/base/clock.ts';
import { type ApiClient, ApiError, apiClient } from '../../src/cluster/api/client.ts';
import type { SliceObject } from '../../src/cluster/producers/api-objects.ts';
import { ClusterCache } from '../../src/controller/cluster-cache.ts';
import { ClusterFeed } from '../../src/controller/cluster-feed.ts';
import type { ControllerContext } from '../../src/controller/controller-context.ts';
import { Expectations } from '../../src/controller/expectations.ts';
import { ManagedSlices } from '../../src/controller/managed-slices.ts';
import { mustBeGone, SliceWriter } from '../../src/controller/object-writer.ts';
import { StaleCache, WorkQueue } from '../../src/controller/queue.ts';
import { MANAGED_BY_LABEL, SERVICE_NAME_LABEL, SLICES_MANAGER } from '../../src/proxy/model/labels.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { aWhile, until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { address, ControllerRig } from './rig.ts';

async function start(t: TestContext) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const credentials = {
    server: server.url,
    apply: (options: { agent?: unknown }) => {
      options.agent = false;
      return Promise.resolve();
    },
  };
  return { server, client: apiClient(credentials, { userAgent: 'test' }) };
}

describe('an object that the cache does not show', () => {
  it('is gone when the API server says so, and in no other case', async (t) => {
    const { server, client } = await start(t);
    await mustBeGone(client, 'services', 'default/web', NEVER);
    server.put({ kind: 'Service', metadata: { name: 'web', namespace: 'default' }, spec: {} });
    await assert.rejects(mustBeGone(client, 'services', 'default/web', NEVER), StaleCache);
    server.failNext(1, 503);
    await assert.rejects(mustBeGone(client, 'endpoints', 'default/web', NEVER), /503/);
  });
});

describe('a refused write', () => {
  it('of one family does not keep the other', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web', { ipFamilies: ['IPv4', 'IPv6'] });
    rig.pod('web', 1);
    rig.server.failNext(1, 500, {}, { kind: 'write', resource: 'endpointslices' });
    await rig.start({ controllers: 'endpointslice-controller' });
    await until('the other family', () => rig.slices('web').length === 1);
    assert.deepEqual(
      rig.slices('web').map(({ addressType }) => addressType),
      ['IPv6'],
    );
    await until('the first, tried again', () => rig.ready('web').join() === address(1));
    assert.equal(rig.slices('web').length, 2);
  });
});

function slice(name: string): SliceObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, generateName: 'web-', namespace: 'default', uid: `uid-${name}`, resourceVersion: '1' },
    addressType: 'IPv4',
    endpoints: [],
    ports: [],
  };
}

const LABELS = { [MANAGED_BY_LABEL]: SLICES_MANAGER, [SERVICE_NAME_LABEL]: 'web' };
const slices = (count: number, name: string) => Array.from({ length: count }, (_, i) => slice(`${name}-${i}`));

/** A server that answers each write after a moment; the n-th with an error, counted from 1. */
class SlowServer {
  readonly asked: string[] = [];
  /** The most writes that it had at a time, by method. */
  readonly most = new Map<string, number>();
  readonly #errors: ReadonlyMap<number, ApiError>;
  #now = 0;

  constructor(errors: readonly [number, ApiError][] = []) {
    this.#errors = new Map(errors);
  }

  async write(changes: Partial<Record<'create' | 'update' | 'remove', readonly SliceObject[]>>): Promise<void> {
    const writer = new SliceWriter({
      client: { write: (request) => this.#answer(request.method) } as Partial<ApiClient> as ApiClient,
      expectations: new Expectations(),
      shown: () => '',
      isTaken: () => false,
      onWrite: () => undefined,
    });
    const all = { create: [], update: [], remove: [], ...changes };
    await writer.write({ service: 'default/web', changes: all, triggeredAt: 0, signal: NEVER });
  }

  async #answer(method: string): Promise<unknown> {
    const count = this.asked.push(method);
    this.#now += 1;
    this.most.set(method, Math.max(this.most.get(method) ?? 0, this.#now));
    await aWhile(5);
    this.#now -= 1;
    const error = this.#errors.get(count);
    if (error !== undefined) throw error;
    return slice(`answer-${count}`);
  }
}

describe('the slices of a Service', () => {
  it('are created five at a time, then changed one after another, then deleted five at a time', async () => {
    const server = new SlowServer();
    await server.write({ create: slices(12, 'new'), update: slices(3, 'old'), remove: slices(7, 'unwanted') });
    const [posts, puts, deletes] = [12, 3, 7].map((count, i) => Array(count).fill(['POST', 'PUT', 'DELETE'][i]));
    assert.deepEqual(server.asked, [posts, puts, deletes].flat());
    assert.deepEqual(
      [...server.most],
      [
        ['POST', 5],
        ['PUT', 1],
        ['DELETE', 5],
      ],
    );
  });

  it('are not written further when one is refused, and the first refusal is told', async () => {
    const server = new SlowServer([
      [2, new ApiError('refused', 422)],
      [3, new ApiError('refused as well', 422)],
    ]);
    await assert.rejects(
      server.write({ create: slices(12, 'new'), remove: slices(2, 'unwanted') }),
      /^ApiError: refused$|^Error: refused$/,
    );
    assert.ok(server.asked.length < 12 && !server.asked.includes('DELETE'), server.asked.join());
  });

  it('are changed though none can be created in a namespace that goes away', async () => {
    const leaving = new ApiError('forbidden', 403, { reasons: ['NamespaceTerminating'] });
    const server = new SlowServer([[1, leaving]]);
    await server.write({ create: slices(20, 'new'), update: slices(1, 'old') });
    assert.ok(server.asked.filter((method) => method === 'POST').length < 20);
    assert.equal(server.asked.at(-1), 'PUT');
  });

  it('are tried again when the cache shows more, where one to delete went or changed meanwhile', async () => {
    const message = 'Precondition failed: UID in precondition: uid-unwanted-0, UID in object meta: ';
    const conflict = new ApiError(message, 409, { reasons: ['Conflict'] });
    await assert.rejects(new SlowServer([[1, conflict]]).write({ remove: slices(1, 'unwanted') }), StaleCache);
    const exists = new ApiError('already exists', 409, { reasons: ['AlreadyExists'] });
    await assert.rejects(new SlowServer([[1, exists]]).write({ remove: slices(1, 'unwanted') }), ApiError);
  });
});

describe('Endpoints', () => {
  it('that a person wrote stay, though no Service has their name; those of a Service that is gone go', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    const subsets = [{ addresses: [{ ip: '192.168.4.100' }], ports: [{ port: 80, protocol: 'TCP' }] }];
    rig.server.put({ kind: 'Endpoints', metadata: { name: 'mine', namespace: 'default' }, subsets });
    await rig.start();
    await until('both', () => rig.server.objects('Endpoints').length === 2);
    rig.server.delete('Service', 'default/web');
    await until('one', () => rig.server.objects('Endpoints').length === 1);
    assert.equal(rig.server.objects('Endpoints')[0]?.metadata.name, 'mine');
  });
});

describe('after the store was restored', () => {
  it('writes from before are not waited for', async () => {
    const cache = new ClusterCache();
    const before = { ...slice('web-1'), metadata: { ...slice('web-1').metadata, labels: LABELS } };
    const written = { ...before, metadata: { ...before.metadata, resourceVersion: '1000' } };
    cache.setSlice('default/web-1', before);
    const client = { write: () => Promise.resolve(written) } as Partial<ApiClient> as ApiClient;
    const metrics = { sliceChanged: () => undefined };
    const slices = new ManagedSlices({
      context: { cache, client, metrics } as unknown as ControllerContext,
      ...{ manager: SLICES_MANAGER, of: 'slices', queue: new WorkQueue(new FakeClock()), batchPeriod: 0 },
    });
    const changes = { create: [], update: [before], remove: [] };
    await slices.write({ service: 'default/web', changes, triggeredAt: undefined, signal: NEVER });
    assert.throws(() => slices.fresh('default/web'), StaleCache);
    cache.restored();
    assert.deepEqual(slices.fresh('default/web'), [before]);
  });

  it('the feed tells it', async (t) => {
    const { server, client } = await start(t);
    const cache = new ClusterCache();
    const log = { v2: () => undefined, info: () => undefined, warn: () => undefined };
    const feed = new ClusterFeed({ cache, client, clock: realClock, log, onFault: () => undefined });
    const heard: string[] = [];
    cache.listen({ onRestored: () => heard.push('restored') });
    const put = () => server.put({ kind: 'Service', metadata: { name: 'web', namespace: 'default' }, spec: {} });
    put();
    const backup = server.version;
    put();
    const stop = new AbortController();
    const synced = Promise.withResolvers<void>();
    const following = feed.follow(synced.resolve, stop.signal);
    await synced.promise;
    server.restore(backup);
    await until('the feed heard of it', () => heard.length > 0);
    stop.abort();
    await following.catch(() => undefined);
  });
});
