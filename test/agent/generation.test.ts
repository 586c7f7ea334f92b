/** One sync of a generation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Agent } from '../../src/agent/agent.ts';
import { runSync } from '../../src/agent/generation.ts';
import type { Heard } from '../../src/proxy/modes/mode.ts';
import type { SyncStatus } from '../../src/proxy/sync/sync-results.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const nothing = () => undefined;

interface Noted {
  readonly order: string[];
  readonly ran: Awaited<ReturnType<typeof runSync>>;
  readonly reason: unknown;
}

/** One sync before which the watch finds this. */
async function synced(found: Heard | undefined): Promise<Noted> {
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
  const feed = { ledger, tap: {}, cache: { hasChanges: true } };
  const kernelLock = { sync: (work: () => unknown) => work() };
  const agent = { clock: new FakeClock(), loop, feed, kernelLock, mode: { isWaiting: false } };
  const observers = {
    metrics: { current: { triggered: nothing } },
    health: { syncBegan: nothing, syncEnded: nothing },
  };
  const syncBegins = async () => {
    note('the watch is asked');
    return found;
  };
  let reason: unknown;
  const syncBegan = (why: unknown) => {
    reason = why;
  };
  const input = {
    ...{ observers, watch: { syncBegins }, readBudget: { isDue: false }, recorder: { syncBegan, syncEnded: nothing } },
    ...{ requests: { loss: undefined, hurries: false }, grace: NEVER },
  };
  const status = { lastComplete: 1, failingSince: undefined } as unknown as SyncStatus;
  const ran = await runSync(agent as unknown as Agent, status, input as unknown as Parameters<typeof runSync>[2]);
  return { order, ran, reason };
}

test('no change can come between the ledger and the loop: it would be written, and count as not taken', async () => {
  const { order, ran, reason } = await synced(undefined);
  assert.deepEqual(order, ['the watch is asked', 'the ledger begins', 'the loop takes the changes', 'a change']);
  assert.deepEqual([ran.loss, reason], [undefined, { trigger: 'changes', by: '' }]);
});

test('a sync that repairs what a notice told of has the name of that program', async () => {
  const by = { pid: 4711, name: 'nft' };
  const { ran, reason } = await synced({ kind: 'something', by });
  assert.deepEqual([ran.loss, reason], [{ by }, { trigger: 'another program wrote', by: 'nft, pid 4711' }]);
});
