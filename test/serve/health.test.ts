/** Health tells the truth (reference 9.1, invariant 8): told here with a clock that the test moves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SourceKind, WatchStatus } from '../../src/model/events.ts';
import type { NodeView } from '../../src/model/objects.ts';
import { Health, type HealthSettings } from '../../src/serve/health.ts';
import { healthHandler } from '../../src/serve/health-server.ts';
import type { Answer, Asked } from '../../src/serve/http.ts';

const TIMEOUT = 60_000;
const START = Date.UTC(2026, 0, 1);
const NODE: NodeView = { name: 'n', zone: '', addresses: [], podCIDRs: [], isEligible: true };

class Told {
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
      waitingFor: () => this.waitingFor,
      watches: () => this.watches,
      node: () => this.node,
      hasNodes: true,
      ...settings,
    };
  }

  /** A sync of both families at this time, and the kernel looked at. */
  synced(): this {
    this.health.synced(['IPv4', 'IPv6'], this.now);
    this.health.verified();
    this.health.checked();
    return this;
  }

  ask(path: '/healthz' | '/livez' | '/readyz' = '/healthz'): {
    status: number;
    headers: Answer['headers'];
    body: Record<string, unknown>;
  } {
    const wall = () => START + this.now;
    const onAnswer = (asked: string, status: number) => this.answers.push(`${asked} ${status}`);
    const handler = healthHandler({ health: this.health, wall, onAnswer });
    const { status, headers, body } = handler({ path } as Asked) as Answer;
    return { status, headers, body: JSON.parse(String(body)) };
  }
}

describe('health', () => {
  it('answers as kube-proxy does: fields, their order, headers', () => {
    const told = new Told().synced();
    told.now = 1500;
    const { status, headers, body } = told.ask();
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
      assert.deepEqual(Object.keys(told.ask(path).body), ['lastUpdated', 'currentTime', 'healthy', 'status']);
    }
    assert.deepEqual(told.answers, ['healthz 200', 'livez 200', 'readyz 200']);
  });

  it('knows no other path', () => {
    const { status } = healthHandler({ health: new Told().health, wall: () => 0, onAnswer: () => assert.fail() })({
      path: '/',
    } as Asked) as Answer;
    assert.equal(status, 404);
  });

  it('is alive before the first sync, and neither ready nor for load balancers, of every family (k8s#83263)', () => {
    const told = new Told();
    const reasons = ['IPv4: the first sync is not complete yet', 'IPv6: the first sync is not complete yet'];
    const status = Object.fromEntries(
      ['IPv4', 'IPv6'].map((family) => [family, { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false }]),
    );
    for (const path of ['/readyz', '/healthz'] as const) {
      const { status: code, body } = told.ask(path);
      assert.deepEqual([code, body.healthy, body.reasons, body.status], [503, false, reasons, status]);
      assert.equal(body.lastUpdated, '2026-01-01T00:00:00.000Z');
    }
    const { status: alive, body } = told.ask('/livez');
    assert.deepEqual([alive, body.healthy, body.reasons, body.notes], [200, true, undefined, reasons]);
    told.health.synced(['IPv4'], 0, new Map([['IPv6', 'ip6tables-restore waited in vain for the xtables lock']]));
    const last = 'IPv6: the first sync is not complete yet: ip6tables-restore waited in vain for the xtables lock';
    for (const path of ['/readyz', '/healthz'] as const) assert.deepEqual(told.ask(path).body.reasons, [last]);
    told.synced();
    for (const path of ['/livez', '/readyz', '/healthz'] as const) assert.equal(told.ask(path).status, 200);
  });

  it('is not ready while the first lists are waited for, says what is missing and why, and never has an empty status', () => {
    const told = new Told({ families: [] });
    told.now = 92_000;
    told.waitingFor = ['services', 'slices'];
    told.watches = [
      { of: 'services', heardAt: 0, failure: { since: 0, isServers: true, cause: 'ECONNREFUSED 10.0.0.1:6443' } },
      { of: 'nodes', heardAt: 0, failure: { since: 0, isServers: true, cause: 'of no matter' } },
    ];
    const reason =
      'the first lists of Services and EndpointSlices have not come since 92 s: ECONNREFUSED 10.0.0.1:6443';
    for (const path of ['/readyz', '/healthz'] as const) {
      const { status, body } = told.ask(path);
      assert.deepEqual([status, body.reasons], [503, [reason]]);
      assert.deepEqual(body.status, {
        IPv4: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false },
        IPv6: { lastUpdated: '2026-01-01T00:00:00.000Z', healthy: false },
      });
    }
    // A restart would not bring an API server back.
    told.now = 24 * 3_600_000;
    const { status, body } = told.ask('/livez');
    assert.deepEqual([status, body.healthy, Object.keys(body.status as object)], [200, true, ['IPv4', 'IPv6']]);
    told.waitingFor = [];
    assert.match(String(told.ask('/readyz').body.reasons), /^the first sync has not begun yet/);
  });

  it('is not ready from the moment on when the kernel cannot be written, and ill only when that lasts', () => {
    const told = new Told().synced();
    told.now = 10_000;
    const cause = 'iptables-restore waited in vain for the xtables lock, which flock (process 7) holds';
    told.health.synced(['IPv6'], 10_000, new Map([['IPv4', cause]]));
    assert.deepEqual(told.ask('/readyz').body.reasons, [`IPv4: the kernel cannot be written: ${cause}`]);
    assert.deepEqual([told.ask('/healthz').status, told.ask('/livez').status], [200, 200]);
    assert.deepEqual(told.ask('/livez').body.notes, [`IPv4: the kernel cannot be written: ${cause}`]);
    told.now = 70_000;
    told.health.verified();
    assert.deepEqual(told.ask('/healthz').body.reasons, [`IPv4: changes are not in the kernel since 60 s: ${cause}`]);
    told.now = 24 * 3_600_000;
    told.health.checked();
    assert.equal(told.ask('/livez').status, 200, 'no restart gives the lock back');
    told.synced();
    assert.equal(told.ask('/readyz').status, 200);
  });

  it('tells what the kernel refuses of single Services, and is well', () => {
    const told = new Told().synced();
    const note = 'Service default/game: the kernel refused IPv4 nat KUBE-SEP-X: no SCTP';
    told.health.refused([note]);
    for (const path of ['/livez', '/readyz', '/healthz'] as const) {
      const { status, body } = told.ask(path);
      assert.deepEqual([status, body.healthy, body.notes], [200, true, [note]]);
    }
    told.health.refused([]);
    assert.equal(told.ask().body.notes, undefined);
  });

  it('is dead when a sync does not end, and when one that was asked for does not begin; a long one is none of them', () => {
    const limit = 360_000;
    const told = new Told().synced();
    told.health.queued();
    told.health.syncBegan();
    told.now = limit - 1;
    told.synced();
    assert.equal(told.ask('/livez').status, 200);
    told.now = limit;
    told.synced();
    const hangs = ['a sync hangs: it began 360 s ago and has not ended'];
    for (const path of ['/livez', '/readyz', '/healthz'] as const) {
      const { status, body } = told.ask(path);
      assert.deepEqual([status, body.healthy, body.reasons], [503, false, hangs]);
    }
    // What was asked for while it went on could not begin before its end.
    told.health.queued();
    told.now = 2 * limit;
    told.health.syncEnded();
    told.synced();
    assert.equal(told.ask('/livez').status, 200);
    told.now = 3 * limit;
    told.health.checked();
    assert.deepEqual(told.ask('/livez').body.reasons, ['syncs hang: one was asked for 360 s ago and none began']);
    told.health.syncBegan();
    assert.equal(told.ask('/livez').status, 200);
  });

  it('gives a sync twice the syncPeriod where that is longer', () => {
    const told = new Told({ timeout: 900_000 }).synced();
    told.health.syncBegan();
    told.now = 899_999;
    assert.equal(told.ask('/livez').status, 200);
    told.now = 900_000;
    assert.equal(told.ask('/livez').status, 503);
  });

  it('is dead when the look after the kernel does not come round', () => {
    const told = new Told().synced();
    told.now = 419_999;
    assert.equal(told.ask('/livez').status, 200);
    told.now = 420_000;
    assert.deepEqual(told.ask('/livez').body.reasons, [
      'the look after the kernel hangs: it came round last 420 s ago',
    ]);
    told.health.checked();
    assert.equal(told.ask('/livez').status, 200);
  });

  it('is ill when a change is not in the kernel after the timeout, counted from the first, per family (k8s#105742)', () => {
    const told = new Told().synced();
    told.now = 10_000;
    told.health.queued();
    told.now = 40_000;
    told.health.queued();
    told.health.verified();
    // IPv6 is written, IPv4 is not: a lock that is not had, a refusal.
    told.health.synced(['IPv6'], 45_000);
    told.now = 69_999;
    assert.equal(told.ask().status, 200);
    told.now = 70_000;
    const { status, body } = told.ask();
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
    assert.deepEqual(body.reasons, ['IPv4: changes are not in the kernel since 60 s: not all was written']);
    told.synced();
    assert.equal(told.ask().status, 200);
  });

  it('keeps a change in mind that came during a sync, whatever becomes of the next', () => {
    const told = new Told().synced();
    told.now = 10_000;
    told.health.queued();
    told.now = 11_000;
    told.health.queued();
    // It began between the two.
    told.health.synced(['IPv4', 'IPv6'], 10_500);
    told.now = 70_000;
    // The next fails, and nobody asks for more: retries do not count as new.
    told.health.synced([], 12_000);
    told.health.verified();
    told.now = 70_999;
    assert.equal(told.ask().status, 200);
    told.now = 71_000;
    assert.equal(told.ask().status, 503);
  });

  it('is ill when a sync that nobody asked for fails: a resync of the kernel', () => {
    const told = new Told().synced();
    told.now = 10_000;
    told.health.synced([], 9000);
    told.now = 68_000;
    told.health.verified();
    assert.equal(told.ask().status, 200);
    told.now = 69_000;
    assert.equal(told.ask().status, 503);
  });

  it('does not take a change for written that came while the sync went on', () => {
    const told = new Told().synced();
    told.now = 20_000;
    told.health.queued();
    // This one began before.
    told.health.synced(['IPv4', 'IPv6'], 19_000);
    told.health.verified();
    told.now = 79_000;
    told.health.verified();
    told.now = 80_000;
    assert.equal(told.ask().status, 503);
  });

  it('is ill when the rules could not be looked at for the timeout, and says why', () => {
    const told = new Told().synced();
    told.now = 30_000;
    told.health.notVerified('the lock is held by pid 7');
    told.now = TIMEOUT;
    for (const path of ['/readyz', '/healthz'] as const) {
      assert.deepEqual(told.ask(path).body.reasons, [
        'the rules could not be verified since 60 s: the lock is held by pid 7',
      ]);
    }
    assert.equal(told.ask('/livez').status, 200, 'a restart would not see more');
    told.health.verified();
    assert.equal(told.ask('/healthz').status, 200);
  });

  it('is ill when a watch is refused, not when it is silent nor when the API server cannot be reached (k8s#76338, k8s#134648)', () => {
    const told = new Told();
    const at = (now: number, watch: Omit<WatchStatus, 'of'>) => {
      told.now = now;
      told.synced();
      told.watches = [{ of: 'slices', ...watch }];
      return told.ask();
    };
    const failure = { since: 0, isServers: false, cause: '/api: 403 Forbidden' };
    // A quiet cluster has nothing to say on a watch.
    assert.equal(at(3_600_000, { heardAt: 0, failure: undefined }).status, 200);
    assert.equal(at(59_000, { heardAt: 0, failure }).status, 200);
    assert.deepEqual(at(60_000, { heardAt: 0, failure }).body.reasons, [
      'EndpointSlices cannot be followed since 60 s: /api: 403 Forbidden',
    ]);
    const { status, body } = at(600_000, { heardAt: 0, failure: { ...failure, isServers: true } });
    assert.deepEqual(
      [status, body.notes],
      [200, ['EndpointSlices cannot be followed since 600 s: /api: 403 Forbidden']],
    );
  });

  it('keeps load balancers away from a Node that is leaving or not known, and stays alive (reference 9.1)', () => {
    const told = new Told().synced();
    for (const node of [undefined, { ...NODE, isEligible: false }]) {
      told.node = node;
      const { status, body } = told.ask();
      assert.deepEqual([status, body.nodeEligible, body.healthy], [503, false, true]);
      assert.equal(told.ask('/livez').status, 200);
    }
    const alone = new Told({ hasNodes: false }).synced();
    alone.node = undefined;
    assert.equal(alone.ask().status, 200);
  });

  it('keeps what is pending when its settings change, and a new family is pending from then on', () => {
    const told = new Told({ families: ['IPv4'] }).synced();
    told.now = 10_000;
    told.health.queued();
    told.health.tune(told.settings({ timeout: 20_000 }));
    told.health.verified();
    told.now = 29_999;
    assert.equal(told.ask().status, 200);
    told.health.verified();
    told.now = 30_000;
    assert.deepEqual(told.ask().body.reasons, [
      'IPv4: changes are not in the kernel since 20 s',
      'IPv6: changes are not in the kernel since 20 s',
    ]);
  });
});
