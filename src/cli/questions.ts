/** What explain, verify, status, history, record and replay do. Each resolves with its exit status. */
import { NoAnswer, WrongQuestion } from '../answers/problem.ts';
import { type Status, statusSchema } from '../answers/status.ts';
import { statusText } from '../answers/status-text.ts';
import { realClock, sleep } from '../host/clock.ts';
import { askAgent } from './agent-client.ts';
import { type Answerer, answererOf, withInquiries } from './answerer.ts';
import type { AskedOnCommandLine } from './asked.ts';

export async function statusCommand(asked: AskedOnCommandLine): Promise<number> {
  const { flags, signal } = asked;
  const answerer = await answererOf(flags);
  if (flags.watch === true) return await watchStatus(asked, answerer);
  const status = await statusBy(answerer, asked);
  show(asked, status, statusText);
  signal.throwIfAborted();
  return status.health.healthy ? 0 : 2;
}

async function statusBy(answerer: Answerer, { flags, signal }: AskedOnCommandLine): Promise<Status> {
  if (answerer.who === 'agent') return await askAgent({ ...answerer, path: '/status', signal }, statusSchema);
  if (answerer.who === 'command') {
    return await withInquiries(flags, signal, (inquiries) => Promise.resolve(inquiries.status()));
  }
  throw new NoAnswer('not yet');
}

const SECOND = 1000;
const CLEAR = '\x1b[2J\x1b[3J\x1b[H';

/** Until interrupted: on a terminal the text is redrawn, elsewhere each change is printed once. */
async function watchStatus(asked: AskedOnCommandLine, answerer: Answerer): Promise<number> {
  const { flags, signal, print } = asked;
  if (answerer.who !== 'agent')
    throw new WrongQuestion('--watch follows an agent that runs: leave out the source of objects');
  const isScreen = process.stdout.isTTY && flags.output !== 'json';
  let before = '';
  let isHealthy = true;
  for (;;) {
    try {
      const status = await statusBy(answerer, asked);
      isHealthy = status.health.healthy;
      const { by: _, heard: __, ...lasting } = status;
      const now = JSON.stringify(lasting);
      if (isScreen) print(`${CLEAR}${statusText(status)}`);
      else if (now !== before) show(asked, status, (of) => `${statusText(of)}\n`);
      before = now;
    } catch (error) {
      if (signal.aborted) return isHealthy ? 0 : 2;
      // The agent may be restarting.
      if (!(error instanceof NoAnswer)) throw error;
      isHealthy = false;
      if (before !== error.message) print(error.message);
      before = error.message;
    }
    await sleep(realClock, SECOND, signal).catch(() => undefined);
  }
}

function show<A extends object>({ flags, print }: AskedOnCommandLine, answer: A, textOf: (answer: A) => string): void {
  print(flags.output === 'json' ? JSON.stringify(answer, undefined, 2) : textOf(answer));
}
