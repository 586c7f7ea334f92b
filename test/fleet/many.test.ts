import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { manyAgents } from './many-agents.ts';

describe('many agents', () => {
  it('have every change counted once, and every question answered', async () => {
    const result = await manyAgents({
      ...{ agents: 500, services: 50, endpoints: 10, changesPerSecond: 50, questionsPerSecond: 10, seconds: 10 },
    });
    assert.equal(result.changes, 500);
    assert.ok(result.events > 500 * 10 && result.pairs > 500 * 400, JSON.stringify(result));
    assert.ok(result.drained >= 80 && result.late === 0, JSON.stringify(result));
  });
});
