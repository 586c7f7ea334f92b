/** Repairs of what another program changes again and again, with times that the test gives. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RepairBackoff } from '../../src/agent/kernel-watch.ts';

const LONGEST = 30_000;

/** Repairs as soon as each may be made, against a program that writes every so many milliseconds; the times of the repairs. */
function repairs(
  fight: RepairBackoff,
  every: number,
  until: number,
  onRepair: (isBegin: boolean) => void = () => {},
): number[] {
  const times: number[] = [];
  let now = 0;
  while (now < until) {
    times.push(now);
    onRepair(fight.repaired(now, 'nft, pid 4711'));
    now = Math.max(now + every, fight.due);
  }
  return times;
}

describe('a fight with another program', () => {
  it('begins once, is told with the name, and waits longer and longer, but no longer than syncPeriod', () => {
    const fight = new RepairBackoff(LONGEST);
    let begins = 0;
    const times = repairs(fight, 50, 3_600_000, (isBegin) => {
      begins += Number(isBegin);
    });
    assert.equal(begins, 1);
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    assert.deepEqual(waits.slice(0, 9), new Array(9).fill(50));
    assert.ok(waits.every((wait, i) => i === 0 || wait >= (waits[i - 1] ?? 0) || wait === LONGEST));
    assert.equal(waits.at(-1), LONGEST);
    assert.ok(times.length < 150, `${times.length} repairs in an hour`);
    assert.equal(fight.at(times.at(-1) ?? 0)?.by, 'nft, pid 4711');
  });

  it('is over when it was quiet for twice the last wait; the next repair is made at once', () => {
    const fight = new RepairBackoff(LONGEST);
    const times = repairs(fight, 50, 600_000);
    const last = times.at(-1) ?? 0;
    assert.notEqual(fight.at(last + 2 * LONGEST), undefined);
    assert.equal(fight.at(last + 2 * LONGEST + 1), undefined);
    assert.equal(fight.repaired(last + 2 * LONGEST + 1, undefined), false);
    assert.ok(fight.due <= last + 2 * LONGEST + 1);
  });

  it('is none where repairs are seldom', () => {
    const fight = new RepairBackoff(LONGEST);
    repairs(fight, 10_001, 600_000, (isBegin) => assert.equal(isBegin, false));
    assert.equal(fight.at(600_000), undefined);
  });
});
