/** Health tells the truth (docs/semantics.md 9.4, invariant 8), with a clock that the test moves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SourceKind, WatchStatus } from '../../src/proxy/model/events.ts';
import type { NodeView } from '../../src/proxy/model/objects.ts';
import { Health } from '../../src/serve/health.ts';
import type { HealthSettings } from '../../src/serve/health-judgement.ts';
import { healthHandler } from '../../src/serve/health-server.ts';
import type { Answer, HttpRequest } from '../../src/serve/http.ts';

const TIMEOUT = 60_000;
const START = Date.UTC(2026, 0, 1);
const NODE: NodeView = { name: 'n', zone: '', addresses: [], podCIDRs: [], isEligible: true };

class HealthUnderTest {
  now = 0;
  node: NodeView | undefined = NODE;
  watches: WatchStatus[] = [];
  waitingFor: SourceKind[] = [];
  readonly answers: string[] = [];
  readonly health: Health;

  constructor(settings: Partial<HealthSettings> = {}) {
    const clock = { now: () => this.now, wall: () => START + this.now };
    this.health = new Health(clock, this.settings(settings));
  }

  settings(settings: Partial<HealthSettings> = {}): HealthSettings {
    return {
      timeout: TIMEOUT,
      families: ['IPv4', 'IPv6'],
      expected: ['IPv4', 'IPv6'],
      unserved: [],
      waitingFor: () => this.waitingFor,
      watches: () => this.watches,
      node: () => this.node,
      datapathCheck: 'none' as const,
      hasNodes: true,
      ...settings,
    };
  }

  /** A sync of both families now, and a check of the kernel. */
  synced(): this {
    this.health.synced(['IPv4', 'IPv6'], this.now);
    this.health.verified();
    this.health.checked();
    return this;
  }

  ask(path: '/healthz' | '/livez' | '/readyz' | '/healthz/datapath' = '/healthz'): {
    status: number;
    headers: Answer['headers'];
    body: Record<string, unknown>;
  } {
    const wall = () => START + this.now;
    const onAnswer = (asked: string, status: number) => this.answers.push(`${asked} ${status}`);
    const handler = healthHandler({ health: this.health, wall, onAnswer });
    const { status, headers, body } = handler({ path } as HttpRequest) as Answer;
    return { status, headers, body: status === 404 ? {} : JSON.parse(String(body)) };
  }
}

describe('health', () => {
  it('answers as kube-proxy does: fields, their order, headers', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 1500;
    const { status, headers, body } = agent.ask();
    assert.equal(status, 200);
    assert.deepEqual(headers, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' });
    assert.deepEqual(Object.entries(body), [
      ['lastUpdated', '2026-01-01T00:00:01.500Z'],
      ['currentTime', '2026-01-01T00:00:01.500Z'],
      ['nodeEligible', true],
      ['healthy', true],
      [
        'status',
        {
          IPv4: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: true },
          IPv6: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: true },
        },
      ],
    ]);
    for (const path of ['/livez', '/readyz'] as const) {
      assert.deepEqual(Object.keys(agent.ask(path).body), ['lastUpdated', 'currentTime', 'healthy', 'status']);
    }
    assert.deepEqual(agent.answers, ['healthz 200', 'livez 200', 'readyz 200']);
  });

  it('is not ready, but healthy, while a takeover is not decided, and says that alone of a takeover that went back', () => {
    const agent = new HealthUnderTest().synced();
    agent.health.takeover('the takeover is not confirmed yet');
    const { status, body } = agent.ask('/readyz');
    assert.deepEqual([status, body.reasons], [503, ['the takeover is not confirmed yet']]);
    assert.deepEqual([agent.ask('/healthz').status, agent.ask('/livez').status], [200, 200]);
    agent.health.takeover('it went back');
    agent.health.synced([], 0, new Map([['IPv4', 'nothing is written']]));
    assert.deepEqual(agent.ask('/readyz').body.reasons, ['it went back']);
    agent.health.takeover(undefined);
    agent.synced();
    assert.equal(agent.ask('/readyz').status, 200);
  });

  it('tells of the data path where that is checked, and makes healthz depend on it only where that is asked for', () => {
    const broken = ['a connection does not arrive'];
    for (const [datapathCheck, healthz, datapath] of [
      ['none', 200, 404],
      ['report', 200, 503],
      ['healthz', 503, 503],
    ] as const) {
      const agent = new HealthUnderTest({ datapathCheck }).synced();
      agent.health.brokenPaths(broken);
      assert.equal(agent.ask('/healthz').status, healthz, datapathCheck);
      assert.equal(agent.ask('/readyz').status, 200);
      assert.equal(agent.ask('/healthz/datapath').status, datapath);
      agent.health.brokenPaths([]);
      assert.equal(agent.ask('/healthz').status, 200);
    }
  });

  it('answers 404 to other paths', () => {
    const { status } = healthHandler({
      health: new HealthUnderTest().health,
      wall: () => 0,
      onAnswer: () => assert.fail(),
    })({
      path: '/',
    } as HttpRequest) as Answer;
    assert.equal(status, 404);
  });

  it('is alive before the first sync, but neither ready nor healthy, for every family (k8s#83263)', () => {
    const agent = new HealthUnderTest();
    const reasons = ['IPv4: the first sync is not complete yet', 'IPv6: the first sync is not complete yet'];
    const status = Object.fromEntries(
      ['IPv4', 'IPv6'].map((family) => [family, { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false }]),
    );
    for (const path of ['/readyz', '/healthz'] as const) {
      const { status: code, body } = agent.ask(path);
      assert.deepEqual([code, body.healthy, body.reasons, body.status], [503, false, reasons, status]);
      assert.equal(body.lastUpdated, '2026-01-01T00:00:00.000Z');
    }
    const { status: alive, body } = agent.ask('/livez');
    assert.deepEqual([alive, body.healthy, body.reasons, body.notes], [200, true, undefined, reasons]);
    agent.health.synced(['IPv4'], 0, new Map([['IPv6', 'ip6tables-restore did not get the xtables lock']]));
    const last = 'IPv6: the first sync is not complete yet: ip6tables-restore did not get the xtables lock';
    for (const path of ['/readyz', '/healthz'] as const) assert.deepEqual(agent.ask(path).body.reasons, [last]);
    agent.synced();
    for (const path of ['/livez', '/readyz', '/healthz'] as const) assert.equal(agent.ask(path).status, 200);
  });

  it('is not ready while it waits for the first lists, says which are missing and why, and never has an empty status', () => {
    const agent = new HealthUnderTest({ families: [] });
    agent.now = 92_000;
    agent.waitingFor = ['services', 'slices'];
    agent.watches = [
      { of: 'services', heardAt: 0, failure: { since: 0, isServers: true, cause: 'ECONNREFUSED 10.0.0.1:6443' } },
      { of: 'nodes', heardAt: 0, failure: { since: 0, isServers: true, cause: 'irrelevant' } },
    ];
    const reason =
      'the first lists of Services and EndpointSlices have not arrived for 92 s: ECONNREFUSED 10.0.0.1:6443';
    for (const path of ['/readyz', '/healthz'] as const) {
      const { status, body } = agent.ask(path);
      assert.deepEqual([status, body.reasons], [503, [reason]]);
      assert.deepEqual(body.status, {
        IPv4: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false },
        IPv6: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false },
      });
    }
    // A restart would not bring an API server back.
    agent.now = 24 * 3_600_000;
    const { status, body } = agent.ask('/livez');
    assert.deepEqual([status, body.healthy, Object.keys(body.status as object)], [200, true, ['IPv4', 'IPv6']]);
    agent.waitingFor = [];
    assert.match(String(agent.ask('/readyz').body.reasons), /^the first sync has not begun yet/);
  });

  it('is not ready as soon as the kernel cannot be written, and unhealthy only when that lasts', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 10_000;
    const cause = 'iptables-restore waited in vain for the xtables lock, which flock (process 7) holds';
    agent.health.synced(['IPv6'], 10_000, new Map([['IPv4', cause]]));
    assert.deepEqual(agent.ask('/readyz').body.reasons, [`IPv4: the kernel cannot be written: ${cause}`]);
    assert.deepEqual([agent.ask('/healthz').status, agent.ask('/livez').status], [200, 200]);
    assert.deepEqual(agent.ask('/livez').body.notes, [`IPv4: the kernel cannot be written: ${cause}`]);
    agent.now = 70_000;
    agent.health.verified();
    assert.deepEqual(agent.ask('/healthz').body.reasons, [
      `IPv4: changes have not reached the kernel for 60 s: ${cause}`,
    ]);
    agent.now = 24 * 3_600_000;
    agent.health.checked();
    assert.equal(agent.ask('/livez').status, 200, 'no restart gives the lock back');
    agent.synced();
    assert.equal(agent.ask('/readyz').status, 200);
  });

  it('names the Services that the kernel refuses, and stays healthy', () => {
    const agent = new HealthUnderTest().synced();
    const note = 'Service default/game: the kernel refused IPv4 nat KUBE-SEP-X: no SCTP';
    agent.health.refused([note]);
    for (const path of ['/livez', '/readyz', '/healthz'] as const) {
      const { status, body } = agent.ask(path);
      assert.deepEqual([status, body.healthy, body.notes], [200, true, [note]]);
    }
    agent.health.refused([]);
    assert.equal(agent.ask().body.notes, undefined);
  });

  it('names what is not served because tools of the node do not work, and stays healthy', () => {
    const note = 'one family is not served: cannot start ip6tables: no such program';
    const agent = new HealthUnderTest({ families: ['IPv4'], unserved: [note] }).synced();
    for (const path of ['/livez', '/readyz', '/healthz'] as const) {
      const { status, body } = agent.ask(path);
      assert.deepEqual([status, body.notes], [200, [note]]);
    }
    agent.health.tune(agent.settings());
    assert.equal(agent.synced().ask().body.notes, undefined);
  });

  it('is not alive when a sync does not end, and when a requested sync does not begin; a long sync is alive', () => {
    const limit = 360_000;
    const agent = new HealthUnderTest().synced();
    agent.health.queued();
    agent.health.syncBegan();
    agent.now = limit - 1;
    agent.synced();
    assert.equal(agent.ask('/livez').status, 200);
    agent.now = limit;
    agent.synced();
    const hangs = ['a sync hangs: it began 360 s ago and has not ended'];
    for (const path of ['/livez', '/readyz', '/healthz'] as const) {
      const { status, body } = agent.ask(path);
      assert.deepEqual([status, body.healthy, body.reasons], [503, false, hangs]);
    }
    // A sync that was requested meanwhile could not begin before its end.
    agent.health.queued();
    agent.now = 2 * limit;
    agent.health.syncEnded();
    agent.synced();
    assert.equal(agent.ask('/livez').status, 200);
    agent.now = 3 * limit;
    agent.health.checked();
    assert.deepEqual(agent.ask('/livez').body.reasons, ['syncs hang: one was requested 360 s ago and none has begun']);
    agent.health.syncBegan();
    assert.equal(agent.ask('/livez').status, 200);
  });

  it('gives a sync twice the syncPeriod where that is longer', () => {
    const agent = new HealthUnderTest({ timeout: 900_000 }).synced();
    agent.health.syncBegan();
    agent.now = 899_999;
    assert.equal(agent.ask('/livez').status, 200);
    agent.now = 900_000;
    assert.equal(agent.ask('/livez').status, 503);
  });

  it('is not alive when the checks of the kernel hang', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 419_999;
    assert.equal(agent.ask('/livez').status, 200);
    agent.now = 420_000;
    assert.deepEqual(agent.ask('/livez').body.reasons, ['the check of the kernel hangs: the last one was 420 s ago']);
    agent.health.checked();
    assert.equal(agent.ask('/livez').status, 200);
  });

  it('is unhealthy when a change has not reached the kernel after the timeout, counted from the first, per family (k8s#105742)', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 10_000;
    agent.health.queued();
    agent.now = 40_000;
    agent.health.queued();
    agent.health.verified();
    // IPv6 is written, IPv4 is not: for want of a lock, or after a refusal.
    agent.health.synced(['IPv6'], 45_000);
    agent.now = 69_999;
    assert.equal(agent.ask().status, 200);
    agent.now = 70_000;
    const { status, body } = agent.ask();
    assert.equal(status, 503);
    assert.deepEqual(
      Object.entries(body.status as Record<string, { healthy: boolean }>).map(([family, { healthy }]) => [
        family,
        healthy,
      ]),
      [
        ['IPv4', false],
        ['IPv6', true],
      ],
    );
    assert.deepEqual(body.reasons, ['IPv4: changes have not reached the kernel for 60 s: not all was written']);
    agent.synced();
    assert.equal(agent.ask().status, 200);
  });

  it('remembers a change that came during a sync, whatever happens to the next sync', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 10_000;
    agent.health.queued();
    agent.now = 11_000;
    agent.health.queued();
    // This sync began between the two requests.
    agent.health.synced(['IPv4', 'IPv6'], 10_500);
    agent.now = 70_000;
    // The next one fails, and nothing more is requested: retries do not count as new.
    agent.health.synced([], 12_000);
    agent.health.verified();
    agent.now = 70_999;
    assert.equal(agent.ask().status, 200);
    agent.now = 71_000;
    assert.equal(agent.ask().status, 503);
  });

  it('is unhealthy when a resync of the kernel fails, which nothing requested', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 10_000;
    agent.health.synced([], 9000);
    agent.now = 68_000;
    agent.health.verified();
    assert.equal(agent.ask().status, 200);
    agent.now = 69_000;
    assert.equal(agent.ask().status, 503);
  });

  it('does not take a change for written that came during the sync', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 20_000;
    agent.health.queued();
    // This sync began before the request.
    agent.health.synced(['IPv4', 'IPv6'], 19_000);
    agent.health.verified();
    agent.now = 79_000;
    agent.health.verified();
    agent.now = 80_000;
    assert.equal(agent.ask().status, 503);
  });

  it('is unhealthy when the rules could not be checked for the timeout, and says why', () => {
    const agent = new HealthUnderTest().synced();
    agent.now = 30_000;
    agent.health.notVerified('the lock is held by pid 7');
    agent.now = TIMEOUT;
    for (const path of ['/readyz', '/healthz'] as const) {
      assert.deepEqual(agent.ask(path).body.reasons, [
        'the rules could not be verified for 60 s: the lock is held by pid 7',
      ]);
    }
    assert.equal(agent.ask('/livez').status, 200, 'a restart would not help');
    agent.health.verified();
    assert.equal(agent.ask('/healthz').status, 200);
  });

  it('is unhealthy when a watch is refused, not when it is silent or the API server is unreachable (k8s#76338, k8s#134648)', () => {
    const agent = new HealthUnderTest();
    const at = (now: number, watch: Omit<WatchStatus, 'of'>) => {
      agent.now = now;
      agent.synced();
      agent.watches = [{ of: 'slices', ...watch }];
      return agent.ask();
    };
    const failure = { since: 0, isServers: false, cause: '/api: 403 Forbidden' };
    // A quiet cluster sends nothing on a watch.
    assert.equal(at(3_600_000, { heardAt: 0, failure: undefined }).status, 200);
    assert.equal(at(59_000, { heardAt: 0, failure }).status, 200);
    assert.deepEqual(at(60_000, { heardAt: 0, failure }).body.reasons, [
      'EndpointSlices could not be followed for 60 s: /api: 403 Forbidden',
    ]);
    const { status, body } = at(600_000, { heardAt: 0, failure: { ...failure, isServers: true } });
    assert.deepEqual(
      [status, body.notes],
      [200, ['EndpointSlices could not be followed for 600 s: /api: 403 Forbidden']],
    );
  });

  it('is unhealthy for a Node that is ineligible or unknown, and stays alive (docs/semantics.md 9.4)', () => {
    const agent = new HealthUnderTest().synced();
    for (const node of [undefined, { ...NODE, isEligible: false }]) {
      agent.node = node;
      const { status, body } = agent.ask();
      assert.deepEqual([status, body.nodeEligible, body.healthy], [503, false, true]);
      assert.equal(agent.ask('/livez').status, 200);
    }
    const alone = new HealthUnderTest({ hasNodes: false }).synced();
    alone.node = undefined;
    assert.equal(alone.ask().status, 200);
  });

  it('keeps pending changes when its settings change, and a new family is pending from then on', () => {
    const agent = new HealthUnderTest({ families: ['IPv4'] }).synced();
    agent.now = 10_000;
    agent.health.queued();
    agent.health.tune(agent.settings({ timeout: 20_000 }));
    agent.health.verified();
    agent.now = 29_999;
    assert.equal(agent.ask().status, 200);
    agent.health.verified();
    agent.now = 30_000;
    assert.deepEqual(agent.ask().body.reasons, [
      'IPv4: changes have not reached the kernel for 20 s',
      'IPv6: changes have not reached the kernel for 20 s',
    ]);
  });
});
