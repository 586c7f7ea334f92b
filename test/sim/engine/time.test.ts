/** Simulated time: no clock, timer or pause of the process is the real one. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as breath, setTimeout as pause } from 'node:timers/promises';
import { realClock } from '../../../src/base/clock.ts';
import { Random } from '../../helpers/base/random.ts';
import { NeverRests, SimTime, type TimerOwner } from './time.ts';

async function inSimulation<T>(use: (time: SimTime) => Promise<T>): Promise<T> {
  const time = new SimTime(new Random(1).next);
  const restore = time.install();
  try {
    return await use(time);
  } finally {
    time.end();
    restore();
  }
}

describe('simulated time', () => {
  it('passes only when it is told to, and in the order of the timers', async () => {
    await inSimulation(async (time) => {
      const seen: string[] = [];
      const began = realClock.wall();
      setTimeout(() => seen.push(`second at ${performance.now()}`), 5000);
      realClock.after(1000, () => seen.push(`first at ${realClock.now()}`));
      const every = setInterval(() => seen.push('again'), 2000);
      void pause(4500).then(() => clearInterval(every));
      await time.runUntil(10_000);
      assert.deepEqual(seen, ['first at 1000', 'again', 'again', 'second at 5000']);
      assert.equal(new Date().toISOString(), new Date(began + 10_000).toISOString());
      assert.equal(Date.now(), realClock.wall());
    });
  });

  it('lets all work of a moment end before it passes', async () => {
    await inSimulation(async (time) => {
      let done = 0;
      const work = async () => {
        for (let i = 0; i < 50; i++) await breath();
        done = time.now;
      };
      setTimeout(() => void work(), 100);
      setTimeout(() => assert.equal(done, 100), 101);
      await time.runUntil(200);
      assert.equal(done, 100);
    });
  });

  it('drops the timers of a dead process, and counts those of a living one', async () => {
    await inSimulation(async (time) => {
      const owner = { isDead: false };
      const seen: number[] = [];
      time.owners.run(owner satisfies TimerOwner, () => {
        setTimeout(() => {
          // Made by a timer of the process, it belongs to the process as well.
          setTimeout(() => seen.push(2), 10);
          seen.push(1);
        }, 10);
      });
      await time.runUntil(15);
      assert.equal(time.timersOf(owner), 1);
      owner.isDead = true;
      await time.runUntil(100);
      assert.deepEqual(seen, [1]);
    });
  });

  it('ends a wait by its signal, and a signal by its time', async () => {
    await inSimulation(async (time) => {
      const signal = AbortSignal.timeout(300);
      const ended = pause(1000, undefined, { signal }).catch((error: Error) => error.name);
      await time.runUntil(400);
      assert.equal(await ended, 'TimeoutError');
    });
  });

  it('fails where something goes on without an end', async () => {
    await inSimulation(async (time) => {
      let isOn = true;
      const spin = async () => {
        while (isOn) await breath();
      };
      void spin();
      await assert.rejects(time.settle(), NeverRests);
      isOn = false;
      await time.settle();
    });
  });

  it('gives the real clocks and timers back', async () => {
    const before = [setTimeout, Date, performance.now, Math.random, AbortSignal.timeout];
    await inSimulation(() => Promise.resolve());
    assert.deepEqual([setTimeout, Date, performance.now, Math.random, AbortSignal.timeout], before);
    await breath();
  });
});
