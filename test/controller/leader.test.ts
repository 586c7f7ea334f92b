/** Replicas and one Lease: who works, and above all that never two do. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LeaseRig, type Replica, SETTINGS, STEP } from './lease-rig.ts';

/** `a` leads, `b` waits. */
async function pair(options = {}): Promise<{ rig: LeaseRig; a: Replica; b: Replica }> {
  const rig = new LeaseRig();
  const a = rig.replica('a', options).start();
  await rig.pass(STEP);
  const b = rig.replica('b', options).start();
  await rig.pass(STEP);
  assert.deepEqual([...rig.leading], ['a']);
  return { rig, a, b };
}

/** Seconds at which something happened first. */
function when(rig: LeaseRig, what: string): number {
  const line = rig.log.find((one) => one.endsWith(` ${what}`));
  assert.ok(line, `${what}, in: ${rig.log.join('; ')}`);
  return Number(line.split(' ')[0]);
}

describe('getting the lease', () => {
  it('the first replica makes the Lease, and leads', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a').start();
    await rig.pass(0);
    assert.deepEqual(rig.store.writes, [
      {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'controller', namespace: 'kube-system' },
        spec: {
          holderIdentity: 'a',
          leaseDurationSeconds: 15,
          acquireTime: '2026-11-21T00:00:00.000000Z',
          renewTime: '2026-11-21T00:00:00.000000Z',
          leaseTransitions: 0,
        },
      },
    ]);
    assert.deepEqual([[...rig.leading], a.elector.isLeader, a.leaders], [['a'], true, ['a']]);
    await rig.stop(a);
  });

  it('the second waits as long as the first renews, and reports the leader once', async () => {
    const { rig, a, b } = await pair();
    await rig.pass(60_000);
    assert.deepEqual(rig.log, ['0 a leads']);
    assert.deepEqual([b.leaders, b.failures, b.elector.isLeader], [['a'], [], false]);
    assert.ok(a.elector.age <= SETTINGS.retryPeriod, `renewed ${a.elector.age} ms ago`);
    await rig.stop(a, b);
  });

  it('a renewal keeps the time at which the lease was got', async () => {
    const { rig, a, b } = await pair();
    await rig.pass(2000);
    assert.deepEqual(rig.store.lease?.spec, {
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      acquireTime: '2026-11-21T00:00:00.000000Z',
      renewTime: '2026-11-21T00:00:02.000000Z',
      leaseTransitions: 0,
    });
    await rig.stop(a, b);
  });

  it('of two that see a free lease at once one leads, and the other reports the conflict', async () => {
    const rig = new LeaseRig();
    const replicas = ['a', 'b'].map((name) => rig.replica(name));
    for (const replica of replicas) {
      Object.assign(replica.line, { to: 100, back: 100 });
      replica.start();
    }
    await rig.pass(400);
    assert.deepEqual([...rig.leading], ['a']);
    assert.match(replicas[1]?.failures.join() ?? '', /409 already exists$/);
    await rig.pass(20_000);
    assert.deepEqual(rig.log, ['0.4 a leads']);
    await rig.stop(...replicas);
  });

  it('retries after a failure, and reports it', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a');
    a.line.isCut = true;
    a.start();
    await rig.pass(3000);
    assert.equal(a.answers, 0);
    a.line.isCut = false;
    await rig.pass(1000);
    assert.deepEqual(a.failures, ['https://api cannot be reached']);
    assert.equal(a.answers, 1, 'the failure is over');
    // 2 s and 0.6 times 2 s: the fake chance is a half, of at most 1.2.
    assert.deepEqual(rig.log, ['3.2 a leads']);
    await rig.stop(a);
  });

  it('whose create was made without an answer finds the lease to be its own', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a');
    a.line.onWrite = () => {
      throw new Error('connection lost');
    };
    a.start();
    await rig.pass(0);
    assert.deepEqual([a.failures, [...rig.leading]], [['connection lost'], []]);
    a.line.onWrite = () => undefined;
    await rig.pass(4000);
    assert.deepEqual([[...rig.leading], rig.store.lease?.spec?.leaseTransitions], [['a'], 0]);
    await rig.stop(a);
  });
});

describe('taking over', () => {
  it('happens after the duration since the last renewal was seen, and counts', async () => {
    const { rig, a, b } = await pair();
    await rig.pass(7800);
    a.line.isCut = true;
    await rig.pass(30_000);
    const stopped = when(rig, 'a stops');
    const taken = when(rig, 'b leads');
    assert.equal(stopped, 6 + 10, 'the last renewal was at 6 s');
    // b looks every 3.2 s, and saw that renewal at its next look.
    assert.ok(taken >= 6 + 15 && taken <= 6 + 15 + 2 * 3.2, `taken at ${taken}`);
    assert.equal(rig.store.lease?.spec?.leaseTransitions, 1);
    assert.equal(rig.store.lease?.spec?.acquireTime, rig.store.writes.at(-1)?.spec?.acquireTime);
    assert.notEqual(rig.store.lease?.spec?.acquireTime, '2026-11-21T00:00:00.000000Z');
    assert.deepEqual(b.leaders, ['a', 'b']);
    await rig.stop(a, b);
  });

  for (const [name, hours] of [
    ['ahead', 5],
    ['behind', -5],
  ] as const) {
    it(`does not depend on clocks that agree: one is hours ${name}`, async () => {
      const rig = new LeaseRig();
      const a = rig.replica('a').start();
      await rig.pass(STEP);
      const b = rig.replica('b', { wallSkew: hours * 3_600_000, nowSkew: 77_000 }).start();
      await rig.pass(30_000);
      assert.deepEqual(rig.log, ['0 a leads']);
      a.line.isCut = true;
      await rig.pass(30_000);
      assert.deepEqual([rig.mostLeading, ...rig.leading], [1, 'b']);
      await rig.stop(a, b);
    });
  }

  it('waits for the duration that the holder wrote, were its own shorter', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a', { settings: { leaseDuration: 60_000, renewDeadline: 50_000 } }).start();
    await rig.pass(STEP);
    const b = rig.replica('b').start();
    a.line.isCut = true;
    await rig.pass(90_000);
    assert.ok(when(rig, 'b leads') >= 60, rig.log.join('; '));
    assert.equal(rig.mostLeading, 1);
    await rig.stop(a, b);
  });

  it('need not wait when the leader stops: it gives the lease back', async () => {
    const { rig, a, b } = await pair();
    await a.stop();
    assert.deepEqual(
      [rig.store.lease?.spec?.holderIdentity, rig.store.lease?.spec?.leaseDurationSeconds, a.elector.isLeader],
      ['', 1, false],
    );
    await rig.pass(3200);
    assert.deepEqual([rig.mostLeading, ...rig.leading], [1, 'b']);
    await rig.stop(b);
  });

  it('the lease is given back only after the work has ended', async () => {
    const rig = new LeaseRig();
    const work = Promise.withResolvers<void>();
    const a = rig.replica('a').start(() => work.promise);
    await rig.pass(STEP);
    const stopped = a.stop();
    await rig.pass(STEP);
    assert.equal(rig.store.lease?.spec?.holderIdentity, 'a');
    work.resolve();
    await stopped;
    assert.equal(rig.store.lease?.spec?.holderIdentity, '');
  });

  it('a replica that waits leaves the lease alone when it stops', async () => {
    const { rig, a, b } = await pair();
    await b.stop();
    assert.equal(rig.store.lease?.spec?.holderIdentity, 'a');
    await rig.stop(a);
  });

  for (const [name, line] of [
    ['cannot be given back', { isCut: true }],
    ['is asked back, and nobody answers', { to: 3_600_000, heedsSignals: false }],
  ] as const) {
    it(`a lease that ${name} does not delay the stop, and is reported`, async () => {
      const rig = new LeaseRig();
      const a = rig.replica('a').start();
      await rig.pass(STEP);
      Object.assign(a.line, line);
      const stopped = a.stop();
      await rig.pass(2000);
      await stopped;
      assert.equal(a.failures.length, 1);
      assert.equal(rig.store.lease?.spec?.holderIdentity, 'a');
    });
  }
});

describe('keeping the lease', () => {
  it('a leader that reaches the API server again before the deadline goes on', async () => {
    const { rig, a, b } = await pair();
    a.line.isCut = true;
    await rig.pass(7500);
    a.line.isCut = false;
    await rig.pass(30_000);
    assert.deepEqual(rig.log, ['0 a leads']);
    assert.deepEqual(new Set(a.failures), new Set(['https://api cannot be reached']));
    await rig.stop(a, b);
  });

  it('stops at the deadline however long the pause between two tries', async () => {
    const { rig, a, b } = await pair({ settings: { renewDeadline: 14_000, retryPeriod: 10_000 } });
    a.line.isCut = true;
    await rig.pass(60_000);
    assert.equal(when(rig, 'a stops'), 14);
    assert.equal(rig.mostLeading, 1);
    await rig.stop(a, b);
  });

  it('stops at the deadline when answers come late, and reports it', async () => {
    const { rig, a, b } = await pair();
    a.line.back = 20_000;
    await rig.pass(60_000);
    assert.equal(when(rig, 'a stops'), 10);
    assert.deepEqual([rig.mostLeading, ...rig.leading], [1, 'b']);
    assert.equal(a.failures[0], 'no answer within 8.0 s');
    await rig.stop(a, b);
  });

  it('counts the deadline from the last request that was answered, not from its answer', async () => {
    const { rig, a, b } = await pair();
    a.line.back = 1500;
    await rig.pass(5500);
    a.line.isCut = true;
    await rig.pass(60_000);
    assert.equal(when(rig, 'a stops'), 12);
    assert.equal(rig.mostLeading, 1);
    await rig.stop(a, b);
  });

  it('stops at the deadline when a request does not end with its signal, and what comes of it later changes nothing', async () => {
    const { rig, a, b } = await pair();
    Object.assign(a.line, { to: 9000, back: 9000, heedsSignals: false });
    await rig.pass(16_000);
    assert.deepEqual([when(rig, 'a stops'), a.elector.isLeader], [10, false]);
    a.line.isCut = true;
    await rig.pass(60_000);
    assert.deepEqual([rig.mostLeading, a.elector.isLeader, ...rig.leading], [1, false, 'b']);
    await rig.stop(a, b);
  });

  it('stops at the deadline when renewals are made but their answers are lost', async () => {
    const { rig, a, b } = await pair();
    a.line.losesAnswers = true;
    await rig.pass(10_000);
    assert.equal(when(rig, 'a stops'), 10);
    a.line.losesAnswers = false;
    await rig.pass(10_000);
    assert.deepEqual([rig.mostLeading, rig.leading.size], [1, 1]);
    await rig.stop(a, b);
  });

  it('does not lead by an answer that is older than the deadline', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a');
    Object.assign(a.line, { back: 30_000, heedsSignals: false });
    a.start();
    await rig.pass(35_000);
    assert.deepEqual([rig.log, a.elector.isLeader], [[], false]);
    await rig.stop(a);
  });

  it('does not lead by an answer that it reads late, as it stood still itself', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a');
    a.line.onWrite = () => {
      a.nowSkew += 20_000;
    };
    a.start();
    await rig.pass(0);
    assert.deepEqual([rig.log, a.elector.isLeader, a.failures], [[], false, ['no answer within 10.0 s']]);
    await rig.stop(a);
  });

  it('leads again when no other replica took the lease, and reports it', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a').start();
    await rig.pass(0);
    a.line.isCut = true;
    await rig.pass(11_000);
    assert.deepEqual([rig.leading.size, a.elector.isLeader], [0, false]);
    a.line.isCut = false;
    await rig.pass(4000);
    assert.deepEqual([[...rig.leading], a.leaders], [['a'], ['a', 'a']]);
    await rig.stop(a);
  });

  it('stops at the next renewal when another holder was written into the Lease, and reports it once', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a').start();
    await rig.pass(0);
    const { metadata = {}, spec = {} } = rig.store.lease ?? {};
    rig.store.edit({ metadata, spec: { ...spec, holderIdentity: 'x' } });
    await rig.pass(4000);
    assert.deepEqual(
      [rig.log, a.leaders],
      [
        ['0 a leads', '2 a stops'],
        ['a', 'x'],
      ],
    );
    await rig.stop(a);
  });

  it('goes on when somebody else wrote the Lease at the same time', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a').start();
    await rig.pass(STEP);
    a.line.to = 100;
    await rig.pass(2050);
    rig.store.edit(rig.store.read(''));
    await rig.pass(10_000);
    assert.match(a.failures.join(), /^[^,]*409 the object has been modified$/);
    assert.deepEqual(rig.log, ['0 a leads']);
    await rig.stop(a);
  });

  it('ends with what the work failed of', async () => {
    const rig = new LeaseRig();
    const a = rig.replica('a').start(() => Promise.reject(new Error('broken')));
    await rig.pass(0);
    await assert.rejects(a.stop(), /broken/);
  });
});

/** What happens to the line of a replica, some steps after what happened before. */
const event = fc.record({
  replica: fc.nat(2),
  after: fc.integer({ min: 1, max: 200 }),
  line: fc.record({
    isCut: fc.boolean(),
    losesAnswers: fc.boolean(),
    to: fc.integer({ min: 0, max: 300 }).map((steps) => steps * STEP),
    back: fc.integer({ min: 0, max: 300 }).map((steps) => steps * STEP),
    heedsSignals: fc.boolean(),
  }),
});

describe('three replicas over bad lines', () => {
  for (const settings of [
    { leaseDuration: 15_000, renewDeadline: 10_000, retryPeriod: 2000 },
    { leaseDuration: 15_000, renewDeadline: 14_500, retryPeriod: 11_000 },
  ]) {
    it(`never lead two at a time (renewals every ${settings.retryPeriod / 1000} s), and one leads in the end`, async () => {
      const property = fc.asyncProperty(fc.array(event, { maxLength: 12 }), async (events) => {
        const rig = new LeaseRig();
        const replicas = ['a', 'b', 'c'].map((name) => rig.replica(name, { settings }).start());
        for (const { replica, after, line } of events) {
          Object.assign(replicas[replica]?.line ?? {}, line);
          await rig.pass(after * STEP);
        }
        for (const { line } of replicas) {
          Object.assign(line, { isCut: false, losesAnswers: false, to: 0, back: 0, heedsSignals: true });
        }
        await rig.pass(70_000);
        assert.deepEqual([rig.mostLeading, rig.leading.size], [1, 1], rig.log.join('; '));
        await rig.stop(...replicas);
      });
      await fc.assert(property, { numRuns: 60 });
    });
  }
});
