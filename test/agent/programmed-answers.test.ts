/** `/programmed` of an agent: its answers, wrong questions, waits, and a reload that reads another source. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { noteChange } from '../../src/agent/feed.ts';
import { settle } from '../../src/agent/generation.ts';
import { MAX_WAITERS } from '../../src/agent/programmed/waiters.ts';
import { ProgrammedAnswers } from '../../src/agent/programmed-answers.ts';
import type { Family } from '../../src/base/address.ts';
import { decodeService } from '../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../src/cluster/api/decode/slice.ts';
import { Cache } from '../../src/cluster/cache/cache.ts';
import { NoAnswer, WrongQuestion } from '../../src/inspect/wire/envelope.ts';
import { type Programmed as Answer, programmedSchema } from '../../src/inspect/wire/programmed.ts';
import { ChangeLedger, MAX_BEHIND, writtenChanges } from '../../src/proxy/ledger/change-ledger.ts';
import { SOURCE_KINDS, type SourceEvent } from '../../src/proxy/model/events.ts';
import { failedReport, NOTHING_TO_DO } from '../../src/proxy/reconcile/step.ts';
import type { SyncReport } from '../../src/proxy/sync/sync-results.ts';
import { authOf as gateOf } from '../../src/serve/auth.ts';
import { healthHandler } from '../../src/serve/health-server.ts';
import type { HttpRequest } from '../../src/serve/http.ts';
import type { QueryRoute } from '../../src/serve/query-handler.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { COMMAND_LINES } from '../messages/command-lines.ts';
import { messageIn } from '../messages/row.ts';

const NEVER = new AbortController().signal;
const NOTHING = { duration: 1, drift: [], reading: 0, desiring: 0, writing: 0 };

function report(more: Partial<SyncReport> = {}): SyncReport {
  return { ...NOTHING_TO_DO, ...NOTHING, work: {} as SyncReport['work'], ...more };
}

function refusals(...refused: readonly { readonly family: Family; readonly owner: string | undefined }[]): SyncReport {
  const failed = refused.map(({ family, owner }) => ({
    ...{ key: `${family} nat KUBE-SVC-X`, family, kind: 'rules' as const, owner, line: undefined },
    ...({ blame: 'content', cause: 'no such match\nmore' } as const),
  }));
  return report({ outcome: 'partial', failed });
}

const REFUSED = refusals({ family: 'IPv4', owner: 's/bad' });

const UNREAD = report({
  outcome: 'failed',
  failed: [
    {
      ...{ key: 'read the kernel', family: undefined, kind: 'kernel', owner: undefined, line: undefined },
      ...{ blame: 'environment', cause: 'ENOMEM' },
    },
  ],
});

/** A feed whose objects a test puts. */
function feedOf(clock: FakeClock) {
  const cache = new Cache();
  const ledger = new ChangeLedger({ clock, hasChanges: () => cache.hasChanges });
  for (const of of SOURCE_KINDS) cache.take({ kind: 'synced', of });
  let version = 100;
  const take = (event: SourceEvent) => {
    cache.take(event, (before, former) => noteChange({ ledger, tap: undefined }, event, before, former));
    ledger.reached(event.kind === 'service' ? 'services' : 'slices', String(version));
    return String(version);
  };
  return {
    cache,
    ledger,
    put(object: object): string {
      const resourceVersion = String(++version);
      const { kind, metadata } = object as { kind: string; metadata: { namespace: string; name: string } };
      const key = `${metadata.namespace}/${metadata.name}`;
      const decode = kind === 'Service' ? decodeService : decodeSlice;
      return take({ ...decode(object, key), resourceVersion } as SourceEvent);
    },
    goneSlice(key: string): string {
      version += 1;
      return take({ kind: 'slice', key, slice: undefined, triggeredAt: 0, faults: [] });
    },
  };
}

const WITHOUT_IPV6: Answer['unserved'] = [{ family: 'IPv6', why: 'ip6tables is missing' }];

function agent(unserved = () => WITHOUT_IPV6) {
  const clock = new FakeClock();
  const feed = feedOf(clock);
  const said = new ProgrammedAnswers(feed, {
    clock,
    by: () => ({
      who: 'agent',
      mode: 'iptables',
      node: 'n1',
      version: '1.0.0',
      at: new Date(clock.wall()).toISOString(),
    }),
    health: () => ({ healthy: true, reasons: [] }),
    unserved,
    faults: () => 0,
    suspects: () => [],
    onProblem: (text) => assert.fail(text),
  });
  const question = said.routes.get('/programmed') as QueryRoute;
  const ask = async (query = '', signal = NEVER): Promise<Answer> =>
    programmedSchema.parse(await question.answer(new URLSearchParams(query), signal));
  const sync = (one = report(), current = feed) => {
    current.cache.takeChanges();
    current.ledger.syncBegan();
    current.ledger.syncEnded(writtenChanges(one));
    said.synced(one);
  };
  return { clock, feed, said, ask, sync };
}

const web = (...endpoints: string[]) =>
  slice({ name: 'web-1', namespace: 's', service: 'web', addressType: 'IPv4', endpoints });
const bad = (...endpoints: string[]) =>
  slice({ name: 'bad-1', namespace: 's', service: 'bad', addressType: 'IPv4', endpoints });
const webIPv6 = slice({ name: 'web-6', namespace: 's', service: 'web', addressType: 'IPv6', endpoints: ['fd00::1'] });
const webService = service({ name: 'web', namespace: 's', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } });

describe('/programmed', () => {
  it('has marks and their time, families that are not served, and the versions of a Service and its slices', async () => {
    const { clock, feed, ask, sync } = agent();
    assert.deepEqual((await ask()).marks, { services: '', slices: '' });
    feed.put(webService);
    feed.put(web('10.0.0.1'));
    clock.advance(500);
    sync();
    const at = new Date(clock.wall()).toISOString();
    clock.advance(1000);
    const after = feed.put(web('10.0.0.2'));
    const answer = await ask('service=s/web');
    assert.deepEqual([answer.marks, answer.at], [{ services: '101', slices: '102' }, at]);
    assert.deepEqual(answer.unserved, WITHOUT_IPV6);
    assert.deepEqual(answer.service, { name: 's/web', received: '101', programmed: '101', at });
    assert.deepEqual(answer.slices, [{ name: 's/web-1', received: after, programmed: '102', at }]);
    assert.equal(answer.reached, null);
  });

  it('says no of a deleted slice while a family is unserved: its rules may be left there', async () => {
    let unserved = WITHOUT_IPV6;
    const { feed, ask, sync } = agent(() => unserved);
    feed.put(webService);
    feed.put(webIPv6);
    const v = feed.goneSlice('s/web-6');
    sync();
    const { reached, why } = await ask(`slice=s/web-6&version=${v}`);
    assert.deepEqual([reached, why], [false, 'ip6tables is missing']);
    unserved = [];
    sync();
    assert.equal((await ask(`slice=s/web-6&version=${v}`)).reached, true);
  });
  for (const [what, failure] of [
    ['cannot be read', UNREAD],
    ['refuses what Services share', refusals({ family: 'IPv6', owner: undefined })],
    [
      'refuses more Services than are named',
      refusals(...Array.from({ length: MAX_BEHIND + 1 }, (_, i) => ({ family: 'IPv6', owner: `s/bad-${i}` }) as const)),
    ],
  ] as const) {
    it(`calls a family unserved that can be served now, as long as the kernel ${what}`, async () => {
      let unserved = WITHOUT_IPV6;
      const { feed, ask, sync } = agent(() => unserved);
      feed.put(webService);
      const v = feed.put(webIPv6);
      sync();
      // The next parts of the agent begin: the tool works again.
      unserved = [];
      assert.equal((await ask(`slice=s/web-6&version=${v}`)).reached, false);
      sync(failure);
      const { reached, unserved: still } = await ask(`slice=s/web-6&version=${v}`);
      assert.deepEqual([reached, still], [false, WITHOUT_IPV6]);
      sync();
      const { reached: now, unserved: after } = await ask(`slice=s/web-6&version=${v}`);
      assert.deepEqual([now, after], [true, []]);
    });
  }

  it('does not call a Service reached that the kernel refused in a family that is served again', async () => {
    let unserved = WITHOUT_IPV6;
    const { feed, ask, sync } = agent(() => unserved);
    const spec = { clusterIP: '10.96.0.3', clusterIPs: ['10.96.0.3', 'fd00::3'], ports: [{ port: 80 }] };
    const v = feed.put(service({ name: 'bad', namespace: 's', spec }));
    sync();
    unserved = [];
    sync(refusals({ family: 'IPv6', owner: 's/bad' }));
    const { reached, service: of, behind } = await ask(`service=s/bad&version=${v}`);
    assert.deepEqual([reached, of?.programmed, behind.map((one) => one.service)], [false, '', ['s/bad']]);
    sync();
    assert.equal((await ask(`service=s/bad&version=${v}`)).reached, true);
  });

  it('does not call a slice of a family reached of which nothing is written', async () => {
    const { feed, ask, sync } = agent();
    feed.put(webService);
    const v = feed.put(webIPv6);
    sync();
    const { reached, why } = await ask(`slice=s/web-6&version=${v}`);
    assert.deepEqual([reached, why], [false, 'ip6tables is missing']);
  });

  it('does not call a Service reached for whose addresses of a family nothing is written', async () => {
    const { feed, ask, sync } = agent();
    const only = feed.put(webService);
    const spec = { clusterIP: '10.96.0.2', clusterIPs: ['10.96.0.2', 'fd00::2'], ports: [{ port: 80 }] };
    const both = feed.put(service({ name: 'both', namespace: 's', spec }));
    sync();
    assert.equal((await ask(`service=s/web&version=${only}`)).reached, true);
    const { reached, why } = await ask(`service=s/both&version=${both}`);
    assert.deepEqual([reached, why], [false, 'ip6tables is missing']);
  });

  it('reads no slice for those who wait, as long as their version was not received', async (t) => {
    const { feed, ask, sync } = agent();
    feed.put(web('10.0.0.1'));
    sync();
    const end = new AbortController();
    const asking = ask('slice=s/web-1&version=999&wait=30s', end.signal);
    await Promise.resolve();
    const { slices } = feed.cache;
    const reads = [
      t.mock.method(slices, 'get'),
      t.mock.method(slices, 'resourceVersion'),
      t.mock.method(slices, 'serviceOf'),
    ];
    feed.put(bad('10.0.0.9'));
    for (const { mock } of reads) mock.resetCalls();
    sync();
    const calls = reads.map(({ mock }) => mock.callCount());
    end.abort(new Error('gone'));
    await assert.rejects(asking, /gone/);
    assert.deepEqual(calls, [0, 0, 0]);
  });

  it('lists a slice that is gone as long as the kernel may have it', async () => {
    const { feed, ask, sync } = agent(() => []);
    feed.put(bad('10.0.0.1'));
    sync();
    const gone = feed.goneSlice('s/bad-1');
    const before = await ask('service=s/bad');
    assert.deepEqual(
      before.slices.map(({ received, programmed }) => [received, programmed]),
      [['', '101']],
    );
    sync(REFUSED);
    const refused = await ask(`slice=s/bad-1&version=${gone}`);
    assert.equal(refused.reached, false);
    assert.equal(refused.why, 'Service s/bad: the kernel refused IPv4 nat KUBE-SVC-X: no such match');
    sync();
    assert.equal((await ask(`slice=s/bad-1&version=${gone}`)).reached, true);
    assert.deepEqual((await ask('service=s/bad')).slices, []);
  });

  it('says why a version is not in the kernel', async () => {
    const { feed, ask, sync } = agent();
    const why = async (query: string) => (await ask(query)).why;
    assert.equal(
      await why('slice=s/web-1&version=1'),
      'no resourceVersion of EndpointSlices was received yet; manifests have none',
    );
    const first = feed.put(web('10.0.0.1'));
    assert.equal(await why(`slice=s/web-1&version=${first}`), 'the first sync is not complete');
    assert.equal(
      await why('slice=s/web-1&version=9999'),
      `changes of EndpointSlices were received up to version ${first} only`,
    );
    sync();
    assert.equal(await why(`slice=s/web-1&version=${first}`), '');
    const second = feed.put(web('10.0.0.2'));
    assert.equal(await why(`slice=s/web-1&version=${second}`), 'the sync that writes it is not complete');
    sync(report(failedReport({ key: 'IPv4 nat', family: 'IPv4', kind: 'rules' }, 'the lock is held')));
    assert.equal(await why(`slice=s/web-1&version=${second}`), 'nothing can be written: IPv4 nat: the lock is held');
  });

  it('waits until the version is in the kernel, without a poll, or until the time is over', async () => {
    const { clock, feed, said, ask, sync } = agent();
    sync();
    const asking = ask('slice=s/web-1&version=101&wait=30s');
    const late = ask('slice=s/web-1&version=999&wait=10s');
    await Promise.resolve();
    assert.deepEqual([said.counts, clock.pending], [{ behind: 0, waiters: 2 }, 2]);
    feed.put(web('10.0.0.1'));
    sync();
    assert.equal((await asking).reached, true);
    clock.advance(10_000);
    assert.equal((await late).reached, false);
    assert.deepEqual([said.counts.waiters, clock.pending], [0, 0]);
  });

  it('moves no mark until the relay of node ports on loopback has followed the sync, and none where it fails', async () => {
    const { feed, said, ask } = agent();
    const version = feed.put(web('10.0.0.1'));
    const begin = () => {
      feed.cache.takeChanges();
      feed.ledger.syncBegan();
      const changes = feed.ledger.syncEnded(writtenChanges(report()));
      const relay = Promise.withResolvers<void>();
      const observers = { programmed: said, synced: () => relay.promise };
      return { relay, settled: settle(observers, { report: report(), changes, since: 0 }) };
    };
    const broken = begin();
    broken.relay.reject(new Error('no port'));
    await assert.rejects(broken.settled, /no port/);
    assert.equal((await ask()).marks.slices, '');
    const good = begin();
    await Promise.resolve();
    assert.equal((await ask()).marks.slices, '');
    good.relay.resolve();
    await good.settled;
    assert.equal((await ask()).marks.slices, version);
  });

  it('refuses to let more wait than a thousand', async () => {
    const { ask } = agent();
    const end = new AbortController();
    const all = Array.from({ length: MAX_WAITERS }, () => ask('slice=s/web-1&version=1&wait=5m', end.signal));
    await assert.rejects(ask('slice=s/web-1&version=1&wait=1s'), NoAnswer);
    end.abort(new Error('gone'));
    for (const one of all) await assert.rejects(one, /gone/);
  });

  it('begins anew where a reload reads another source, also for those who wait', async () => {
    const { clock, feed, said, ask, sync } = agent();
    feed.put(web('10.0.0.1'));
    sync();
    const asking = ask('slice=s/web-1&version=102&wait=30s');
    await Promise.resolve();
    const other = feedOf(clock);
    said.use(other);
    assert.deepEqual((await ask()).marks, { services: '', slices: '' });
    feed.put(web('10.0.0.9'));
    other.put(web('10.0.0.2'));
    other.put(web('10.0.0.3'));
    sync(report(), other);
    assert.deepEqual([(await asking).reached, (await asking).marks.slices], [true, '102']);
  });

  for (const [query, message] of [
    ['service=web', messageIn(COMMAND_LINES, 'slicewire: web is no Service').slice('slicewire: '.length)],
    ['slice=web-1', 'slice: web-1: write NAMESPACE/NAME, such as shop/web-x7k2p'],
    ['service=s/web&slice=s/web-1', 'service and slice: ask for one of them'],
    ['version=7', 'version: 7: say of which service= or slice= it is'],
    ['slice=s/web-1&version=x7', 'version: x7: must be a resourceVersion that is a number, such as 4711'],
    ['slice=s/web-1&wait=1s', 'wait: 1s: say for which version= to wait'],
    ['slice=s/web-1&version=7&wait=6m', 'wait: 6m: must be a duration up to 5m, such as 30s'],
    ['slice=s/web-1&version=7&wait=soon', 'wait: soon: must be a duration up to 5m, such as 30s'],
  ] as const) {
    it(`says what is wrong with ?${query}`, async () => {
      await assert.rejects(agent().ask(query), (error) => error instanceof WrongQuestion && error.message === message);
    });
  }
});

describe('/programmed on the health port', () => {
  const asked = (path: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
    ...{ method: 'GET', path, query: new URLSearchParams(), host: 'localhost:10256', signal: NEVER },
    ...{ local: '127.0.0.1', remote: '127.0.0.1', body: () => Promise.resolve('') },
    ...more,
  });

  function handler() {
    const byPath = agent().said.routes;
    const health = {} as Parameters<typeof healthHandler>[0]['health'];
    const auth = gateOf({ isOn: () => true, access: () => undefined, flag: '--programmed-authentication' });
    return healthHandler({ health, wall: () => 0, onAnswer: () => undefined, queries: { auth, byPath } });
  }

  it('answers those who may ask, and says to others why not', async () => {
    const handle = handler();
    const statuses = async (path: string, more?: Partial<HttpRequest>) => (await handle(asked(path, more))).status;
    assert.equal(await statuses('/programmed'), 200);
    assert.equal(await statuses('/programmed', { remote: '192.0.2.1', local: '192.0.2.2' }), 403);
    assert.equal(await statuses('/programmed/live', { remote: '192.0.2.1', local: '192.0.2.2' }), 403);
    assert.equal(await statuses('/programmed', { host: 'evil.example' }), 403);
    assert.equal(await statuses('/programmed', { method: 'POST' }), 405);
    assert.equal(await statuses('/programmed/more'), 404);
  });

  it('has a stream with a pace, and says what is wrong with another one', async () => {
    const handle = handler();
    const live = (query: string) => handle(asked('/programmed/live', { query: new URLSearchParams(query) }));
    assert.equal((await live('pace=100')).headers?.['content-type'], 'text/event-stream; charset=utf-8');
    for (const pace of ['49', '60001', 'x', '']) {
      const { status, body } = await live(`pace=${pace}`);
      assert.deepEqual(
        [status, String(body).includes(`pace: ${pace}: must be milliseconds, from 50 to 60000`)],
        [400, true],
      );
    }
    assert.equal((await live('speed=1')).status, 400);
  });
});
