/** Health tells the truth (reference 9.1, invariant 8): told here with a clock that the test moves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { WatchStatus } from '../../src/model/events.ts';
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
    return this;
  }

  ask(path: '/healthz' | '/livez' = '/healthz'): {
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
    assert.deepEqual(Object.keys(told.ask('/livez').body), ['lastUpdated', 'currentTime', 'healthy', 'status']);
    assert.deepEqual(told.answers, ['healthz 200', 'livez 200']);
  });

  it('knows no other path', () => {
    const { status } = healthHandler({ health: new Told().health, wall: () => 0, onAnswer: () => assert.fail() })({
      path: '/',
    } as Asked) as Answer;
    assert.equal(status, 404);
  });

  it('waits for the first sync for as long as for any, and no longer (k8s#83263)', () => {
    const told = new Told();
    told.now = TIMEOUT - 1;
    assert.equal(told.ask().status, 200);
    told.now = TIMEOUT;
    const { status, body } = told.ask('/livez');
    assert.deepEqual([status, body.healthy, body.lastUpdated], [503, false, '2026-01-01T00:00:00.000Z']);
    told.synced();
    assert.equal(told.ask().status, 200);
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
    assert.deepEqual(body.reasons, ['IPv4: changes are not in the kernel since 60 s']);
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
    assert.deepEqual(told.ask('/livez').body.reasons, [
      'the rules could not be verified since 60 s: the lock is held by pid 7',
    ]);
    told.health.verified();
    assert.equal(told.ask('/livez').status, 200);
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

  it('has nothing to write while the first lists are waited for; whether they come is a matter of the watches', () => {
    const told = new Told({ families: [] });
    told.now = 600_000;
    told.watches = [{ of: 'services', heardAt: 0, failure: { since: 0, isServers: true, cause: 'refused' } }];
    assert.equal(told.ask('/livez').status, 200);
    told.health.tune(told.settings());
    told.now += TIMEOUT - 1;
    assert.equal(told.ask('/livez').status, 200);
    told.now += 1;
    assert.equal(told.ask('/livez').status, 503);
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
