/** Questions of a kind are answered one after another. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FewAtATime, OneAtATime } from '../../../src/agent/questions/one-at-a-time.ts';
import { NoAnswer } from '../../../src/inspect/wire/envelope.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

describe('questions of a kind', () => {
  it('are answered one after another, also after one that failed', async () => {
    const turn = new OneAtATime('verify');
    const log: string[] = [];
    const work =
      (name: string, fails = false) =>
      async () => {
        log.push(`${name} begins`);
        await new Promise((resolve) => setImmediate(resolve));
        log.push(`${name} ends`);
        if (fails) throw new Error(name);
        return name;
      };
    const all = [turn.run(NEVER, work('a', true)), turn.run(NEVER, work('b')), turn.run(NEVER, work('c'))];
    const ended = await Promise.allSettled(all);
    assert.deepEqual(
      ended.map(({ status }) => status),
      ['rejected', 'fulfilled', 'fulfilled'],
    );
    assert.deepEqual(log, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('of a client that is gone are not begun, and do not keep others waiting', async () => {
    const turn = new OneAtATime('verify');
    const { promise, resolve } = Promise.withResolvers<string>();
    const first = turn.run(NEVER, () => promise);
    const gone = new AbortController();
    let hasBegun = false;
    const second = turn.run(gone.signal, () => {
      hasBegun = true;
      return Promise.resolve('second');
    });
    const third = turn.run(NEVER, () => Promise.resolve('third'));
    gone.abort(new Error('the client left'));
    await assert.rejects(second, /the client left/);
    resolve('first');
    assert.deepEqual([await first, await third, hasBegun], ['first', 'third', false]);
  });

  it('are refused when too many wait', async () => {
    const turn = new OneAtATime('explain');
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = Array.from({ length: 17 }, () => turn.run(NEVER, () => promise));
    await assert.rejects(
      turn.run(NEVER, () => promise),
      (error) => {
        assert.ok(error instanceof NoAnswer);
        assert.equal(error.message, 'too many explain requests are queued');
        return true;
      },
    );
    resolve();
    await Promise.all(waiting);
    await turn.run(NEVER, () => promise);
  });
});

describe('recordings', () => {
  it('are refused while as many run as may; one that ended makes room, also when its client left', async () => {
    const few = new FewAtATime('recordings', 2);
    const stream = async function* () {
      for (let i = 0; ; i++) yield await Promise.resolve(i);
    };
    const all = [few.pass(stream()), few.pass(stream())].map((one) => one[Symbol.asyncIterator]());
    for (const one of all) await one.next();
    assert.throws(
      () => few.pass(stream()),
      (error) => error instanceof NoAnswer && error.message.startsWith('2 recordings are running'),
    );
    await all[0]?.return?.(undefined);
    const third = few.pass(stream())[Symbol.asyncIterator]();
    assert.deepEqual(await third.next(), { done: false, value: 0 });
  });
});
