/** One sync of a generation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Agent } from '../../src/agent/agent.ts';
import { runSync } from '../../src/agent/generation.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

test('no change can come between the ledger and the loop: it would be written, and count as not taken', async () => {
  const order: string[] = [];
  const note = (what: string) => void order.push(what);
  const ledger = {
    syncBegan: () => {
      note('the ledger begins');
      queueMicrotask(() => note('a change'));
    },
    syncEnded: () => ({ services: 0, oldest: undefined }),
  };
  const report = { outcome: 'complete', failed: [], skipped: [], reading: 0 };
  const loop = {
    sync: async () => {
      note('the loop takes the changes');
      return report;
    },
  };
  const agent = {
    clock: new FakeClock(),
    loop,
    feed: { ledger },
    kernelLock: { sync: (work: () => unknown) => work() },
  };
  const nothing = () => undefined;
  const observers = {
    metrics: { current: { triggered: nothing } },
    health: { syncBegan: nothing, syncEnded: nothing },
  };
  const watch = { syncBegins: async () => note('the watch is asked') };
  const input = { observers, watch, readBudget: { isDue: false }, recorder: { syncEnded: nothing }, grace: NEVER };
  await runSync(
    agent as unknown as Agent,
    { trigger: 'changes', by: '' },
    input as unknown as Parameters<typeof runSync>[2],
  );
  assert.deepEqual(order, ['the watch is asked', 'the ledger begins', 'the loop takes the changes', 'a change']);
});
