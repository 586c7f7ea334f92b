/** What explain, verify, status and history do. Each resolves with its exit status. */
import type { Inquiries } from '../agent/inquiries.ts';
import { readMoment, readSince, serviceKey } from '../agent/questions.ts';
import { momentOf } from '../answers/form.ts';
import { historySchema } from '../answers/history.ts';
import { historyText } from '../answers/history-text.ts';
import { NoAnswer, WrongQuestion } from '../answers/problem.ts';
import type { AnswerSchema } from '../answers/read.ts';
import { type Status, statusSchema } from '../answers/status.ts';
import { statusText } from '../answers/status-text.ts';
import { textFlag } from '../config/flags.ts';
import { realClock, sleep } from '../host/clock.ts';
import { askAgent } from './agent-client.ts';
import { type Answerer, answererOf, withInquiries } from './answerer.ts';
import type { AskedOnCommandLine } from './asked.ts';

/** A question in both forms: for an agent over HTTP, and for the parts in this process. */
interface Question<A> {
  readonly path: string;
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly schema: AnswerSchema<A>;
  /** The moment that it is about, in milliseconds since 1970. */
  readonly at?: number | undefined;
  answer(inquiries: Inquiries, signal: AbortSignal): Promise<A>;
}

async function ask<A>(answerer: Answerer, question: Question<A>, { flags, signal }: AskedOnCommandLine): Promise<A> {
  const { path, parameters = {}, schema } = question;
  if (answerer.who === 'agent') return await askAgent({ listen: answerer.listen, path, parameters, signal }, schema);
  const use = (inquiries: Inquiries, until: AbortSignal) => question.answer(inquiries, until);
  return await withInquiries(flags, signal, use);
}

function show<A extends object>({ flags, print }: AskedOnCommandLine, answer: A, textOf: (answer: A) => string): void {
  print(flags.output === 'json' ? JSON.stringify(answer, undefined, 2) : textOf(answer));
}

function momentFlag({ flags }: AskedOnCommandLine, flag: string): number | undefined {
  const text = textFlag(flags, flag);
  return text === undefined ? undefined : readMoment(`--${flag}`, text, realClock.wall());
}

export async function historyCommand(asked: AskedOnCommandLine): Promise<number> {
  const { flags, words } = asked;
  const [word] = words;
  const service = word === undefined ? undefined : serviceKey(word);
  const sinceText = textFlag(flags, 'since');
  const at = momentFlag(asked, 'at');
  const since = sinceText === undefined ? undefined : readSince('--since', sinceText, at ?? realClock.wall());
  const answerer = await answererOf(flags);
  if (answerer.who === 'command') {
    throw new WrongQuestion(
      'history is kept by an agent that runs, or by a file: leave out the source of objects, or use --recording FILE',
    );
  }
  const text = (moment: number | undefined) => (moment === undefined ? undefined : momentOf(moment));
  const answer = await ask(
    answerer,
    {
      path: '/history',
      parameters: { service, since: text(since), at: text(at) },
      schema: historySchema,
      answer: (inquiries, signal) => inquiries.history({ service, since, at }, signal),
    },
    asked,
  );
  show(asked, answer, historyText);
  return 0;
}

const STATUS: Question<Status> = {
  path: '/status',
  schema: statusSchema,
  answer: (inquiries) => Promise.resolve(inquiries.status()),
};

export async function statusCommand(asked: AskedOnCommandLine): Promise<number> {
  const answerer = await answererOf(asked.flags);
  if (asked.flags.watch === true) return await watchStatus(asked, answerer);
  const status = await ask(answerer, STATUS, asked);
  show(asked, status, statusText);
  return status.health.healthy ? 0 : 2;
}

const SECOND = 1000;
const CLEAR = '\x1b[2J\x1b[3J\x1b[H';

/** Until interrupted: on a terminal the text is redrawn, elsewhere each change is printed once. */
async function watchStatus(asked: AskedOnCommandLine, answerer: Answerer): Promise<number> {
  const { flags, signal, print } = asked;
  if (answerer.who !== 'agent') {
    throw new WrongQuestion('--watch follows an agent that runs: leave out the source of objects');
  }
  const isScreen = process.stdout.isTTY && flags.output !== 'json';
  let before = '';
  let isHealthy = true;
  while (!signal.aborted) {
    try {
      const status = await ask(answerer, STATUS, asked);
      isHealthy = status.health.healthy;
      const now = lastingOf(status);
      if (isScreen) print(`${CLEAR}${statusText(status)}`);
      else if (now !== before) show(asked, status, (of) => `${statusText(of)}\n`);
      before = now;
    } catch (error) {
      if (signal.aborted) break;
      // The agent may be restarting.
      if (!(error instanceof NoAnswer)) throw error;
      isHealthy = false;
      if (before !== error.message) print(error.message);
      before = error.message;
    }
    await sleep(realClock, SECOND, signal).catch(() => undefined);
  }
  return isHealthy ? 0 : 2;
}

/** What is not another text each second. */
function lastingOf({ by: _, heard, history, ...lasting }: Status): string {
  return JSON.stringify({
    ...lasting,
    failures: heard.map(({ of, failure }) => [of, failure]),
    folder: history?.folder,
  });
}
