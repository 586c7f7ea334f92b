/** Counters of rules as metrics: they only grow, whatever becomes of the rules. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { PacketTotals } from '../../src/agent/metrics-feed.ts';
import type { PacketCount } from '../../src/proxy/modes/mode.ts';

it('totals of packets grow by the counts of the kernel, over counters that restart and families that are missing', () => {
  const totals = new PacketTotals();
  const count = (packets: number, family: 'IPv4' | 'IPv6' = 'IPv4'): PacketCount => ({
    what: 'invalid-dropped',
    family,
    packets,
  });
  assert.equal(totals.total('invalid-dropped'), 0);
  totals.take([count(5), count(2, 'IPv6')]);
  assert.equal(totals.total('invalid-dropped'), 7, 'what was counted before the agent began');
  totals.take([count(8), count(2, 'IPv6')]);
  totals.take([count(1, 'IPv6')]);
  assert.equal(totals.total('invalid-dropped'), 11, 'one counter restarted, the other is missing');
  totals.take([count(9), count(1, 'IPv6')]);
  assert.equal(totals.total('invalid-dropped'), 12);
  assert.equal(totals.total('localhost-node-ports'), 0);
});
