/** What the controller wrote and the cache does not show yet, and which changes of slices are news. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Metadata, SliceObject } from '../../src/cluster/producers/api-objects.ts';
import { SliceShelf } from '../../src/controller/cluster-cache.ts';
import { Expectations } from '../../src/controller/expectations.ts';
import { SliceEvents } from '../../src/controller/managed-slices.ts';
import { WorkQueue } from '../../src/controller/queue.ts';
import { MANAGED_BY_LABEL, SERVICE_NAME_LABEL, SLICES_MANAGER } from '../../src/proxy/model/labels.ts';
import { isOlder } from '../../src/proxy/model/resource-version.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const WEB = 'default/web';

interface SliceInput extends Partial<Metadata> {
  readonly service?: string;
  readonly manager?: string;
}

/** A slice of WEB, `uid-1` and of version 10, with whatever is given instead. */
function slice({ service = 'web', manager = SLICES_MANAGER, ...metadata }: SliceInput = {}): SliceObject {
  const labels = { [SERVICE_NAME_LABEL]: service, [MANAGED_BY_LABEL]: manager };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'default', uid: 'uid-1', resourceVersion: '10', labels, ...metadata },
    addressType: 'IPv4',
    endpoints: [],
    ports: [],
  };
}

const at = (resourceVersion: string) => slice({ resourceVersion });

function written(...slices: readonly SliceObject[]): Expectations {
  const expectations = new Expectations();
  for (const one of slices) expectations.wrote(WEB, one, '');
  return expectations;
}

describe('that the cache is stale', () => {
  const one = at('10');
  const cases: readonly [string, readonly SliceObject[], boolean][] = [
    ['is true when it lacks a slice that was written', [], true],
    ['is true when it has another of its name', [slice({ uid: 'uid-2', resourceVersion: '11' })], true],
    ['is true when it has it as it was before', [at('9')], true],
    ['is false when it has what was written', [one], false],
    ['is false when it has a later version', [at('100')], false],
    ['is false when it has others as well', [slice({ uid: 'uid-2' }), one], false],
    ['is never true for versions that cannot be compared', [at('abc')], false],
  ];
  for (const [name, slices, isStale] of cases) {
    it(name, () => assert.equal(written(one).isStale(WEB, slices, ''), isStale));
  }

  it('is false where nothing was written, whatever the cache has', () => {
    assert.equal(new Expectations().isStale(WEB, [one], ''), false);
  });

  it('is true for the Service alone that was written for', () => {
    assert.equal(written(one).isStale('default/other', [], ''), false);
  });

  it('is true until the last of several writes is there', () => {
    const expectations = written(at('10'), slice({ uid: 'uid-2', resourceVersion: '11' }), at('12'));
    const second = slice({ uid: 'uid-2', resourceVersion: '11' });
    assert.equal(expectations.isStale(WEB, [at('10'), second], ''), true);
    assert.equal(expectations.isStale(WEB, [at('12')], ''), true);
    assert.equal(expectations.isStale(WEB, [at('12'), second], ''), false);
  });

  it('is true as long as it has a slice that is being deleted, and not when that was not deleted after all', () => {
    const expectations = written(one);
    expectations.deleting(WEB, one);
    assert.equal(expectations.isStale(WEB, [one], ''), true);
    assert.equal(expectations.isStale(WEB, [], ''), false);
    expectations.notDeleted(WEB, one);
    assert.equal(expectations.isStale(WEB, [one], ''), false);
  });

  it('is false when all was forgotten', () => {
    const [forgotten, cleared] = [written(one), written(one)];
    forgotten.forget(WEB);
    cleared.clear();
    assert.deepEqual([forgotten.isStale(WEB, [], ''), cleared.isStale(WEB, [], '')], [false, false]);
  });

  it('is false for a slice that is gone, even when the answer to its write comes after that', () => {
    const expectations = new Expectations();
    expectations.seenGone(WEB, one);
    expectations.wrote(WEB, one, '');
    assert.equal(expectations.isStale(WEB, [], ''), false);
  });

  it('is false for a slice that it should show by now, and does not: somebody else deleted it or took it', () => {
    const expectations = written(at('10'));
    assert.equal(expectations.isStale(WEB, [], '9'), true);
    assert.equal(expectations.isStale(WEB, [], '10'), false);
    assert.equal(expectations.isStale(WEB, [], ''), false, 'it is forgotten');
  });

  it('is never true for a write that it showed before the answer came', () => {
    const expectations = new Expectations();
    expectations.wrote(WEB, at('10'), '9');
    expectations.wrote(WEB, at('12'), '12');
    assert.equal(expectations.isStale(WEB, [], ''), false);
  });

  it('is false once the slice was seen, whatever becomes of it', () => {
    const expectations = written(at('10'));
    assert.equal(expectations.seen(WEB, at('9')), false);
    assert.equal(expectations.isStale(WEB, [], ''), true);
    assert.equal(expectations.seen(WEB, at('10')), false);
    assert.equal(expectations.isStale(WEB, [], ''), false);
  });

  it('is true again for a slice that came back from another Service', () => {
    const expectations = new Expectations();
    expectations.seenGone(WEB, one);
    expectations.seen(WEB, one);
    expectations.wrote(WEB, at('11'), '');
    assert.equal(expectations.isStale(WEB, [one], ''), true);
  });
});

describe('versions', () => {
  const cases: readonly [string, string, boolean][] = [
    ['9', '10', true],
    ['10', '9', false],
    ['10', '10', false],
    ['99999999999999999998', '99999999999999999999', true],
    ['', '10', false],
    ['10', '', false],
    ['1a', '2a', false],
  ];
  for (const [a, b, isIt] of cases) {
    it(`'${a}' is ${isIt ? '' : 'not '}older than '${b}'`, () => assert.equal(isOlder(a, b), isIt));
  }
});

/** A cache, and the queue that its changes lead to. */
class Desk {
  readonly clock = new FakeClock();
  readonly queue = new WorkQueue(this.clock);
  readonly expectations = new Expectations();
  readonly #shelf = new SliceShelf();
  readonly #events: SliceEvents;

  constructor(batchPeriod = 0) {
    this.#events = new SliceEvents({
      manager: SLICES_MANAGER,
      queue: this.queue,
      expectations: this.expectations,
      isStale: (service) => this.isStale(service),
      batchPeriod,
    });
  }

  put(after: SliceObject): void {
    this.#events.on(this.#shelf.set(keyOf(after), after), after);
  }

  remove(gone: SliceObject): void {
    this.#events.on(this.#shelf.set(keyOf(gone), undefined), undefined);
  }

  isStale(service = WEB): boolean {
    return this.expectations.isStale(service, this.#shelf.of(service, SLICES_MANAGER), '');
  }

  /** Services to look at again after a second, and at once. */
  async news(): Promise<string[]> {
    this.clock.advance(1000);
    return await this.atOnce();
  }

  async atOnce(): Promise<string[]> {
    const keys: string[] = [];
    while (this.queue.depth > 0) {
      const key = await this.queue.take(new AbortController().signal);
      this.queue.done(key);
      keys.push(key);
    }
    return keys;
  }
}

function keyOf({ metadata }: SliceObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** The cache shows a slice that was written here. */
function deskWith(one: SliceObject): Desk {
  const desk = new Desk();
  desk.expectations.wrote(WEB, one, '');
  desk.put(one);
  return desk;
}

describe('a change of a slice', () => {
  it('is news when nobody here wrote it', async () => {
    const desk = new Desk();
    desk.put(slice());
    assert.deepEqual(await desk.news(), [WEB]);
  });

  it('is no news when it was written here, nor is what came before that', async () => {
    const desk = new Desk();
    desk.expectations.wrote(WEB, at('10'), '');
    desk.put(at('9'));
    desk.put(at('10'));
    assert.deepEqual(await desk.news(), []);
  });

  it('is no news when the watch shows it before the answer to the write', async () => {
    const desk = new Desk();
    desk.expectations.begin(WEB);
    desk.put(at('10'));
    desk.put(slice({ name: 'web-2', uid: 'uid-2', resourceVersion: '11' }));
    desk.expectations.wrote(WEB, at('10'), '11');
    desk.expectations.wrote(WEB, slice({ uid: 'uid-2', resourceVersion: '11' }), '11');
    assert.deepEqual([desk.expectations.end(WEB), await desk.news()], [false, []]);
    desk.put(at('12'));
    assert.deepEqual(await desk.news(), [WEB]);
  });

  it('is news when it is written while writes are under way, and is none of them', () => {
    for (const foreign of [at('12'), slice({ name: 'web-2', uid: 'uid-2', resourceVersion: '11' })]) {
      const desk = new Desk();
      desk.expectations.begin(WEB);
      desk.put(at('10'));
      desk.put(foreign);
      desk.expectations.wrote(WEB, at('10'), '12');
      assert.equal(desk.expectations.end(WEB), true);
      assert.equal(desk.expectations.end(WEB), false);
    }
  });

  it('is news when the answer to its write was lost', () => {
    const desk = new Desk();
    desk.expectations.begin(WEB);
    desk.put(at('10'));
    assert.equal(desk.expectations.end(WEB), true);
  });

  it('is news when somebody wrote it later', async () => {
    const desk = deskWith(at('10'));
    desk.put(at('11'));
    assert.deepEqual(await desk.news(), [WEB]);
    assert.equal(desk.isStale(), false);
  });

  it('is news when somebody deleted it', async () => {
    const desk = deskWith(slice());
    desk.remove(slice());
    assert.deepEqual(await desk.news(), [WEB]);
    assert.equal(desk.isStale(), false);
  });

  it('is no news when it was deleted here', async () => {
    const desk = deskWith(slice());
    desk.expectations.deleting(WEB, slice());
    desk.remove(slice());
    assert.deepEqual(await desk.news(), []);
    assert.equal(desk.isStale(), false);
  });

  it('is news when somebody begins to delete it: nothing more is expected of it, however long it is held back', async () => {
    const desk = deskWith(slice());
    const leaving = slice({ resourceVersion: '11', deletionTimestamp: '2026-11-21T00:00:00Z' });
    desk.put(leaving);
    assert.deepEqual(await desk.news(), [WEB]);
    assert.equal(desk.isStale(), false);
    desk.remove(leaving);
    assert.deepEqual(await desk.news(), []);
  });

  it('is news when another took its name while nobody watched: nothing more is expected of it', async () => {
    const desk = deskWith(slice());
    desk.put(slice({ uid: 'uid-2', resourceVersion: '20' }));
    assert.deepEqual(await desk.news(), [WEB]);
    assert.equal(desk.isStale(), false);
  });

  it('is news for both Services when somebody gave it to another', async () => {
    const desk = deskWith(slice());
    desk.put(slice({ service: 'other', resourceVersion: '11' }));
    assert.deepEqual((await desk.news()).sort(), ['default/other', WEB]);
    assert.equal(desk.isStale(), false);
  });

  it('is news when somebody took its label of the Service from it', async () => {
    const desk = deskWith(slice());
    desk.put(slice({ service: '', resourceVersion: '11' }));
    assert.deepEqual(await desk.news(), [WEB]);
  });

  it('is news when somebody took it from this controller, and when it comes back', async () => {
    const desk = deskWith(slice());
    desk.put(slice({ manager: 'somebody', resourceVersion: '11' }));
    assert.deepEqual(await desk.news(), [WEB]);
    assert.equal(desk.isStale(), false);
    desk.put(slice({ resourceVersion: '12' }));
    assert.deepEqual(await desk.news(), [WEB]);
    desk.expectations.wrote(WEB, at('13'), '');
    assert.equal(desk.isStale(), true);
  });

  it('is no news when it is another controller’s', async () => {
    const desk = new Desk();
    desk.put(slice({ manager: 'somebody' }));
    desk.put(slice({ manager: 'somebody', resourceVersion: '11' }));
    desk.remove(slice());
    assert.deepEqual(await desk.news(), []);
  });

  it('is acted on after a second, for others to come with it', () => {
    const desk = new Desk();
    desk.put(slice());
    assert.deepEqual(desk.clock.waits, [1000]);
  });

  it('is acted on after the batch period when that is longer', () => {
    const desk = new Desk(5000);
    desk.put(slice());
    assert.deepEqual(desk.clock.waits, [5000]);
  });
});

describe('a Service that waits for the cache', () => {
  function waiting(): Desk {
    const desk = new Desk();
    desk.expectations.wrote(WEB, at('10'), '');
    desk.expectations.wrote(WEB, slice({ name: 'web-2', uid: 'uid-2', resourceVersion: '11' }), '');
    desk.queue.retry(WEB);
    return desk;
  }

  it('is looked at as soon as the cache shows all that was written', async () => {
    const desk = waiting();
    desk.put(at('10'));
    assert.deepEqual(await desk.atOnce(), []);
    desk.put(slice({ name: 'web-2', uid: 'uid-2', resourceVersion: '11' }));
    assert.deepEqual(await desk.atOnce(), [WEB]);
  });

  it('is looked at as soon as the cache lacks what was deleted', async () => {
    const desk = deskWith(slice());
    desk.expectations.deleting(WEB, slice());
    desk.queue.retry(WEB);
    desk.remove(slice());
    assert.deepEqual(await desk.atOnce(), [WEB]);
  });
});
