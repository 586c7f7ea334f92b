import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import type { FleetEndpoint } from '../../src/fleet/types.ts';
import { drainedSchema } from '../../src/inspect/wire/drained.ts';
import { NoAnswer } from '../../src/inspect/wire/envelope.ts';
import { serviceModel } from '../helpers/proxy/model/service-model.ts';
import { addressOf, endpoint, facts, fleetRig, LEAVE_OUT_AFTER, pod, slice, terminating } from './core-rig.ts';

describe('a Pod', () => {
  it('is drained when every node has the version in which it no longer takes connections, and not before', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'), endpoint('web-2', 'ready'));
    rig.programmed('n1', 'n2');
    const asked = rig.ask(pod('web-1'));
    await rig.settle(1000);
    assert.ok(asked.isWaiting, 'it is ready');
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.programmed('n1');
    await rig.settle();
    assert.ok(asked.isWaiting, 'n2 is behind');
    rig.programmed('n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
    assert.deepEqual(drainedSchema.parse(asked.answer), asked.answer);
    const { of, services, nodes, why } = asked.answer;
    assert.deepEqual({ of, services, why }, { of: 'Pod shop/web-1', services: ['shop/web'], why: '' });
    assert.deepEqual([nodes.programmed, nodes.behindCount], [2, 0]);
  });

  it('is drained by its address too, and when it is in no slice any more', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'));
    rig.set();
    const asked = rig.ask({ kind: 'address', address: addressOf('web-1') });
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.deepEqual(
      [asked.answer?.drained, asked.answer?.of, asked.answer?.services],
      [true, '10.1.0.1', ['shop/web']],
    );
  });

  it('is not drained while it is the last that serves', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'unready'));
    rig.programmed('n1', 'n2');
    const asked = rig.ask(pod('web-1'), 5000);
    await rig.settle(5000);
    assert.equal(asked.answer?.drained, false);
    assert.equal(
      asked.answer?.why,
      'Service shop/web still sends new connections to 10.1.0.1: no endpoint is ready, so those that terminate are used.',
    );
    assert.equal(rig.drains.answered.late, 1);
  });

  it('is drained by port and family: ready endpoints count for their own', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'));
    const other = { ...endpoint('web-2', 'ready'), address: 'fd00::2' as Address };
    rig.objects.setSlice('shop/web-b', slice('shop/web-b', 'shop/web', [other], 'IPv6'), rig.next());
    assert.match(rig.objects.takes(pod('web-1')) ?? '', /no endpoint is ready/);
    rig.objects.setSlice('shop/web-c', slice('shop/web-c', 'shop/web', [endpoint('web-3', 'ready')]), rig.next());
    assert.equal(rig.objects.takes(pod('web-1')), undefined);
  });

  it('is not drained while it is the only one on its node for a policy Local', async () => {
    const rig = fleetRig();
    const local = { type: 'NodePort', externalTrafficPolicy: 'Local' } as const;
    rig.objects.setService('shop/web', serviceModel('shop/web', local), rig.next());
    rig.set(endpoint('web-1', 'draining', 'n1'), endpoint('web-2', 'ready', 'n2'));
    assert.match(rig.objects.takes(pod('web-1')) ?? '', /policy is Local and no endpoint on Node n1 is ready/);
    rig.set(endpoint('web-1', 'draining', 'n1'), endpoint('web-2', 'ready', 'n2'), endpoint('web-3', 'ready', 'n1'));
    assert.equal(rig.objects.takes(pod('web-1')), undefined);
    // A cluster IP has no external traffic.
    rig.set(endpoint('web-1', 'draining', 'n1'), endpoint('web-2', 'ready', 'n2'));
    rig.objects.setService('shop/web', serviceModel('shop/web', { externalTrafficPolicy: 'Local' }), rig.next());
    assert.equal(rig.objects.takes(pod('web-1')), undefined);
  });

  it('is not drained while its Service publishes endpoints that are not ready', () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'published'), endpoint('web-2', 'ready'));
    assert.match(rig.objects.takes(pod('web-1')) ?? '', /publishes not ready addresses/);
  });

  it('is not drained while another slice has it ready', () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ending'), endpoint('web-2', 'ready'));
    assert.equal(rig.objects.takes(pod('web-1')), undefined);
    rig.objects.setSlice('shop/web-b', slice('shop/web-b', 'shop/web', [endpoint('web-1', 'ready')]), rig.next());
    assert.match(rig.objects.takes(pod('web-1')) ?? '', /it is ready/);
  });

  it('waits anew when it was used again for a moment', async () => {
    const rig = fleetRig();
    const [used, spare] = [endpoint('web-1', 'draining'), endpoint('web-2', 'ready')];
    rig.set(used, spare);
    rig.programmed('n1');
    const asked = rig.ask(pod('web-1'));
    rig.set(used, endpoint('web-2', 'unready'));
    rig.programmed('n2');
    rig.set(used, spare);
    await rig.settle();
    assert.ok(asked.isWaiting, 'n2 may have the version in between');
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('that no slice has had is drained when all that was seen is programmed, the first list of slices included', async () => {
    const rig = fleetRig({ isListed: false });
    rig.set(endpoint('web-2', 'ready'));
    rig.programmed('n1', 'n2');
    rig.next();
    rig.list();
    const asked = rig.ask(pod('job-1'));
    await rig.settle();
    assert.ok(asked.isWaiting, 'a slice may have gone just before the list');
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.deepEqual([asked.answer?.drained, asked.answer?.services], [true, []]);
  });
});

describe('a fleet that was started again', () => {
  /** The agents have all but the last version. */
  const restarted = () => {
    const rig = fleetRig({ isListed: false });
    rig.set(endpoint('web-1', 'ending'), endpoint('web-2', 'ready'));
    rig.programmed('n1', 'n2');
    return rig;
  };

  it('waits for the version of its list, because another slice that had the Pod may have gone just before', async () => {
    const rig = restarted();
    rig.next();
    rig.list();
    const asked = rig.ask(pod('web-1'));
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('needs the newest versions where a list shows a change: the Pod may have taken connections again before it', async () => {
    for (const isListed of [false, true]) {
      const rig = fleetRig();
      const draining = [endpoint('web-1', 'draining'), endpoint('web-2', 'ready')];
      rig.set(endpoint('web-1', 'ready'), endpoint('web-2', 'ready'));
      rig.set(...draining);
      const need = rig.version;
      rig.programmed('n1');
      const asked = rig.ask(pod('web-1'));
      await rig.settle();
      // Between these two versions web-2 was not ready, and n1 wrote that.
      const between = rig.next();
      rig.event('n1', { marks: [[between, between, 0]] });
      rig.objects.setSlice('shop/web-a', slice('shop/web-a', 'shop/web', draining), rig.next(), !isListed);
      rig.event('n2', { marks: [[need, need, 0]] });
      await rig.settle();
      assert.equal(asked.isWaiting, isListed);
      rig.programmed('n1', 'n2');
      await rig.settle();
      assert.ok(asked.answer?.drained);
    }
  });

  it('needs the newest versions where a list shows it in a slice of another Service, which may have used it before', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'), endpoint('web-2', 'ready'));
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    const need = rig.version;
    rig.programmed('n1');
    const asked = rig.ask(pod('web-1'));
    await rig.settle();
    rig.objects.setSlice(
      'shop/all-a',
      slice('shop/all-a', 'shop/all', [endpoint('web-1', 'ending')]),
      rig.next(),
      false,
    );
    rig.event('n2', { marks: [[need, need, 0]] });
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('waits for the list of Services where the Service of a slice is gone, and else not', async () => {
    for (const isGone of [false, true]) {
      const rig = restarted();
      const slices = rig.version;
      rig.objects.synced('services', String(Number(slices) + 1));
      rig.objects.synced('slices', slices);
      rig.nodes.synced('nodes');
      rig.nodes.synced('agents');
      const other = slice('shop/other-a', 'shop/other', [endpoint('web-1', 'ready')]);
      if (isGone) rig.objects.setSlice('shop/other-a', other, slices, false);
      const asked = rig.ask(pod('web-1'));
      await rig.settle();
      assert.equal(asked.isWaiting, isGone);
      for (const name of ['n1', 'n2']) rig.event(name, { marks: [[String(Number(slices) + 1), slices, 0]] });
      await rig.settle();
      assert.ok(asked.answer?.drained);
    }
  });
});

describe('a question waits for', () => {
  it('a node that refuses the Service, whose name and reason it says', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'), endpoint('web-2', 'ready'));
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.event('n1', { behind: { set: [{ service: 'shop/web', why: 'File exists', age: 10 }], gone: [] } });
    rig.programmed('n1', 'n2');
    const asked = rig.ask(pod('web-1'), 5000);
    await rig.settle();
    assert.ok(asked.isWaiting);
    await rig.settle(5000);
    assert.equal(asked.answer?.drained, false);
    assert.equal(asked.answer?.nodes.behindCount, 1);
    assert.equal(asked.answer?.nodes.behind[0]?.node, 'n1');
    assert.match(asked.answer?.nodes.behind[0]?.why ?? '', /older version of Service shop\/web .*: File exists/);
    const again = rig.ask(pod('web-1'));
    rig.event('n1', { behind: { set: [], gone: ['shop/web'] } });
    await rig.settle();
    assert.ok(again.answer?.drained);
  });

  it('a node that refuses any Service of the namespace, where no Service of the Pod is known', async () => {
    const rig = fleetRig();
    rig.event('n1', { behind: { set: [{ service: 'shop/old', why: 'refused', age: 0 }], gone: [] } });
    rig.programmed('n1', 'n2');
    const asked = rig.ask(pod('job-1'));
    const other = rig.ask({ kind: 'pod', pod: 'bank/job-1' });
    await rig.settle();
    assert.ok(asked.isWaiting);
    assert.ok(other.answer?.drained);
  });

  it('a node that refuses such a Service also when the Pod appears in another one meanwhile', async () => {
    const rig = fleetRig();
    const why = 'the kernel refused it';
    rig.event('n2', { behind: { set: [{ service: 'shop/former', why, age: 0 }], gone: [] } });
    const asked = rig.ask(pod('web-9'));
    rig.set(endpoint('web-1', 'ready'), endpoint('web-9', 'unready'));
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.event('n2', { behind: { set: [], gone: ['shop/former'] } });
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('a node that writes nothing of its family, and not for one of the other family', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.programmed('n1', 'n2');
    rig.event('n1', { unserved: [{ family: 'IPv6', why: 'no tables' }] });
    assert.ok((await rig.drains.ask(pod('web-1'), { timeout: 1, signal: new AbortController().signal })).drained);
    rig.event('n1', { unserved: [{ family: 'IPv4', why: 'no tables' }] });
    const asked = rig.ask(pod('web-1'), 5000);
    await rig.settle(5000);
    assert.match(asked.answer?.nodes.behind[0]?.why ?? '', /writes no IPv4: no tables/);
  });

  it('a node whose agent is gone, has no connection or is too old, while its Node exists', async () => {
    const rig = fleetRig({ nodes: ['n1', 'n2', 'n3'] });
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.nodes.setAgent('n1', undefined);
    rig.nodes.setLink('n2', { state: 'failed', why: 'connection refused' });
    rig.nodes.setLink('n3', { state: 'too old' });
    const asked = rig.ask(pod('web-1'), 1000);
    await rig.settle(1000);
    const whys = asked.answer?.nodes.behind.map(({ why }) => why) ?? [];
    assert.match(whys[0] ?? '', /agent is gone/);
    assert.match(whys[1] ?? '', /connection refused/);
    assert.match(whys[2] ?? '', /too old/);
    const again = rig.ask(pod('web-1'));
    for (const name of ['n1', 'n2', 'n3']) rig.nodes.setNode(name, undefined);
    rig.join('n4');
    rig.programmed('n4');
    await rig.settle();
    assert.equal(again.answer?.drained, true);
  });

  it('no node that is not ready for longer than the bound, which it names', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.programmed('n1');
    rig.nodes.setNode('n2', facts({ isReady: false }));
    const asked = rig.ask(pod('web-1'), 10 * LEAVE_OUT_AFTER);
    await rig.settle(LEAVE_OUT_AFTER - 1);
    assert.ok(asked.isWaiting);
    await rig.settle(21);
    assert.ok(asked.answer?.drained);
    assert.deepEqual(
      asked.answer.nodes.leftOut.map(({ node }) => node),
      ['n2'],
    );
    rig.nodes.setNode('n2', facts());
    const again = rig.ask(pod('web-1'), 1000);
    await rig.settle(1000);
    assert.equal(again.answer?.drained, false, 'it is ready again, and counts');
  });

  it('a node that was left out and came back meanwhile', async () => {
    const rig = fleetRig({ nodes: ['n1', 'n2'] });
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    rig.nodes.setNode('n1', facts({ isReady: false }));
    await rig.settle(LEAVE_OUT_AFTER);
    const asked = rig.ask(pod('web-1'));
    await rig.settle();
    rig.nodes.setNode('n1', facts());
    rig.programmed('n2');
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.programmed('n1');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('no node a second time: an agent that starts again does not hold it back', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    const asked = rig.ask(pod('web-1'));
    rig.programmed('n1');
    await rig.settle();
    rig.nodes.setLink('n1', { state: 'open' });
    rig.event('n1', { marks: [['', '', 0]] });
    rig.programmed('n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
    assert.equal(asked.answer.nodes.programmed, 2);
  });
});

describe('a question ends', () => {
  it('with NoAnswer where the lists are not complete, or no node counts', async () => {
    const unread = fleetRig({ isListed: false });
    const asked = unread.ask(pod('web-1'), 1000);
    const early = unread.ask(pod('web-1'), 5000);
    await unread.settle(1000);
    assert.ok(asked.error instanceof NoAnswer);
    unread.list();
    unread.programmed('n1', 'n2');
    await unread.settle();
    assert.ok(early.answer?.drained, 'it waited for the lists');
    const empty = fleetRig({ nodes: [] });
    const nobody = empty.ask(pod('web-1'), 1000);
    await empty.settle(1000);
    assert.match(String(nobody.error), /knows no agent/);
  });

  it('when its caller is gone, when the fleet stops, and at once where too many wait', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'));
    const caller = new AbortController();
    const gone = rig.ask(pod('web-1'), 30_000, caller.signal);
    const stopped = rig.ask(pod('web-1'));
    caller.abort(new Error('gone'));
    await rig.settle();
    assert.equal(String(gone.error), 'Error: gone');
    assert.equal(rig.drains.waiting, 1);
    for (let i = 0; i < 9999; i += 1) rig.ask(pod('web-1'));
    const over = rig.ask(pod('web-1'));
    await rig.settle();
    assert.match(String(over.error), /10000 questions wait already/);
    rig.drains.stop('the fleet stops');
    await rig.settle();
    assert.match(String(stopped.error), /the fleet stops/);
    assert.equal(rig.drains.waiting, 0);
    assert.equal(rig.clock.pending, 0, 'no wait is left');
  });

  it('with the store restored: only what is listed then counts', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    const asked = rig.ask(pod('web-1'));
    rig.objects.restored('slices');
    rig.nodes.restored('slices', { from: '100', to: '60', readAt: rig.clock.now(), seenAt: rig.clock.now() });
    rig.objects.setSlice(
      'shop/web-a',
      slice('shop/web-a', 'shop/web', [endpoint('web-1', 'draining'), endpoint('web-2', 'ready')]),
      '50',
      false,
    );
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.isWaiting, 'the list is not complete');
    rig.objects.synced('slices', '60');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });
});

describe('questions of preStop hooks', () => {
  it('mean the terminating endpoints of the Service on their Node', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'), endpoint('web-2', 'ready', 'n2'), endpoint('web-3', 'ready', 'n2'));
    const asked = rig.ask(terminating('n1'));
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.isWaiting, 'none terminates yet');
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'draining', 'n2'), endpoint('web-3', 'ready', 'n2'));
    rig.programmed('n1');
    await rig.settle();
    assert.ok(asked.isWaiting, 'n2 is behind');
    rig.programmed('n2');
    await rig.settle();
    assert.deepEqual([asked.answer?.drained, asked.answer?.of], [true, 'endpoints of Service shop/web on Node n1']);
  });

  it('need an endpoint each, and one that was answered for counts for that question alone', async () => {
    const rig = fleetRig();
    const [a, b, c] = [endpoint('web-1', 'draining'), endpoint('web-2', 'draining'), endpoint('web-3', 'ready')];
    rig.set(a, endpoint('web-2', 'ready'), c);
    rig.programmed('n1', 'n2');
    const first = rig.ask(terminating('n1'));
    await rig.settle();
    assert.ok(first.answer?.drained);
    const second = rig.ask(terminating('n1'), 60_000);
    await rig.settle();
    assert.ok(second.isWaiting, 'web-1 was answered for');
    rig.set(a, b, c);
    await rig.settle();
    assert.ok(second.isWaiting, 'no node has web-2 as draining');
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(second.answer?.drained);
    // Both leave; another Pod of the same name may be asked for.
    rig.set(c);
    rig.set(a, c);
    rig.programmed('n1', 'n2');
    const third = rig.ask(terminating('n1'));
    await rig.settle();
    assert.ok(third.answer?.drained);
  });

  it('wait together where more of them wait than endpoints terminate', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'), endpoint('web-3', 'ready'));
    const both = [rig.ask(terminating('n1'), 5000), rig.ask(terminating('n1'), 9000)];
    rig.programmed('n1', 'n2');
    await rig.settle(5000);
    assert.match(
      both[0]?.answer?.why ?? '',
      /2 Pods ask on Node n1 for Service shop\/web, and its slices show 1 that began to end there, at most 10 s earlier/,
    );
    await rig.settle(4000);
    assert.equal(both[1]?.answer?.drained, false, 'the endpoint stands for the question that ended');
  });

  it('are answered for no endpoint that terminates for long: its Pod has no such hook', async () => {
    const rig = fleetRig();
    const [canary, other] = [endpoint('web-1', 'draining'), endpoint('web-2', 'ready', 'n2')];
    rig.set(canary, endpoint('web-3', 'ready'), other);
    rig.programmed('n1', 'n2');
    await rig.settle(10_001);
    const asked = rig.ask(terminating('n1'));
    await rig.settle();
    assert.ok(asked.isWaiting, 'web-3 asks, and its slice does not show yet that it ends');
    rig.set(canary, endpoint('web-3', 'draining'), other);
    await rig.settle();
    assert.ok(asked.isWaiting);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.answer?.drained);
  });

  it('of an earlier Pod do not hold back a later one that has an endpoint of its own', async () => {
    const rig = fleetRig();
    const [a, c] = [endpoint('web-1', 'draining'), endpoint('web-3', 'ready', 'n2')];
    rig.set(a, endpoint('web-2', 'ready'), c);
    const first = rig.ask(terminating('n1'), 60_000);
    await rig.settle(20_000);
    rig.set(a, endpoint('web-2', 'draining'), c);
    const second = rig.ask(terminating('n1'), 60_000);
    assert.ok(first.isWaiting && second.isWaiting);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.deepEqual([first.answer?.drained, second.answer?.drained], [true, true]);
  });

  it('take both addresses of a Pod as one endpoint', async () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'draining'), endpoint('web-2', 'ready'));
    const six = { ...endpoint('web-1', 'draining'), address: 'fd00::1' as Address };
    const ready = { ...endpoint('web-2', 'ready'), address: 'fd00::2' as Address };
    rig.objects.setSlice('shop/web-b', slice('shop/web-b', 'shop/web', [six, ready], 'IPv6'), rig.next());
    rig.programmed('n1', 'n2');
    const both = [rig.ask(terminating('n1'), 1000), rig.ask(terminating('n1'), 1000)];
    await rig.settle();
    assert.ok(both[0]?.answer?.drained, 'when it asked, one was enough');
    assert.ok(both[1]?.isWaiting);
  });

  it('cost what concerns their Node: neither the questions nor the endpoints of others are looked at', async (t) => {
    const rig = fleetRig();
    let reads = 0;
    const counted = (one: FleetEndpoint): FleetEndpoint => ({
      ...one,
      get terminating() {
        reads += 1;
        return one.terminating;
      },
    });
    rig.set(
      ...[counted(endpoint('web-1', 'draining', 'n0')), counted(endpoint('web-2', 'draining', 'n0'))],
      ...[endpoint('web-3', 'draining'), endpoint('web-4', 'draining'), endpoint('web-5', 'ready')],
    );
    rig.ask(terminating('n0'), 60_000);
    const states = t.mock.method(rig.objects, 'stateOf');
    reads = 0;
    const asked = [rig.ask(terminating('n1'), 60_000), rig.ask(terminating('n1'), 60_000)];
    const nodes = states.mock.calls.map(({ arguments: [target] }) => target.kind === 'terminating' && target.node);
    assert.deepEqual([...new Set(nodes)], ['n1']);
    assert.equal(reads, 0);
    rig.programmed('n1', 'n2');
    await rig.settle();
    assert.ok(asked.every(({ answer }) => answer?.drained));
  });
});
