/** Probes are judged by when they were asked, and by who was an endpoint then. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GRACE, Judge, SWEEP } from './judge.ts';
import type { Probed } from './probe-protocol.ts';

const target = { name: 'web', protocol: 'TCP', address: '10.96.0.1', port: 80 } as const;
const probe = (asked: number, outcome: Probed['outcome'], by = ''): Probed => ({
  ...{ target, asked, over: asked + 10, outcome, by },
});
const counts = ({ verdict }: Judge) => [verdict.lost.length, verdict.wrong.length, verdict.whileDamaged.length];

describe('the judge of probes', () => {
  it('counts lost and wrong ones', () => {
    const judge = new Judge();
    judge.probed(probe(0, 'lost'));
    judge.probed(probe(0, 'wrong'));
    assert.deepEqual(counts(judge), [1, 1, 0]);
  });

  it('counts apart what was asked while rules were damaged, and nothing after the repair', () => {
    const judge = new Judge();
    const repaired = judge.damaged(100);
    for (const asked of [99, 100, 500, 501]) judge.probed(probe(asked, 'lost'));
    assert.deepEqual(counts(judge), [1, 0, 3]);
    repaired(500);
    assert.deepEqual(counts(judge), [2, 0, 2]);
    // A flow that went around the rules is gone with the next sweep.
    for (const asked of [500 + SWEEP, 501 + SWEEP])
      judge.probed({ ...probe(asked, 'lost'), target: { ...target, fromPort: 40_000 } });
    assert.deepEqual(counts(judge), [3, 0, 3]);
  });

  it('counts an alarm of the data path that no damage explains', () => {
    const judge = new Judge();
    const repaired = judge.damaged(10_000);
    assert.equal(judge.falseAlarms([9_999, 10_000, 90_000]), 1);
    repaired(20_000);
    assert.equal(judge.falseAlarms([9_999, 10_000, 25_000, 25_001]), 2);
  });

  it('lets an endpoint answer until the grace period is over, and not before it came', () => {
    const judge = new Judge();
    judge.moved({ at: 0, endpoints: ['a', 'b'] });
    judge.moved({ at: 1000, endpoints: ['b', 'c'] });
    for (const [asked, by] of [
      [0, 'a'],
      [1000 + GRACE, 'a'],
      [5_000_000, 'b'],
      [995, 'c'],
    ] as const)
      judge.probed(probe(asked, 'moving', by));
    assert.deepEqual(counts(judge), [0, 0, 0]);
    for (const [asked, by] of [
      [1001 + GRACE, 'a'],
      [900, 'c'],
      [0, 'nobody'],
    ] as const)
      judge.probed(probe(asked, 'moving', by));
    assert.deepEqual(counts(judge), [0, 3, 0]);
  });

  it('counts apart the one question that was on its way when the flow moved to another endpoint', () => {
    const judge = new Judge();
    judge.moved({ at: 0, endpoints: ['a', 'b'] });
    const ask = (asked: number, outcome: Probed['outcome'], by = '') =>
      judge.probed({ ...probe(asked, outcome, by), target: { ...target, fromPort: 40_000 } });
    for (const asked of [10, 20]) ask(asked, 'moving', 'a');
    ask(40, 'moving', 'b');
    // A lost question is told later than the answers after it.
    ask(30, 'lost');
    assert.deepEqual([judge.verdict.cut.length, ...counts(judge)], [1, 0, 0, 0]);
    ask(35, 'lost');
    assert.deepEqual([judge.verdict.cut.length, ...counts(judge)], [0, 2, 0, 0]);
    ask(50, 'moving', 'b');
    ask(45, 'lost');
    assert.deepEqual([judge.verdict.cut.length, ...counts(judge)], [0, 3, 0, 0]);
  });

  it('does not count the time in which no agent worked', () => {
    const judge = new Judge();
    judge.moved({ at: 0, endpoints: ['a'] });
    judge.moved({ at: 1000, endpoints: ['b'] });
    judge.paused(500)(6000);
    judge.probed(probe(6000 + GRACE, 'moving', 'a'));
    assert.deepEqual(counts(judge), [0, 0, 0]);
    judge.probed(probe(6001 + GRACE, 'moving', 'a'));
    assert.deepEqual(counts(judge), [0, 1, 0]);
  });

  it('forgets no move that still counts', () => {
    const judge = new Judge();
    judge.moved({ at: 0, endpoints: ['a'] });
    for (let at = 1; at <= 1000; at++) judge.moved({ at: at * 1000, endpoints: [`${at}`] });
    judge.probed(probe(1_000_000, 'moving', '971'));
    assert.deepEqual(counts(judge), [0, 0, 0]);
    judge.probed(probe(1_000_000, 'moving', '968'));
    assert.deepEqual(counts(judge), [0, 1, 0]);
  });
});
