/** Simulated processes: numbered calls, their faults, and SIGKILL. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Calls, type Fault, Killed, SimProcess } from './process.ts';
import { SimTime } from './time.ts';

function scene(fault?: Fault) {
  const time = new SimTime(() => 0.5);
  const calls = new Calls(time);
  calls.faultAt = (number) => (number === 1 ? fault : undefined);
  const process = new SimProcess('agent 1', 4711, calls);
  const effects: string[] = [];
  const call = {
    what: 'write',
    effect: () => {
      effects.push('done');
      return 'answer';
    },
    fail: (variant: number): string => {
      throw new Error(`failed ${variant}`);
    },
    cut: (answer: string) => answer.slice(0, 3),
  };
  return { time, calls, process, effects, call };
}

describe('calls of a simulated process', () => {
  it('fail before their effect, or after it', async () => {
    for (const [when, effects] of [
      ['before', []],
      ['after', ['done']],
    ] as const) {
      const sync = scene({ kind: 'fails', when, variant: 3 });
      assert.throws(() => sync.process.callSync(sync.call), /failed 3/);
      assert.deepEqual(sync.effects, effects);
      assert.equal(sync.process.callSync(sync.call), 'answer', 'the next call works');
      const later = scene({ kind: 'fails', when, variant: 4 });
      await assert.rejects(later.process.call(later.call), /failed 4/);
      assert.deepEqual(later.effects, effects);
    }
  });

  it('are slow, or cut', async () => {
    const slow = scene({ kind: 'slow', milliseconds: 200 });
    const answer = slow.process.call(slow.call);
    await slow.time.runUntil(99);
    assert.deepEqual(slow.effects, []);
    await slow.time.runUntil(101);
    assert.deepEqual(slow.effects, ['done']);
    await slow.time.runUntil(200);
    assert.equal(await answer, 'answer');
    const stalled = scene({ kind: 'slow', milliseconds: 200 });
    stalled.process.callSync(stalled.call);
    assert.equal(stalled.time.now, 200);
    const cut = scene({ kind: 'cut', variant: 0 });
    assert.equal(await cut.process.call(cut.call), 'ans');
  });

  it('that load a module first have their effect at their end', async () => {
    const { process, time, call, effects } = scene({ kind: 'slow', milliseconds: 200 });
    const answer = process.call({ ...call, loadsFirst: true });
    await time.runUntil(199);
    assert.deepEqual(effects, []);
    await time.runUntil(201);
    assert.equal(await answer, 'answer');
  });

  it('have no effect once the process is killed, and what it had open is closed', async () => {
    const { process, call, effects, calls } = scene({ kind: 'kill', when: 'after' });
    const closed: string[] = [];
    const forget = process.opened('a socket', () => closed.push('socket'));
    process.opened('a file', () => closed.push('file'));
    forget();
    assert.throws(() => process.callSync(call), Killed);
    assert.deepEqual([effects, closed, process.isDead], [['done'], ['file'], true]);
    assert.throws(() => process.callSync(call), Killed);
    let isSettled = false;
    void process.call(call).then(() => {
      isSettled = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual([effects.length, isSettled, calls.count], [1, false, 1]);
  });

  it('end with their signal while they wait', async () => {
    const { process, call, time } = scene({ kind: 'slow', milliseconds: 1000 });
    const abort = new AbortController();
    const asked = process.call(call, abort.signal);
    abort.abort(new Error('enough'));
    await assert.rejects(asked, /enough/);
    assert.equal(time.timersOf(process), 0);
  });
});
