/** Why a node is behind where nothing hinders it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentState, slownessOf } from '../../src/fleet/tracked-node.ts';

describe('an agent that is connected and writes', () => {
  for (const [services, slices, why] of [
    ['', '', 'its agent has written nothing since it started'],
    ['7', '', 'its agent has written nothing since it started'],
    ['', '7', 'its agent has written nothing since it started'],
    ['7', '7', 'its agent has not written the change yet'],
  ] as const) {
    it(`is behind with the marks "${services}" of Services and "${slices}" of slices, because ${why}`, () => {
      const agent = new AgentState();
      agent.apply({ marks: [[services, slices, 0]] }, 0, true);
      assert.equal(slownessOf({ agent } as Parameters<typeof slownessOf>[0]), why);
    });
  }
});
