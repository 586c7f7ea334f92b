/** How often a view asks the agent. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pauseAfter } from '../../src/page/hooks.ts';

describe('a view that follows changes', () => {
  it('asks at once again after quick answers, and seldom after long ones', () => {
    assert.deepEqual([0, 5, 40, 100, 500, 30_000].map(pauseAfter), [400, 400, 400, 1000, 5000, 10_000]);
  });
});
