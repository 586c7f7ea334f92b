/** Slices of a Service as one set of endpoints, as the tests of kube-proxy's cache of slices have them; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { noteChange } from '../../../src/agent/feed.ts';
import { Cache } from '../../../src/cluster/cache/cache.ts';
import { ChangeLedger } from '../../../src/proxy/ledger/change-ledger.ts';
import { mergeSlices } from '../../../src/proxy/model/endpoints.ts';
import { goneEvent, type SourceEvent } from '../../../src/proxy/model/events.ts';
import { eventOf } from '../../helpers/proxy/rig.ts';
import { sliceOf, textsOf } from '../slice-text.ts';

const KEY = 'ns1/svc1';

/** A slice `10.0.SLICE.1` to `10.0.SLICE.COUNT`: every MOD-th is not ready, every other MOD-th drains. */
function generated(slice: number, count: number, { unready = 999, draining = 999, ports = 'port-0=80' } = {}): string {
  const words = Array.from({ length: count }, (_, i) => {
    const n = i + 1;
    const mark = n % unready === 0 ? '-' : n % draining === 0 ? '~' : '';
    return `10.0.${slice}.${n}${mark}`;
  });
  return `${words.join(' ')}:${ports}`;
}

function put(cache: Cache, slices: Readonly<Record<string, string>>): void {
  for (const [key, text] of Object.entries(slices)) cache.take(eventOf(sliceOf(key, text, 'TCP')));
}

const endpointsIn = (cache: Cache, key = KEY) => textsOf(mergeSlices(cache.slicesOf(key), 'IPv4'));

/** `port-0: 10.0.1.1:80 …` */
function expected(port: string, number: number, words: string): string {
  const texts = words.split(' ').map((word) => word.replace(/^[\d.]+/, (address) => `${address}:${number}`));
  return `${port}: ${texts.sort((a, b) => (bare(a) < bare(b) ? -1 : 1)).join(' ')}`;
}

const bare = (word: string) => word.replace(/[-~*]+$/, '');

describe('endpoints of the slices of a Service', () => {
  const ROWS: Readonly<Record<string, [slices: Record<string, string>, endpoints: string[]]>> = {
    '1 slice, 2 hosts, ports 80,443': [
      { 'ns1/svc1-1': '10.0.1.1 10.0.1.2* 10.0.1.3:port-0=80 port-1=443' },
      [expected('port-0', 80, '10.0.1.1 10.0.1.2* 10.0.1.3'), expected('port-1', 443, '10.0.1.1 10.0.1.2* 10.0.1.3')],
    ],
    '2 slices, same port': [
      { 'ns1/svc1-1': generated(1, 3), 'ns1/svc1-2': generated(2, 3) },
      [expected('port-0', 80, '10.0.1.1 10.0.1.2 10.0.1.3 10.0.2.1 10.0.2.2 10.0.2.3')],
    ],
    '2 overlapping slices, same port': [
      { 'ns1/svc1-1': generated(1, 3), 'ns1/svc1-2': generated(1, 4) },
      [expected('port-0', 80, '10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4')],
    ],
    '2 slices, overlapping endpoints, some endpoints unready in 1 or both': [
      { 'ns1/svc1-1': generated(1, 10, { unready: 3 }), 'ns1/svc1-2': generated(1, 10, { unready: 6 }) },
      [
        expected(
          'port-0',
          80,
          '10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4 10.0.1.5 10.0.1.6- 10.0.1.7 10.0.1.8 10.0.1.9 10.0.1.10',
        ),
      ],
    ],
    '2 slices, overlapping endpoints, some endpoints unready and some endpoints terminating': [
      {
        'ns1/svc1-1': generated(1, 10, { unready: 3, draining: 5 }),
        'ns1/svc1-2': generated(1, 10, { unready: 6, draining: 5 }),
      },
      [
        expected(
          'port-0',
          80,
          '10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4 10.0.1.5~ 10.0.1.6- 10.0.1.7 10.0.1.8 10.0.1.9 10.0.1.10~',
        ),
      ],
    ],
    '2 slices, overlapping endpoints, all unready': [
      { 'ns1/svc1-1': generated(1, 3, { unready: 1 }), 'ns1/svc1-2': generated(1, 3, { unready: 1 }) },
      [expected('port-0', 80, '10.0.1.1- 10.0.1.2- 10.0.1.3-')],
    ],
    '3 slices with different services and namespaces': [
      { 'ns1/svc1-1': generated(1, 3), 'ns1/svc2-2': generated(2, 3), 'ns2/svc1-3': generated(3, 3) },
      [expected('port-0', 80, '10.0.1.1 10.0.1.2 10.0.1.3')],
    ],
    'Nil port should not break anything': [{ 'ns1/svc1-1': generated(1, 3, { ports: 'port-0=' }) }, []],
    'Different endpoints with duplicate IPs should not be filtered': [
      { 'ns1/svc1-1': '10.0.1.1 10.0.1.2*:port-0=80', 'ns1/svc1-2': '10.0.1.1 10.0.1.2*:port-0=8080' },
      ['port-0: 10.0.1.1:80 10.0.1.1:8080 10.0.1.2:80* 10.0.1.2:8080*'],
    ],
    'with duplicate Endpoints, prefer non-terminating': [
      { 'ns1/svc1-1': '10.0.1.1~* 10.0.1.1* 10.0.1.1-*:port-0=80' },
      ['port-0: 10.0.1.1:80*'],
    ],
  };
  for (const [title, [slices, endpoints]] of Object.entries(ROWS)) {
    it(title, () => {
      const cache = new Cache();
      put(cache, slices);
      assert.deepEqual(endpointsIn(cache), endpoints);
      const turned = new Cache();
      put(turned, Object.fromEntries(Object.entries(slices).reverse()));
      assert.deepEqual(endpointsIn(turned), endpoints, 'in the other order of arrival');
    });
  }
});

describe('a slice that comes again', () => {
  const [PORTS, HOSTS] = ['http=80', '10.0.1.0 10.0.1.1'];
  const ROWS: Readonly<Record<string, [before: string, now: string, isChange: boolean]>> = {
    'identical slices, ports only': [`:${PORTS}`, `:${PORTS}`, false],
    'port removed': [`${HOSTS}:${PORTS} https=443`, `${HOSTS}:${PORTS}`, true],
    'port added': [`${HOSTS}:${PORTS}`, `${HOSTS}:${PORTS} https=443`, true],
    'identical with endpoints': [`${HOSTS}:${PORTS}`, `${HOSTS}:${PORTS}`, false],
    'identical with endpoint added': [`10.0.1.0:${PORTS}`, `${HOSTS}:${PORTS}`, true],
    'transition all endpoints to unready state': [`${HOSTS}:${PORTS}`, `10.0.1.0- 10.0.1.1-:${PORTS}`, true],
    'transition all endpoints to ready state': [`10.0.1.0- 10.0.1.1-:${PORTS}`, `${HOSTS}:${PORTS}`, true],
    'transition some endpoints to ready state': [`10.0.1.0- 10.0.1.1-:${PORTS}`, `10.0.1.0- 10.0.1.1:${PORTS}`, true],
    'transition some endpoints to terminating state': [`${HOSTS}:${PORTS}`, `10.0.1.0 10.0.1.1~:${PORTS}`, true],
  };
  for (const [title, [before, now, isChange]] of Object.entries(ROWS)) {
    it(title, () => {
      const cache = new Cache();
      put(cache, { 'ns1/svc1-1': before });
      cache.takeChanges();
      put(cache, { 'ns1/svc1-1': now });
      assert.deepEqual([...cache.takeChanges()], isChange ? [KEY] : []);
    });
  }
});

describe('slices that come, overlap and go', () => {
  const START = {
    'ns1/svc1-1': '10.0.1.1 10.0.1.2:port-0=80 port-1=443',
    'ns1/svc1-2': '10.0.2.1:port-0=80 port-1=443',
  };
  const at = (slice: string, text: string | undefined) => ({ slice, text });
  const ROWS: Readonly<
    Record<string, [change: { slice: string; text: string | undefined }, endpoints: string[] | undefined]>
  > = {
    "add a simple slice that doesn't already exist": [
      at('ns1/svc1-3', '10.0.3.1*:port-0=80'),
      ['port-0: 10.0.1.1:80 10.0.1.2:80 10.0.2.1:80 10.0.3.1:80*', 'port-1: 10.0.1.1:443 10.0.1.2:443 10.0.2.1:443'],
    ],
    'add the same slice that already exists': [at('ns1/svc1-1', START['ns1/svc1-1']), undefined],
    'add a slice that overlaps with existing state': [
      at('ns1/svc1-1', '10.0.1.1* 10.0.1.2* 10.0.1.3*:port-0=80 port-1=443'),
      [
        'port-0: 10.0.1.1:80* 10.0.1.2:80* 10.0.1.3:80* 10.0.2.1:80',
        'port-1: 10.0.1.1:443* 10.0.1.2:443* 10.0.1.3:443* 10.0.2.1:443',
      ],
    ],
    'add a slice that overlaps with existing state and partial ports': [
      at('ns1/svc1-3', '10.0.1.1 10.0.1.3:port-0=80'),
      ['port-0: 10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.2.1:80', 'port-1: 10.0.1.1:443 10.0.1.2:443 10.0.2.1:443'],
    ],
    'remove a slice that overlaps with existing state': [
      at('ns1/svc1-1', undefined),
      ['port-0: 10.0.2.1:80', 'port-1: 10.0.2.1:443'],
    ],
    "remove a slice that doesn't even exist in current state": [at('ns1/svc1-3', undefined), undefined],
    'removing port in update': [
      at('ns1/svc1-1', '10.0.1.1 10.0.1.2:port-0=80'),
      ['port-0: 10.0.1.1:80 10.0.1.2:80 10.0.2.1:80', 'port-1: 10.0.2.1:443'],
    ],
  };
  for (const [title, [{ slice, text }, endpoints]] of Object.entries(ROWS)) {
    it(title, () => {
      const cache = new Cache();
      put(cache, START);
      cache.takeChanges();
      const before = endpointsIn(cache);
      if (text === undefined) cache.take(goneEvent('slices', slice));
      else put(cache, { [slice]: text });
      assert.equal(cache.hasChanges, endpoints !== undefined);
      assert.deepEqual(endpointsIn(cache), endpoints ?? before);
    });
  }

  it('a slice of host names is none', () => {
    const cache = new Cache();
    put(cache, START);
    cache.takeChanges();
    const names = {
      ...sliceOf('ns1/svc1-3', ':port-0=80', 'TCP'),
      addressType: 'FQDN',
      endpoints: [{ addresses: ['a.example'] }],
    };
    cache.take(eventOf(names));
    assert.equal(cache.hasChanges, false);
  });

  it('nothing is left of slices that are deleted, of one Service or of several', () => {
    const cache = new Cache();
    const slices = { ...START, 'ns1/svc2-1': '10.0.4.1:port-0=80', 'ns2/svc1-1': '10.0.5.1:port-0=80' };
    put(cache, slices);
    assert.equal(cache.slices.count, 4);
    for (const key of Object.keys(slices)) cache.take(goneEvent('slices', key));
    assert.equal(cache.slices.count, 0);
    for (const key of [KEY, 'ns1/svc2', 'ns2/svc1']) assert.deepEqual(cache.slicesOf(key), []);
  });
});

describe('the times of the changes behind slices', () => {
  const START = Date.UTC(2026, 0, 1);
  const timed = (key: string, text: string, seconds?: number) => {
    const slice = sliceOf(key, text, 'TCP') as { metadata: Record<string, unknown> };
    if (seconds !== undefined) {
      const name = 'endpoints.kubernetes.io/last-change-trigger-time';
      slice.metadata.annotations = { [name]: new Date(START + seconds * 1000).toISOString() };
    }
    return eventOf(slice);
  };
  /** An agent that started at START, after its first sync. */
  const started = () => {
    const cache = new Cache();
    const clock = { now: () => 0, wall: () => START };
    const ledger = new ChangeLedger({ clock, hasChanges: () => cache.hasChanges });
    const sync = (hasWritten = true) => {
      cache.takeChanges();
      ledger.syncBegan();
      const ended = ledger.syncEnded({ hasFailed: !hasWritten, hasWritten, without: new Map(), why: '' });
      ledger.confirmed();
      return (ended?.triggers ?? []).map((at) => (at - START) / 1000);
    };
    const take = (...events: readonly SourceEvent[]) => {
      for (const event of events) {
        cache.take(event, (before, version) => noteChange({ ledger, tap: undefined }, event, before, version));
      }
    };
    sync();
    return { take, sync };
  };
  const taken = (...events: readonly SourceEvent[]) => {
    const { take, sync } = started();
    take(...events);
    return sync();
  };
  const [A, B] = ['ns/ep1-1', 'ns/ep2-1'];
  const [ONE, TWO] = ['10.1.1.1:p11=11', '10.1.1.1:p11=12'];

  it('are those of the slices that changed, each once', () => {
    assert.deepEqual(taken(timed(A, ONE, 1)), [1]);
    assert.deepEqual(taken(timed(A, ONE, 1), timed(A, TWO, 2)), [1, 2]);
    assert.deepEqual(taken(timed(A, ONE, 1), timed(B, ONE, 2), timed(A, TWO, 3)), [1, 2, 3]);
    assert.deepEqual(taken(timed(A, ONE, 1), timed(A, ONE, 1)), [1]);
  });

  it('are missing without the annotation, and of a slice that is deleted: its annotation is of an earlier change', () => {
    assert.deepEqual(taken(timed(A, ONE)), []);
    assert.deepEqual(taken(goneEvent('slices', A)), []);
    const { take, sync } = started();
    take(timed(A, ONE, 1));
    sync();
    take(goneEvent('slices', A));
    assert.deepEqual(sync(), []);
  });

  it('do not count from before the start, and each is taken once', () => {
    assert.deepEqual(taken(timed(A, ONE, -1), timed(A, TWO, 1)), [1]);
    const { take, sync } = started();
    take(timed(A, ONE, 1));
    assert.deepEqual(sync(false), [], 'it failed');
    take(timed(A, TWO, 2));
    assert.deepEqual(sync(), [1, 2]);
    assert.deepEqual(sync(), []);
  });
});
