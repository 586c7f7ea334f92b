/** The comparisons of a shadow, beside a kube-proxy in memory that writes when the test says so. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { KubeProxyRules } from '../../src/agent/questions/kube-proxy-rules.ts';
import { ChangeLedger } from '../../src/proxy/ledger/change-ledger.ts';
import type { FrontendAt } from '../../src/proxy/model/claims.ts';
import type { ServiceKey } from '../../src/proxy/model/objects.ts';
import { SyncLoop } from '../../src/proxy/sync/loop.ts';
import { Comparing, Pace } from '../../src/shadow/comparing.ts';
import { Findings } from '../../src/shadow/findings.ts';
import type { Lasting } from '../../src/shadow/lasting-differences.ts';
import { LATE_MS } from '../../src/shadow/programming.ts';
import type { WatchedProxy } from '../../src/shadow/watched-proxy.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { until } from '../helpers/base/until.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { type AskedNode, askedNode } from '../helpers/inspect/explain/asking.ts';

const WEB = 'shop/web' as ServiceKey;
const PORTS = [{ port: 80, targetPort: 8080, protocol: 'TCP' }];
const web = service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.20', ports: PORTS } });
const endpoints = (...addresses: readonly string[]) =>
  slice({
    ...{
      name: 'web-1',
      namespace: 'shop',
      service: 'web',
      addressType: 'IPv4',
      ports: [{ port: 8080, protocol: 'TCP' }],
    },
    endpoints: addresses.map((address) => ({ addresses: [address], nodeName: 'node', conditions: { ready: true } })),
  });

/** kube-proxy, whose rules are those of slicewire in the same mode, and a shadow that follows the same objects. */
class Scene {
  readonly clock = new FakeClock();
  readonly theirs: AskedNode = askedNode('nftables');
  readonly ours: AskedNode = askedNode('nftables');
  readonly findings: Findings;
  readonly latencies: number[] = [];
  readonly begun: Lasting[] = [];
  readonly ended: Lasting[] = [];
  /** The commits that the shadow has not looked at. */
  readonly commits: number[] = [];
  served: FrontendAt[] = [];
  /** Called when the rules are read. */
  onRead: () => Promise<void> = () => Promise.resolve();
  readonly #ledger: ChangeLedger;
  readonly #comparing: Comparing;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(watched: Partial<WatchedProxy> = {}) {
    const { rig } = this.ours;
    const { cache, model, mode, flows } = rig;
    this.#ledger = new ChangeLedger({ clock: this.clock, hasChanges: () => cache.hasChanges });
    this.findings = new Findings({ theirs: (latency) => this.latencies.push(latency), plan: () => undefined });
    const noop = () => undefined;
    const loop = new SyncLoop({
      ...{ cache, model, mode, flows, clock: this.clock, nodeName: 'node', retry: 0, onUnread: noop, onFault: noop },
      onPorts: (...changes) => this.#comparing.onPorts(...changes),
    });
    const rules: KubeProxyRules = {
      views: [],
      served: () => Promise.resolve(this.served),
      remembered: () => Promise.resolve(new Map()),
      replacedBy: (own) => own,
    };
    this.#comparing = new Comparing({
      agent: { feed: { cache, ledger: this.#ledger }, loop, mode, model },
      watched: {
        ...{ sight: 'rules compared', measures: true, pause: undefined, isCheap: true },
        look: (programming) => {
          for (const at of this.commits.splice(0)) programming.committed(at, () => true);
          return Promise.resolve();
        },
        rules: async () => {
          await this.onRead();
          return rules;
        },
        renew: () => false,
        close: noop,
        ...watched,
      },
      ...{ findings: this.findings, pace: new Pace(this.clock), clock: this.clock },
      facts: () => Promise.resolve(this.ours.facts({ stands: this.theirs.view })),
      onDifferences: ({ begun, ended }) => {
        this.begun.push(...begun);
        this.ended.push(...ended);
      },
      isOutdated: () => Promise.resolve(false),
    });
    for (const object of [web, endpoints('10.244.1.11')])
      for (const one of [this.theirs, this.ours]) one.rig.put(object);
    this.#running = this.theirs.sync().then(() => this.#comparing.run(this.#stop.signal));
    this.#running.catch(() => undefined);
  }

  async end(): Promise<void> {
    this.#stop.abort(new Error('the test is over'));
    await assert.rejects(this.#running, /the test is over/);
  }

  /** Everything that is due now is done. */
  async settled(): Promise<void> {
    for (let i = 0; i < 200; i++) await turn();
  }

  /** In steps, because each wait follows another. */
  async pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 500) {
      this.clock.advance(Math.min(left, 500));
      await this.settled();
    }
  }

  /** Both receive the endpoints; the shadow takes them. */
  async change(...addresses: readonly string[]): Promise<void> {
    this.receive(...addresses);
    this.#comparing.wake();
    await this.settled();
  }

  receive(...addresses: readonly string[]): void {
    const object = endpoints(...addresses);
    for (const one of [this.theirs, this.ours]) one.rig.put(object);
    this.#ledger.changed({ of: 'slices', key: 'shop/web-1', service: WEB, before: '', isGone: false, triggeredAt: 0 });
  }

  async remove(): Promise<void> {
    for (const one of [this.theirs, this.ours]) one.rig.remove('Service', WEB).remove('EndpointSlice', 'shop/web-1');
    this.#ledger.changed({ of: 'services', key: WEB, service: WEB, before: '', isGone: true, triggeredAt: 0 });
    this.#comparing.wake();
    await this.settled();
  }

  /** kube-proxy writes what it has received. */
  async commit(): Promise<void> {
    await this.theirs.sync();
    await this.commitOther();
  }

  /** kube-proxy writes something else. */
  async commitOther(): Promise<void> {
    this.commits.push(this.clock.now());
    this.#comparing.committed();
    await this.settled();
  }

  get kinds(): readonly string[] {
    return this.findings.differences.all.map(({ service: of, kind, since }) => `${of} ${kind} since ${since}`);
  }
}

describe('a shadow compares', () => {
  let scene: Scene;
  const begin = async (watched: Partial<WatchedProxy> = {}) => {
    scene = new Scene(watched);
    await until('the first round', () => scene.findings.problem === undefined);
    await scene.settled();
    assert.deepEqual(scene.kinds, []);
  };
  afterEach(() => scene.end());

  describe('rules that it reads where packets pass', () => {
    beforeEach(() => begin());

    it('and times the commit that has a change', async () => {
      await scene.pass(1000);
      await scene.change('10.244.1.12');
      assert.deepEqual([scene.findings.programming.waiting().oldest, scene.kinds], [1000, []]);
      await scene.pass(2000);
      await scene.commitOther();
      await scene.pass(500);
      assert.deepEqual(scene.latencies, [], 'the commit of another Service');
      await scene.commit();
      assert.deepEqual([scene.latencies, scene.findings.programming.waiting().services], [[2500], 0]);
      assert.deepEqual([scene.findings.planned.summary(scene.clock.now())?.changes, scene.begun], [1, []]);
    });

    it('and does not time a change that one of two commits had, nor one that the rules had before', async () => {
      await scene.change('10.244.1.12');
      await scene.change('10.244.1.13');
      await scene.pass(1000);
      scene.commits.push(scene.clock.now() - 900);
      await scene.commit();
      assert.deepEqual(scene.latencies, []);
      scene.receive('10.244.1.14');
      await scene.theirs.sync();
      await scene.change('10.244.1.14');
      assert.deepEqual([scene.latencies, scene.kinds], [[], []]);
      await scene.pass(5000);
      await scene.commit();
      assert.deepEqual(scene.latencies, [], 'a later commit has nothing of it');
    });

    it('and calls a change different when it is late, since it was received', async () => {
      await scene.pass(1000);
      await scene.change('10.244.1.12');
      await scene.pass(LATE_MS - 1000);
      assert.deepEqual(scene.kinds, []);
      await scene.pass(3000);
      assert.deepEqual(scene.kinds, ['shop/web changed since 1000']);
      assert.deepEqual(scene.latencies, []);
    });

    it('and calls it different also where the Service changes all the time', async () => {
      for (let i = 0; i < 4; i++) {
        await scene.change(`10.244.1.${20 + i}`);
        await scene.pass(9000);
      }
      assert.deepEqual(scene.kinds, ['shop/web changed since 0']);
    });

    it('and takes a difference back as soon as kube-proxy has repaired it', async () => {
      await scene.change('10.244.1.12');
      await scene.pass(LATE_MS + 3000);
      assert.equal(scene.kinds.length, 1);
      const round = scene.findings.round?.at;
      await scene.commit();
      assert.deepEqual([scene.kinds, scene.ended.length], [[], 1]);
      assert.equal(scene.findings.round?.at, round, 'without a round');
    });

    it('and calls an address foreign only when it stays', async () => {
      scene.served = [{ family: 'IPv4', protocol: 'TCP', address: '10.96.0.20' as never, port: 80 }];
      await scene.pass(20_000);
      await scene.remove();
      await scene.pass(15_000);
      assert.ok((scene.findings.round?.at ?? 0) >= 30_000, 'a round went by');
      assert.deepEqual(scene.kinds, []);
      await scene.pass(60_000);
      assert.equal(scene.kinds.length, 1);
      assert.match(scene.kinds[0] ?? '', /^ foreign since \d+$/);
    });
  });

  it('a change that is not measured only when it is late', async () => {
    await begin({ measures: false });
    await scene.change('10.244.1.12');
    await scene.pass(LATE_MS - 1000);
    assert.deepEqual([scene.kinds, scene.findings.programming.unmeasured], [[], 1]);
    await scene.pass(3000);
    assert.deepEqual(scene.kinds, ['shop/web changed since 0']);
  });

  it('no Service for ever that is gone', async () => {
    await begin({ isCheap: false, measures: false, look: () => Promise.resolve() });
    await scene.remove();
    assert.equal(scene.findings.programming.waiting().services, 1);
    await scene.pass(2 * LATE_MS + 2000);
    assert.equal(scene.findings.programming.waiting().services, 0);
  });

  it('nothing with rules that were read before the change', async () => {
    await begin({
      isCheap: false,
      look: (programming) => {
        for (const at of scene.commits.splice(0)) {
          programming.committed(at, () => true);
          for (const one of [...programming.candidates()]) programming.written(one);
        }
        return Promise.resolve();
      },
    });
    // The change and kube-proxy's commit come while a round reads the rules, which are those of before.
    let isRead = false;
    scene.onRead = async () => {
      if (isRead) return;
      isRead = true;
      await scene.change('10.244.1.12');
      scene.commits.push(scene.clock.now());
    };
    await scene.pass(LATE_MS + 1000);
    assert.ok(isRead);
    assert.deepEqual([scene.begun, scene.kinds], [[], []]);
  });
});
