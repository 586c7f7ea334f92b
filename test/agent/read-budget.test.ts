/** How often all rules are read from the kernel, with a clock that the test moves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { firstPeriod, ReadBudget } from '../../src/agent/kernel-watch.ts';

const HOUR = 3_600_000;

describe('readings of the kernel', () => {
  const made = (mode: 'iptables' | 'ipvs') => {
    const clock = { time: 0, now: () => clock.time };
    return { clock, readings: new ReadBudget(clock, { mode, syncPeriod: 30_000 }) };
  };

  it('take a hundredth of the time at most, however often another program writes', () => {
    const { clock, readings } = made('iptables');
    let reading = 0;
    for (clock.time = 0; clock.time < HOUR; clock.time += 1000) {
      if (!readings.mayRead) continue;
      clock.time += 400;
      readings.checkTook(400);
      reading += 400;
    }
    const burst = 2000;
    assert.ok(reading > 0.009 * HOUR && reading <= 0.01 * HOUR + burst + 400, `${reading} ms`);
  });

  it('are made at once after a rest, several of them, and then as they are paid for', () => {
    const { clock, readings } = made('iptables');
    for (let n = 1; n <= 3; n++) {
      assert.equal(readings.mayRead, true, `number ${n}`);
      readings.checkTook(667);
    }
    assert.equal(readings.mayReadAt, 100);
    assert.equal(readings.mayRead, false);
    clock.time = 100;
    assert.equal(readings.mayRead, true);
    readings.checkTook(667);
    assert.equal(readings.mayReadAt, 66_800);
    clock.time = 266_800;
    readings.checkTook(667);
    assert.equal(readings.mayRead, true);
  });

  it('count as long as the shorter of the last two: one may have waited for a lock', () => {
    const { clock, readings } = made('iptables');
    readings.took(50);
    readings.checkTook(20_000);
    assert.equal(readings.mayRead, true);
    readings.checkTook(20_000);
    clock.time = 1_000_000;
    assert.equal(readings.mayRead, false);
  });

  it('are due each hour, and in IPVS mode each syncPeriod, but no more than that share', () => {
    const { clock, readings } = made('iptables');
    clock.time = HOUR - 1;
    assert.equal(readings.isDue, false);
    clock.time = HOUR;
    assert.equal(readings.isDue, true);
    readings.begun();
    assert.equal(readings.isDue, false);
    const ipvs = made('ipvs');
    ipvs.clock.time = 30_000;
    assert.equal(ipvs.readings.isDue, true);
    ipvs.readings.took(1000);
    ipvs.readings.took(1000);
    assert.equal(ipvs.readings.isDue, false);
    ipvs.clock.time = 100_000;
    assert.equal(ipvs.readings.isDue, true);
    // The start waited for a lock, or for processors.
    const slow = made('ipvs');
    slow.readings.took(83_000);
    slow.clock.time = 30_000;
    assert.equal(slow.readings.isDue, true);
    slow.readings.took(1000);
    slow.readings.begun();
    slow.clock.time = 129_999;
    assert.equal(slow.readings.isDue, false);
    slow.clock.time = 130_000;
    assert.equal(slow.readings.isDue, true);
    assert.deepEqual(
      [firstPeriod({ mode: 'ipvs', syncPeriod: 7 }), firstPeriod({ mode: 'nftables', syncPeriod: 7 })],
      [7, HOUR],
    );
  });
});
