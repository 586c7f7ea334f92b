/** The search of Services: what fits, in which order, and at which cost, also of very many. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { ServiceSearch } from '../../../src/agent/questions/service-search.ts';
import { endpointText } from '../../../src/base/address.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { goneEvent } from '../../../src/proxy/model/events.ts';
import type { Service, Slice } from '../../../src/proxy/model/objects.ts';
import { aStep } from '../../helpers/cluster/histories.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { eventOf, NEVER } from '../../helpers/proxy/rig.ts';

/** The rules of docs/reference/ports.md, written in another way than the program does it. */
function naive(search: string, { key, ...one }: Service, slices: readonly Slice[]): boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const numbers = new Set([one.healthCheckNodePort, ...one.ports.flatMap(({ port, nodePort }) => [port, nodePort])]);
  numbers.delete(0);
  const own = [...one.clusterIPs, ...one.externalIPs, ...one.loadBalancerIPs];
  const addresses: string[] = own.flatMap((address) => [
    address,
    ...one.ports.map(({ port }) => endpointText(address, port)),
  ]);
  for (const { endpoints, ports } of slices) {
    for (const { address } of endpoints) {
      addresses.push(address, ...ports.map(({ port }) => endpointText(address, port)));
    }
  }
  return words.every((word) => {
    if (key.includes(word)) return true;
    if (/^\d+$/.test(word)) return numbers.has(Number(word));
    return /[.:]/.test(word) && addresses.some((address) => address.startsWith(word));
  });
}

const aWord = fc.constantFrom(
  ...['default', 'a', 'DEFAULT/B', '/c', 'x', '80', '82', '30080', '32000', '0', '8080', '10.96.0.', '10.96.0.2'],
  ...['10.96.0.1:80', '10.96.0.1:8', '192.0.2.1', 'fd00:96::2', '[fd00:96::2]:80', '10.244.1.3', '10.244.1.3:8080'],
  ...['10.244.', 'fd00:244', '10', ':', '.', '198.51.100.1:81'],
);

describe('a search of Services', () => {
  it('finds those that fit each of its words, sorted, as a filter of all would', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { maxLength: 30 }), fc.array(aWord, { maxLength: 2 }), async (steps, words) => {
        const cache = new Cache();
        const search = new ServiceSearch(
          () => cache,
          () => 0,
        );
        const asked = words.join(' ');
        for (const [i, step] of steps.entries()) {
          if (step.kind === 'put') cache.take(eventOf(step.object));
          else if (step.kind === 'remove') {
            const [kind, key = ''] = step.id.split(' ');
            cache.take(goneEvent(kind === 'Service' ? 'services' : 'slices', key));
          }
          // The result of a former search must not be taken for this one.
          if (i % 7 === 0) await search.find(asked, NEVER);
        }
        const found = await search.find(asked, NEVER);
        const expected = [...cache.services()]
          .filter((one) => naive(asked, one, cache.slicesOf(one.key)))
          .map(({ key }) => key);
        const known = found.filter((key) => cache.service(key) !== undefined);
        assert.deepEqual(known, expected.sort());
        // The others are those that are set aside, which have nothing but a name.
        for (const key of found) assert.ok(known.includes(key) || cache.faults.of(`service ${key}`).length > 0, key);
      }),
      { numRuns: 300 },
    );
  });

  it('finds an IPv6 address in any form', async () => {
    const cache = new Cache();
    cache.take(eventOf(service({ name: 'web', spec: { clusterIP: 'fd00:96::a', ports: [{ port: 80 }] } })));
    const search = new ServiceSearch(
      () => cache,
      () => 0,
    );
    for (const text of ['fd00:96::a', 'FD00:96::A', 'fd00:0096:0:0:0:0:0:a', '[fd00:96::a]:80', 'fd00:96']) {
      assert.deepEqual(await search.find(text, NEVER), ['default/web'], text);
    }
    assert.deepEqual(await search.find('fd00:96::b', NEVER), []);
  });

  it('finds a Service that is set aside by its name', async () => {
    const cache = new Cache();
    cache.take(eventOf(service({ name: 'bad', spec: { clusterIP: 'nonsense', ports: [{ port: 80 }] } })));
    const search = new ServiceSearch(
      () => cache,
      () => 0,
    );
    assert.deepEqual(await search.find('', NEVER), ['default/bad']);
    assert.deepEqual(await search.find('bad', NEVER), ['default/bad']);
    assert.deepEqual(await search.find('10.96', NEVER), []);
    cache.take(goneEvent('services', 'default/bad'));
    assert.deepEqual(await search.find('', NEVER), []);
  });
});

describe('what a search keeps', () => {
  const web = eventOf(service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }));

  it('is not the objects from before a reload', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc');
    const now: { cache: Cache } = { cache: new Cache() };
    const search = new ServiceSearch(
      () => now.cache,
      () => 0,
    );
    const asked = async (): Promise<WeakRef<Cache>> => {
      now.cache.take(web);
      for (const text of ['', 'web', '10.96']) assert.deepEqual(await search.find(text, NEVER), ['default/web']);
      return new WeakRef(now.cache);
    };
    const former = await asked();
    now.cache = new Cache();
    await new Promise((resolve) => setTimeout(resolve, 1));
    collect();
    assert.equal(former.deref(), undefined);
    assert.deepEqual(await search.find('', NEVER), []);
  });

  it('is nothing when nobody looks', async () => {
    const cache = new Cache();
    cache.take(web);
    const search = new ServiceSearch(
      () => cache,
      () => 0,
    );
    const first = await search.find('', NEVER);
    assert.equal(await search.find('', NEVER), first);
    search.forget();
    const second = await search.find('', NEVER);
    assert.notEqual(second, first);
    assert.deepEqual(second, first);
  });
});

describe('a search of 44,000 Services', () => {
  const COUNT = 44_000;
  const cache = new Cache();
  let now = 0;
  // Backwards, so that there is something to sort.
  for (let i = COUNT - 1; i >= 0; i--) {
    const clusterIP = `10.${100 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
    cache.take(
      eventOf(service({ name: `s${i}`, namespace: `n${i % 50}`, spec: { clusterIP, ports: [{ port: 80 }] } })),
    );
    cache.take(
      eventOf(
        slice({
          name: `s${i}-x`,
          namespace: `n${i % 50}`,
          service: `s${i}`,
          endpoints: [`10.200.${(i >> 8) & 255}.${i & 255}`],
        }),
      ),
    );
  }
  const search = new ServiceSearch(
    () => cache,
    () => now,
  );

  /** The work of a search, and how often the event loop went on during it. */
  async function measured(text: string) {
    let turns = 0;
    let isOver = false;
    const others = (async () => {
      for (; !isOver; turns++) await new Promise((resolve) => setImmediate(resolve));
    })();
    const found = await search.find(text, NEVER);
    isOver = true;
    await others;
    return { found, turns };
  }

  it('lets the event loop go on, and costs nothing when it is asked again', async () => {
    const all = await measured('');
    assert.equal(all.found.length, COUNT);
    assert.ok(all.turns >= COUNT / 2000, `${all.turns} turns while it sorted`);
    const byEndpoint = await measured('10.200.77.7');
    assert.ok(byEndpoint.found.length > 0 && byEndpoint.turns >= 3, `${byEndpoint.turns} turns while it searched`);
    for (const text of ['', '10.200.77.7']) assert.ok((await measured(text)).turns <= 2, text);
    assert.equal(await search.find('', NEVER), all.found, 'the same list');
  });

  it('keeps the list while Services only change, and makes it anew when one comes or goes', async () => {
    const before = await search.find('', NEVER);
    const changed = service({ name: 's1', namespace: 'n1', spec: { clusterIP: '10.100.0.1', ports: [{ port: 81 }] } });
    cache.take(eventOf(changed));
    assert.equal(await search.find('', NEVER), before);
    const come = service({ name: 'new', namespace: 'n1', spec: { clusterIP: '10.99.0.1', ports: [{ port: 80 }] } });
    cache.take(eventOf(come));
    const after = await search.find('', NEVER);
    assert.equal(after.length, before.length + 1);
    assert.deepEqual(after, after.toSorted());
    cache.take(goneEvent('services', 'n1/new'));
    assert.equal((await search.find('', NEVER)).length, before.length);
  });

  it('takes a tenth of the time at most, however often Services change', async () => {
    const aging = new ServiceSearch(
      () => cache,
      () => now++,
    );
    const put = (port: number) => {
      const spec = { clusterIP: '10.100.0.1', ports: [{ port }] };
      cache.take(eventOf(service({ name: 's1', namespace: 'n1', spec })));
    };
    const first = await aging.find('4444', NEVER);
    put(4444);
    // The first one took ticks of this clock, and ten times as many have not passed.
    const second = await aging.find('4444', NEVER);
    now += 100;
    const third = await aging.find('4444', NEVER);
    assert.deepEqual([first.length, second.length, third.length], [4, 4, 5]);
    put(80);
  });

  it('ends with the client', async () => {
    const gone = new AbortController();
    const asked = search.find('10.200.99.9', gone.signal);
    gone.abort(new Error('the client left'));
    await assert.rejects(asked, /the client left/);
    assert.ok((await search.find('10.200.99.9', NEVER)).length > 0);
  });
});
