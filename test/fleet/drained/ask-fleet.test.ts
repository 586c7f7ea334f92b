/** How long `slicewire drained` asks, and what it makes of what the fleet says. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { askUntilDrained, type FleetAnswer, type Send } from '../../../src/fleet/drained/ask-fleet.ts';
import type { DrainQuestion } from '../../../src/fleet/drained/drain-question.ts';
import { WrongQuestion } from '../../../src/inspect/wire/envelope.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { NO, YES } from './fake-fleet.ts';

const QUESTION: DrainQuestion = {
  of: { pod: 'shop/web-1' },
  timeout: 30_000,
  fleet: new URL('http://127.0.0.1:1'),
  tokenFile: undefined,
};

/** A no before its time. */
const EARLY = { ...NO };

const answer = (body: typeof YES): FleetAnswer => ({ kind: 'answer', answer: body });

/** Asks a fleet that says these things in turn, the last one ever after; a late answer takes its whole wait. */
async function ask(said: readonly (FleetAnswer | 'late' | 'fails')[], question = QUESTION) {
  const clock = new FakeClock({ hurried: true });
  const waits: number[] = [];
  const send: Send = async (_, wait, signal) => {
    const one = said[Math.min(waits.length, said.length - 1)] ?? 'fails';
    waits.push(wait);
    if (one === 'fails') throw new Error('connect ECONNREFUSED');
    if (one === 'late')
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    else if (one.kind === 'answer' && one.answer === NO)
      await new Promise<void>((resolve) => clock.after(wait, resolve));
    return one as FleetAnswer;
  };
  const outcome = await askUntilDrained(question, { send, clock, signal: NEVER });
  return { outcome, waits, now: clock.now() };
}

describe('the question of slicewire drained', () => {
  it('ends with the first yes', async () => {
    const { outcome, waits, now } = await ask([answer(YES)]);
    assert.deepEqual([outcome.drained, outcome.failure, waits, now], [true, '', [30_000], 0]);
  });

  it('has the whole time also where the machine is slow at the start', async () => {
    const clock = new FakeClock();
    const now = clock.now.bind(clock);
    clock.now = () => {
      clock.advance(1);
      return now();
    };
    const waits: number[] = [];
    const send: Send = async (_, wait) => {
      waits.push(wait);
      return answer(YES);
    };
    await askUntilDrained(QUESTION, { send, clock, signal: NEVER });
    assert.deepEqual(waits, [30_000]);
  });

  it('is one for all of the time, and a no counts when the time is over; the answer has the whole time', async () => {
    const { outcome, waits, now } = await ask([answer(NO)]);
    assert.deepEqual([outcome.drained, outcome.answer?.nodes, outcome.failure], [false, NO.nodes, '']);
    assert.deepEqual(waits, [30_000]);
    // The hurried clock also runs through what a last answer may take.
    assert.ok(now >= 30_000 && now <= 32_000, String(now));
    assert.ok((outcome.answer?.waited ?? 0) >= 30_000);
  });

  it('is asked again after a no that was followed by a yes', async () => {
    const { outcome, waits } = await ask([answer(EARLY), answer(YES)]);
    assert.deepEqual([outcome.drained, waits.length], [true, 2]);
  });

  it('is asked again while no fleet is there, with growing pauses, until the time is over', async () => {
    const { outcome, waits, now } = await ask(['fails']);
    assert.deepEqual(outcome, { drained: false, answer: undefined, failure: 'connect ECONNREFUSED' });
    assert.equal(now, 30_000);
    // The pauses grow from 0.1 s to between 1 and 2 s.
    assert.ok(waits.length > 15 && waits.length < 40, `${waits.length} questions`);
  });

  it('survives a fleet that ends in the middle, and one that refuses for a while', async () => {
    const refused: FleetAnswer = { kind: 'none', why: 'the token is not known' };
    const { outcome, waits } = await ask(['fails', refused, answer(EARLY), 'fails', answer(YES)]);
    assert.deepEqual([outcome.drained, outcome.failure, waits.length], [true, '', 5]);
  });

  it('leaves a fleet that says nothing at all, a little after its time', async () => {
    const { outcome, now } = await ask(['late', answer(YES)]);
    assert.deepEqual([outcome.drained, outcome.failure, now], [false, 'no answer within 32 s', 32_000]);
    const silent = await ask(['late'], { ...QUESTION, timeout: 5000 });
    assert.deepEqual([silent.outcome.drained, silent.outcome.failure], [false, 'no answer within 7 s']);
  });

  it('keeps the last answer beside a later failure', async () => {
    const { outcome } = await ask([answer(EARLY), 'fails']);
    assert.deepEqual([outcome.answer?.nodes.behindCount, outcome.failure], [1, 'connect ECONNREFUSED']);
  });

  it('is not asked again where it is wrong', async () => {
    await assert.rejects(
      ask([{ kind: 'wrong', why: '/drained: pod shop: must be NAMESPACE/NAME' }]),
      (error) =>
        error instanceof WrongQuestion &&
        error.message === 'the fleet says: /drained: pod shop: must be NAMESPACE/NAME',
    );
  });

  it('ends with the signal', async () => {
    const stop = new AbortController();
    const send: Send = async (_, __, signal) => {
      stop.abort(new Error('SIGTERM'));
      signal.throwIfAborted();
      return answer(YES);
    };
    const asking = askUntilDrained(QUESTION, { send, clock: new FakeClock(), signal: stop.signal });
    await assert.rejects(asking, { message: 'SIGTERM' });
  });
});
