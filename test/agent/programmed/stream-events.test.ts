/** What the stream of an agent says, and how many marks are remembered. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  changedEvent,
  MAX_MARKS,
  type ProgrammedSnapshot,
  wholeEvent,
} from '../../../src/agent/programmed/stream-events.ts';
import { type ProgrammedEvent, programmedEventSchema } from '../../../src/inspect/wire/programmed.ts';
import { MarkHistory } from '../../../src/proxy/ledger/marks.ts';

function said(history: MarkHistory, more: Partial<ProgrammedSnapshot> = {}): ProgrammedSnapshot {
  return {
    agent: { node: 'n1', mode: 'nftables', version: '1.0.0' },
    startedAt: 0,
    history,
    number: history.number,
    latest: history.latest,
    stuck: undefined,
    behind: new Map(),
    unserved: [],
    health: { healthy: true, reasons: [] },
    counts: { faults: 0, drift: 0, suspects: [] },
    ...more,
  };
}

const marksAt = (history: MarkHistory, version: number, at: number, isAtOnce = false) =>
  history.add({ services: '5', slices: String(version), at }, isAtOnce);

describe('an event', () => {
  it('of a new reader has every field, and the latest marks with their age', () => {
    const history = new MarkHistory();
    assert.deepEqual(wholeEvent(said(history), 10).marks, [['', '', 0]]);
    marksAt(history, 7, 30);
    const behind = new Map([['s/bad', { why: 'x'.repeat(1000), since: 20 }]]);
    const event = wholeEvent(said(history, { behind, stuck: { why: 'locked', since: 25 } }), 50);
    assert.deepEqual(programmedEventSchema.required().parse(event), event);
    assert.deepEqual(event.marks, [['5', '7', 20]]);
    assert.deepEqual(event.stuck, { why: 'locked', age: 25 });
    assert.equal(event.behind?.set[0]?.why.length, 300);
  });

  it('has what changed, and there is none where nothing did', () => {
    const history = new MarkHistory();
    marksAt(history, 7, 30);
    const before = said(history);
    assert.equal(changedEvent(before, said(history, { behind: before.behind }), 40), undefined);
    marksAt(history, 8, 50);
    marksAt(history, 9, 60);
    const behind = new Map([['s/bad', { why: 'refused', since: 60 }]]);
    const second = said(history, { behind });
    assert.deepEqual(changedEvent(before, second, 70), {
      marks: [
        ['5', '8', 20],
        ['5', '9', 10],
      ],
      behind: { set: [{ service: 's/bad', why: 'refused', age: 10 }], gone: [] },
    });
    const third = said(history, { counts: { faults: 1, drift: 0, suspects: [] } });
    assert.deepEqual(changedEvent(second, third, 70), {
      behind: { set: [], gone: ['s/bad'] },
      counts: { faults: 1, drift: 0, suspects: [] },
    });
  });

  it('has marks that took the place of others, those of another source alone, and none after versions went back', () => {
    const history = new MarkHistory();
    marksAt(history, 7, 30, true);
    const before = said(history);
    marksAt(history, 8, 40, true);
    assert.equal(history.number, 1);
    assert.deepEqual(changedEvent(before, said(history, { behind: before.behind }), 40)?.marks, [['5', '8', 0]]);
    history.forgetAll();
    history.add({ services: '5', slices: '', at: 50 });
    assert.deepEqual(changedEvent(before, said(history, { behind: before.behind }), 50)?.marks, [['5', '', 0]]);
    assert.deepEqual(changedEvent(before, said(new MarkHistory(), { behind: before.behind }), 50)?.marks, [
      ['', '', 0],
    ]);
  });

  it('has at most a hundred marks, the latest among them', () => {
    const history = new MarkHistory();
    const before = said(history);
    for (let i = 1; i <= 950; i++) marksAt(history, i, i);
    const { marks = [] } = changedEvent(before, said(history), 1000) ?? {};
    assert.ok(marks.length <= MAX_MARKS && marks.length > MAX_MARKS / 2, String(marks.length));
    assert.deepEqual(marks.at(-1), ['5', '950', 50]);
  });

  it('after event tell a reader the same as the whole, whenever they are taken', () => {
    const step = fc.record({
      moves: fc.nat({ max: 3 }),
      refused: fc.subarray(['s/a', 's/b', 's/c']),
      isStuck: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const history = new MarkHistory();
        let [now, version] = [0, 0];
        let last = said(history);
        const known = reader(wholeEvent(last, now));
        for (const { moves, refused, isStuck } of steps) {
          now += 100;
          for (let i = 0; i < moves; i++) marksAt(history, ++version, now);
          const behind = new Map(refused.map((service) => [service, { why: `v${version}`, since: now }]));
          const next = said(history, { behind, stuck: isStuck ? { why: 'locked', since: now } : undefined });
          const event = changedEvent(last, next, now);
          if (event !== undefined) known.take(event);
          last = next;
          const whole = reader(wholeEvent(next, now));
          assert.deepEqual(known.known(), whole.known());
        }
      }),
    );
  });
});

/** What a reader knows. */
function reader(first: ProgrammedEvent) {
  let [marks, stuck]: unknown[] = [undefined, undefined];
  const behind = new Map<string, string>();
  const take = (event: ProgrammedEvent) => {
    const [services, slices] = event.marks?.at(-1) ?? [];
    if (services !== undefined) marks = [services, slices];
    if (event.stuck !== undefined) stuck = event.stuck?.why ?? null;
    for (const { service, why } of event.behind?.set ?? []) behind.set(service, why);
    for (const service of event.behind?.gone ?? []) behind.delete(service);
  };
  take(first);
  return { take, known: () => [marks, stuck, Object.fromEntries([...behind].sort())] };
}

describe('the marks that are remembered', () => {
  it('are bounded, and the moment of a version is found among them', () => {
    const history = new MarkHistory(100);
    for (let i = 1; i <= 1000; i++) marksAt(history, i * 2, i);
    assert.equal(history.number, 1000);
    assert.ok(history.since(0).length < 200);
    assert.equal(history.reachedAt('slices', '1999'), 1000);
    assert.equal(history.reachedAt('slices', '1998'), 999);
    assert.equal(history.reachedAt('slices', '2001'), undefined, 'not yet');
    assert.equal(history.reachedAt('slices', '4'), undefined, 'longer than is remembered');
    const short = new MarkHistory();
    marksAt(short, 9, 3);
    assert.equal(short.reachedAt('slices', '4'), 3);
  });

  it('count as one where many come in a moment without a write, and as several where each was written', () => {
    const history = new MarkHistory();
    for (let i = 1; i <= 50; i++) marksAt(history, i, i, true);
    assert.equal(history.number, 3);
    assert.equal(history.reachedAt('slices', '1'), 20, 'not before it was');
    for (let i = 51; i <= 60; i++) marksAt(history, i, 50);
    assert.equal(history.number, 13);
  });
});
