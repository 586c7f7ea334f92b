/** `slicewire drained`: the preStop hook of a Pod asks the fleet. */

import { realClock } from '../base/clock.ts';
import { askUntilDrained, sendToFleet } from '../fleet/drained/ask-fleet.ts';
import { drainQuestion } from '../fleet/drained/drain-question.ts';
import type { Drained } from '../inspect/wire/drained.ts';
import { drainedText } from '../inspect/wire/drained.ts';
import { isWrongQuestion } from '../inspect/wire/envelope.ts';
import { type CommandInput, show } from './command-input.ts';

/** Resolves with the exit status: 0 drained, 1 not within the time, 2 wrong question. */
export async function drainedCommand(input: CommandInput): Promise<number> {
  try {
    const question = await drainQuestion(input.flags);
    const { drained, answer, failure } = await askUntilDrained(question, {
      send: sendToFleet,
      clock: realClock,
      signal: input.signal,
    });
    if (answer !== undefined) show<Drained>(input, answer, drainedText);
    if (failure !== '')
      process.stderr.write(`slicewire: the fleet at ${question.fleet.host} does not answer: ${failure}\n`);
    return drained ? 0 : 1;
  } catch (error) {
    if (!isWrongQuestion(error)) throw error;
    process.stderr.write(`slicewire: ${error.message}\n`);
    return 2;
  }
}
