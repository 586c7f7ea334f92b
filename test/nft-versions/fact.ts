/** Questions to a version of a program, and its answers. */
import type { Ran } from './scene.ts';

/** `yes`, or what happens instead. */
export type Answer = string;

export interface Fact<Asked> {
  readonly title: string;
  readonly ask: (of: Asked) => Promise<Answer>;
}

export const YES: Answer = 'yes';
export const CRASHES: Answer = 'crashes';

/** `yes` where the program ended well and said nothing on standard error. */
export function answerOf({ status, error }: Ran): Answer {
  if (status === undefined) return CRASHES;
  // A shell or env that waited for the program has the signal in its status.
  if (status > 128) return CRASHES;
  const [line = ''] = error
    .split('\n')
    .map(plain)
    .filter((text) => text !== '');
  if (status !== 0) return `no: ${line}`;
  return line === '' ? YES : `says: ${line}`;
}

/** The first words, without the place in a file. */
const plain = (line: string) =>
  line
    .replace(/^\S+:\d+:\d+(-\d+)?: /, '')
    .replace(/^Error: /, '')
    .replace(/,.*/, '')
    .replaceAll('|', '\\|')
    .trim();

/** The first answer that is not `yes`. Questions after it are not asked. */
export async function allOf(...asks: readonly (() => Promise<Answer>)[]): Promise<Answer> {
  for (const ask of asks) {
    const answer = await ask();
    if (answer !== YES) return answer;
  }
  return YES;
}

/** Asks one after another. Returns title and answer of each. */
export async function answersOf<Asked>(facts: readonly Fact<Asked>[], of: Asked): Promise<Map<string, Answer>> {
  const answers = new Map<string, Answer>();
  for (const { title, ask } of facts) answers.set(title, await ask(of));
  return answers;
}
