/** What the flight recorder keeps for the live page: bounded, and cheap to ask for. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Latencies } from '../../../src/base/latencies.ts';
import type { SyncRecord } from '../../../src/inspect/history/records.ts';
import { MAX_RECENT, RECENT, SyncStatistics } from '../../../src/inspect/history/statistics.ts';
import type { Drift } from '../../../src/proxy/model/drift.ts';

const MINUTE = 60_000;

function sync(number: number, at: number, more: Partial<SyncRecord> = {}): SyncRecord {
  return {
    type: 'sync',
    ...{
      number,
      at,
      endedAt: at + 10,
      trigger: 'changes',
      by: '',
      outcome: 'complete',
      upTo: number,
      hasWritten: true,
    },
    ...{ without: [], oldest: number + 1, changes: 1, services: ['shop/web'], steps: 1, drift: [], failed: [] },
    milliseconds: { all: 10, reading: 0, desiring: 1, writing: 9 },
    ...{ plans: [], times: [], ...more },
  };
}

function drift(name: string): Drift {
  return { family: 'IPv4', kind: 'chain', table: 'nat', name, target: '', difference: { kind: 'gone' } };
}

describe('the syncs of the last 15 minutes', () => {
  it('are the last 200 at most, the latest last, without those that are older', () => {
    const statistics = new SyncStatistics();
    for (let i = 0; i < 500; i++) statistics.add(sync(i, i * 1000));
    const recent = statistics.recentSyncs(500_000);
    assert.deepEqual([recent.length, recent[0]?.number, recent.at(-1)?.number], [MAX_RECENT, 300, 499]);
    const later = statistics.recentSyncs(400_000 + RECENT);
    assert.equal(later[0]?.number, 401);
    assert.deepEqual(statistics.recentSyncs(500_000 + RECENT), []);
  });

  it('are the same objects each time they are asked for', () => {
    const statistics = new SyncStatistics();
    statistics.add(sync(1, 0));
    assert.equal(statistics.recentSyncs(1)[0], statistics.recentSyncs(2)[0]);
  });

  it('keep their bound with the longest texts, and drop the oldest for it', () => {
    const statistics = new SyncStatistics();
    const services = Array.from({ length: 10 }, (_, i) => `${'n'.repeat(63)}/${i}${'s'.repeat(252)}`);
    const lines = Array.from({ length: 10 }, (_, i) => `${i}${'x'.repeat(300)}`);
    for (let i = 0; i < 1000; i++) statistics.add(sync(i, i, { services, drift: lines.map(drift), failed: lines }));
    assert.ok(statistics.bytes <= statistics.maxBytes, `${statistics.bytes} of ${statistics.maxBytes}`);
    const recent = statistics.recentSyncs(1000);
    assert.ok(recent.length > 20 && recent.length < MAX_RECENT, `${recent.length}`);
    assert.equal(recent.at(-1)?.number, 999);
    const [first] = recent;
    assert.deepEqual([first?.services.length, first?.drift.length, first?.failed[0]?.length], [3, 3, 201]);
    // status has them as before.
    assert.equal(statistics.lastSyncs[0]?.failed.length, 10);
  });
});

describe('drift', () => {
  it('has the program that wrote, where the sync names it', () => {
    const statistics = new SyncStatistics();
    statistics.add(sync(1, 5, { trigger: 'another program wrote', by: 'nft, pid 7', drift: [drift('KUBE-SERVICES')] }));
    statistics.add(sync(2, 6, { trigger: 'another program wrote', drift: [drift('KUBE-NODEPORTS')] }));
    statistics.add(sync(3, 7, { trigger: 'resync', drift: [drift('KUBE-FORWARD')] }));
    assert.deepEqual(
      statistics.lastDrifts.map(({ name, by }) => [name, by]),
      [
        ['KUBE-SERVICES', 'nft, pid 7'],
        ['KUBE-NODEPORTS', ''],
        ['KUBE-FORWARD', ''],
      ],
    );
  });
});

describe('latencies by slots', () => {
  it('are each of 15 s, the latest last; those without a change are left out, those of 15 minutes ago forgotten', () => {
    const statistics = new SyncStatistics();
    statistics.wrote(1000, 5, 'shop/web');
    statistics.wrote(14_999, 50, 'shop/web');
    statistics.wrote(31_000, 7, '');
    const shown = statistics.latencySlots(32_000).map(({ since, changes, most }) => [since, changes, most]);
    assert.deepEqual(shown, [
      [0, 2, 50],
      [30_000, 1, 7],
    ]);
    assert.deepEqual(statistics.lastWritten, { at: 31_000, milliseconds: 7, service: '' });
    assert.equal(statistics.latencySlots(15 * MINUTE + 1000).length, 1);
    assert.deepEqual(statistics.latencySlots(16 * MINUTE), []);
    // A slot is used again for another time.
    statistics.wrote(15 * MINUTE + 1000, 9, '');
    assert.deepEqual(
      statistics.latencySlots(15 * MINUTE + 2000).map(({ since, changes }) => [since, changes]),
      [
        [30_000, 1],
        [15 * MINUTE, 1],
      ],
    );
  });

  it('are summed up once, until a change comes', () => {
    const latencies = new Latencies({ slots: 4, length: 1000 });
    latencies.add(10, 1);
    const [first] = latencies.bySlot(500);
    assert.equal(latencies.bySlot(600)[0], first);
    latencies.add(20, 3);
    const [second] = latencies.bySlot(700);
    assert.deepEqual([first?.changes, second?.changes, second?.most], [1, 2, 3]);
  });
});
