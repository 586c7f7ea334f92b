/** Answers of an agent, as the commands read and print them. */

import { NoAnswer } from '../../../src/inspect/wire/envelope.ts';
import { explanationSchema, explanationText } from '../../../src/inspect/wire/explanation.ts';
import { historySchema } from '../../../src/inspect/wire/history.ts';
import { type AnswerSchema, problemIn, readAnswer } from '../../../src/inspect/wire/read.ts';
import { statusSchema } from '../../../src/inspect/wire/status.ts';
import { historyText, statusText } from '../../../src/inspect/wire/status-text.ts';
import { verificationSchema, verificationText } from '../../../src/inspect/wire/verification.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateJson } from '../mutate/json.ts';
import { soundPrototypes } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';

function reader<T>(schema: AnswerSchema<T>, text: (answer: T) => string): (input: string) => string {
  return (input) => text(readAnswer(input, schema));
}

const READERS = [
  reader(explanationSchema, explanationText),
  reader(historySchema, historyText),
  reader(statusSchema, statusText),
  reader(verificationSchema, verificationText),
];

export const answers: Target = {
  name: 'answers',
  declared: [],
  seeds: corpusFiles('answers'),
  mutate: mutateJson,
  run(input) {
    const text = input.toString();
    for (const read of READERS) {
      try {
        const shown = read(text);
        sure(typeof shown === 'string', () => 'the text of an answer is none');
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
    }
    const problem = problemIn(text);
    sure(problem === undefined || typeof problem === 'string', () => 'the problem is no text');
    soundPrototypes();
  },
};
