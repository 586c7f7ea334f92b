/** How much an agent may say of itself. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
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
