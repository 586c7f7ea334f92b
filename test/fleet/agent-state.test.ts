/** How much an agent may say of itself, and what its marks mean after a restore of the API server's store. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentState, NotAnEvent } from '../../src/fleet/tracked-node.ts';

const many = (count: number, from: number) =>
  Array.from({ length: count }, (_, index) => ({ service: `shop/s${from + index}`, why: 'refused', age: 1 }));

it('an agent names a bounded number of Services behind over all of its events', () => {
  const state = new AgentState();
  state.apply({ behind: { set: many(1500, 0), gone: [] } }, 0, true);
  state.apply({ behind: { set: many(500, 1500), gone: [] } }, 0, false);
  const more = () => state.apply({ behind: { set: many(1, 2000), gone: [] } }, 0, false);
  assert.throws(more, (error) => error instanceof NotAnEvent && /more than 2000 Services behind/.test(error.message));
  assert.equal(state.behind.size, 2000);
  state.apply({ behind: { set: many(1, 2000), gone: ['shop/s0'] } }, 0, false);
  assert.equal(state.behind.size, 2000);
});

describe('the marks of an agent after a restore', () => {
  const RESTORE = { from: '500', to: '460', readAt: 1000, seenAt: 1250 } as const;

  /** An agent that told these marks of slices at these times. */
  function agent(...told: readonly (readonly [mark: string, now: number])[]): AgentState {
    const state = new AgentState();
    for (const [i, [slices, now]] of told.entries()) state.apply({ marks: [['7', slices, 0]] }, now, i === 0);
    return state;
  }

  const reaches = (state: AgentState, slices: string) => state.hasMarks({ services: '7', slices });

  it('count where the agent saw it before the fleet: nothing may change any more that would move them', () => {
    const state = agent(['500', 900], ['450', 1100]);
    state.restored('slices', RESTORE);
    assert.ok(reaches(state, '450'));
    const ahead = agent(['500', 900], ['450', 1100], ['470', 1200]);
    ahead.restored('slices', RESTORE);
    assert.ok(reaches(ahead, '470'), 'it has read more of the restored store by now');
  });

  it('count where the agent was behind: it has nothing to see', () => {
    const state = agent(['440', 900]);
    state.restored('slices', RESTORE);
    assert.ok(reaches(state, '440') && !reaches(state, '450'));
    state.apply({ marks: [['7', '465', 0]] }, 1200, false);
    assert.ok(reaches(state, '460'));
  });

  it('mean nothing where the agent has not seen it, also on another stream, until they begin anew', () => {
    const state = agent(['500', 900]);
    state.restored('slices', RESTORE);
    assert.ok(!reaches(state, '450'));
    state.apply({ marks: [['7', '500', 0]] }, 1200, true);
    assert.ok(!reaches(state, '450'), 'another stream');
    state.apply({ marks: [['7', '510', 0]] }, 1300, false);
    assert.ok(!reaches(state, '450'), 'it wrote more of the store from before');
    state.apply({ marks: [['7', '460', 0]] }, 1400, false);
    assert.ok(reaches(state, '450') && !reaches(state, '470'));
  });

  it('count where they grow long after it: the agent came back when the restored store had reached its version, and saw nothing', () => {
    const state = agent(['500', 900], ['500', 1400]);
    state.restored('slices', RESTORE);
    state.apply({ marks: [['7', '500', 0]] }, 70_000, false);
    assert.ok(!reaches(state, '450'), 'the same mark may be one of the store from before');
    state.apply({ marks: [['7', '510', 0]] }, 70_001, false);
    assert.ok(reaches(state, '510'));
  });

  it('mean nothing where they went back by an earlier restore', () => {
    const state = agent(['600', 800], ['480', 900]);
    state.restored('slices', RESTORE);
    assert.ok(!reaches(state, '450'));
  });

  it('mean nothing where the agent started meanwhile, and has read the store from before', () => {
    const state = agent(['', 1100], ['500', 1200]);
    state.restored('slices', RESTORE);
    assert.ok(!reaches(state, '450'));
  });
});
