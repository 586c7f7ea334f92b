import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ProgrammingLatency } from '../../src/fleet/programming-latency.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { endpoint, fleetRig } from './core-rig.ts';

describe('the latency of programming', () => {
  it('is from the moment the fleet saw a change to the age of the first mark that has it', () => {
    const rig = fleetRig();
    rig.programmed('n1', 'n2');
    const start = rig.programming.histogram().count;
    rig.set(endpoint('web-1', 'ready'));
    const first = rig.version;
    rig.clock.advance(700);
    rig.set(endpoint('web-2', 'ready'));
    rig.clock.advance(1300);
    // One sync 1,500 ms ago, and one 200 ms ago.
    rig.event('n1', {
      marks: [
        ['101', first, 1500],
        ['101', rig.version, 200],
      ],
    });
    const { count, sum } = rig.programming.histogram();
    assert.equal(count - start, 2);
    assert.ok(Math.abs(sum - (0.5 + 1.1)) < 1e-9, String(sum));
    assert.equal(rig.programming.histogram(true).count, 0, 'n2 has none of them');
    rig.event('n2', { marks: [['101', rig.version, 0]] });
    const last = rig.programming.histogram(true);
    assert.deepEqual([last.count, last.sum], [2, 2 + 1.3]);
    assert.deepEqual(
      rig.programming.slowest().map(({ service, milliseconds, node }) => [service, milliseconds, node]),
      [['shop/web', 2000, 'n2']],
    );
    assert.equal(rig.programming.summary()?.changes, 4);
    assert.equal(rig.programming.minutes().length, 1);
  });

  it('counts what passed without a stream only where the agent was away', () => {
    const rig = fleetRig();
    rig.programmed('n1', 'n2');
    const agent = (up: number) => ({ node: 'n1', mode: 'nftables', version: '1', up }) as const;
    for (const [up, counted] of [
      [60_000, 0],
      [1000, 1],
    ] as const) {
      const before = rig.programming.histogram().count;
      rig.set(endpoint('web-1', 'ready'));
      rig.clock.advance(5000);
      rig.nodes.setLink('n1', { state: 'open' });
      rig.event('n1', { agent: agent(up), marks: [['101', rig.version, 0]] });
      assert.equal(rig.programming.histogram().count - before, counted);
    }
  });

  it('is the same as counted one by one, in any order of changes and marks, and when old changes are dropped', () => {
    const each = fc.oneof(
      fc.record({ kind: fc.constant('change' as const), wait: fc.nat(3000) }),
      fc.record({ kind: fc.constant('mark' as const), node: fc.nat(2), lacks: fc.nat(4), age: fc.nat(900) }),
    );
    fc.assert(
      fc.property(fc.array(each, { maxLength: 60 }), (steps) => {
        const clock = new FakeClock();
        const programming = new ProgrammingLatency(clock);
        const tracked = ['a', 'b', 'c'].map((name) => programming.track(name));
        const has = [0, 0, 0];
        const seen: number[] = [];
        let [count, sum] = [0, 0];
        for (const step of steps) {
          if (step.kind === 'change') {
            clock.advance(step.wait);
            seen.push(clock.now());
            programming.seen('slices', String(seen.length), 'shop/web');
            continue;
          }
          const mark = seen.length - step.lacks;
          const own = tracked[step.node];
          if (own === undefined || mark < 0) continue;
          const at = clock.now() - step.age;
          programming.advance(own, { services: '', slices: String(mark) }, at, true);
          for (let i = has[step.node] ?? 0; i < mark; i += 1) {
            count += 1;
            sum += Math.max(0, at - (seen[i] ?? 0)) / 1000;
          }
          has[step.node] = Math.max(has[step.node] ?? 0, mark);
        }
        const histogram = programming.histogram();
        assert.equal(histogram.count, count);
        assert.ok(Math.abs(histogram.sum - sum) < 1e-6);
        assert.equal(programming.histogram(true).count, Math.min(...has));
        assert.equal(programming.summary()?.changes ?? 0, count);
      }),
    );
    const few = new ProgrammingLatency(new FakeClock(), 8);
    const [a, b] = [few.track('a'), few.track('b')];
    for (let i = 1; i <= 20; i += 1) few.seen('slices', String(i), 'shop/web');
    few.advance(a, { services: '', slices: '20' }, 0, true);
    assert.equal(few.histogram(true).count, 0);
    few.advance(b, { services: '', slices: '20' }, 0, true);
    assert.ok(few.histogram(true).count >= 4, 'those that are kept');
  });
});
