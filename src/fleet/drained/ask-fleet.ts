/**
 * Asks the fleet until an endpoint is drained or the time is over. A fleet that is away, restarts or refuses is asked again: a Pod that
 * waits for nothing loses what a Pod that ends too early loses for its clients.
 */
import { randomInt } from 'node:crypto';
import { causeOf } from '../../base/cause.ts';
import { type Clock, sleep } from '../../base/clock.ts';
import type { Drained } from '../../inspect/wire/drained.ts';
import { WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { DrainQuestion } from './drain-question.ts';

/** What the fleet said. */
export type FleetAnswer =
  | { readonly kind: 'answer'; readonly answer: Drained }
  /** The question is wrong: asking again does not help. */
  | { readonly kind: 'wrong'; readonly why: string }
  /** There is no answer now. */
  | { readonly kind: 'none'; readonly why: string };

/** Asks once. `wait`: milliseconds until the fleet says that it is not drained. Rejects where no answer came. */
export type Send = (question: DrainQuestion, wait: number, signal: AbortSignal) => Promise<FleetAnswer>;

export interface DrainOutcome {
  readonly drained: boolean;
  /** The last answer of the fleet, with the time since the first question; undefined: it gave none. */
  readonly answer: Drained | undefined;
  /** Why the last question had no answer; "": it had one. */
  readonly failure: string;
}

/** Milliseconds that an answer may take beyond its wait: this is what ends a question to a replica that takes it and never answers. */
const GRACE = 2000;
/** Milliseconds between questions that had no answer: the first pause, and the longest. */
const [FIRST_PAUSE, MAX_PAUSE] = [100, 1000];

/**
 * Each question has all of the time that is left: a new one takes the newest versions of its own moment, so that Nodes which are slow, but
 * not that slow, would never be seen as done. Throws WrongQuestion where the fleet says so, and the reason of the signal.
 */
export async function askUntilDrained(
  question: DrainQuestion,
  { send, clock, signal }: { readonly send: Send; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<DrainOutcome> {
  const start = clock.now();
  const waited = () => clock.now() - start;
  let last: Pick<DrainOutcome, 'answer' | 'failure'> = { answer: undefined, failure: 'it was not asked' };
  let pause = FIRST_PAUSE;
  for (;;) {
    const left = question.timeout - waited();
    if (left <= 0) return { drained: false, ...last };
    const said = await askOnce(question, left, { send, clock, signal });
    if (said.kind === 'wrong') throw new WrongQuestion(`the fleet says: ${said.why}`);
    if (said.kind === 'answer') {
      const answer = { ...said.answer, waited: Math.round(waited()) };
      if (answer.drained) return { drained: true, answer, failure: '' };
      last = { answer, failure: '' };
      pause = FIRST_PAUSE;
    } else last = { answer: last.answer, failure: said.why };
    const rest = Math.max(0, question.timeout - waited());
    await sleep(clock, Math.min(rest, pause + randomInt(pause)), signal);
    if (said.kind === 'none') pause = Math.min(pause * 2, MAX_PAUSE);
  }
}

async function askOnce(
  question: DrainQuestion,
  wait: number,
  { send, clock, signal }: { readonly send: Send; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<FleetAnswer> {
  const late = new AbortController();
  const cancel = clock.after(wait + GRACE, () => late.abort());
  try {
    return await send(question, wait, AbortSignal.any([signal, late.signal]));
  } catch (error) {
    signal.throwIfAborted();
    const why = late.signal.aborted ? `no answer within ${Math.round(wait + GRACE) / 1000} s` : causeOf(error);
    return { kind: 'none', why };
  } finally {
    cancel();
  }
}
