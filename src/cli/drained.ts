/** `slicewire drained`: the preStop hook of a Pod asks the fleet. */

import { realClock } from '../base/clock.ts';
import { askUntilDrained } from '../fleet/drained/ask-fleet.ts';
import { drainQuestion } from '../fleet/drained/drain-question.ts';
import { sendToFleet } from '../fleet/drained/send.ts';
import { type Drained, drainedText } from '../inspect/wire/drained.ts';
import { isWrongQuestion } from '../inspect/wire/envelope.ts';
import { type AskedOnCommandLine, show } from './typed-command.ts';

/** Resolves with the exit status: 0 drained, 1 not within the time, 2 wrong question. */
export async function drainedCommand(asked: AskedOnCommandLine): Promise<number> {
  try {
    const question = await drainQuestion(asked.flags);
    const { drained, answer, failure } = await askUntilDrained(question, {
      send: sendToFleet,
      clock: realClock,
      signal: asked.signal,
    });
    if (answer !== undefined) show<Drained>(asked, answer, drainedText);
    if (failure !== '')
      process.stderr.write(`slicewire: the fleet at ${question.fleet.host} does not answer: ${failure}\n`);
    return drained ? 0 : 1;
  } catch (error) {
    if (!isWrongQuestion(error)) throw error;
    process.stderr.write(`slicewire: ${error.message}\n`);
    return 2;
  }
}
