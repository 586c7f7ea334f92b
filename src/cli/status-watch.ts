/** `slicewire status --watch`: asks each second until it is interrupted. */
import { realClock, sleep } from '../base/clock.ts';
import { NoAnswer } from '../inspect/wire/envelope.ts';
import { clockTime, timeBetween } from '../inspect/wire/format.ts';
import type { Status } from '../inspect/wire/status.ts';
import { statusText } from '../inspect/wire/status-text.ts';
import { type CommandInput, show } from './command-input.ts';

type AskStatus = (signal: AbortSignal) => Promise<Status>;

/** The output: a terminal, or lines. */
interface WatchView {
  answered(status: Status): void;
  failed(message: string): void;
  end(): void;
}

const INTERVAL_MS = 1000;
/** A healthy agent answers within some milliseconds. */
const ANSWER_TIMEOUT_MS = 5000;

/** On a terminal the text is redrawn, elsewhere each change is printed once. Resolves with the exit status. */
export async function watchStatus(input: CommandInput, ask: AskStatus): Promise<number> {
  const { flags, signal } = input;
  const isScreen = process.stdout.isTTY && flags.output !== 'json';
  const view = isScreen ? await screenView() : lineView(input);
  let isHealthy = true;
  try {
    while (!signal.aborted) {
      try {
        const status = await answerInTime(ask, signal);
        isHealthy = status.health.healthy;
        view.answered(status);
      } catch (error) {
        if (signal.aborted) break;
        // The agent may be restarting.
        if (!(error instanceof NoAnswer)) throw error;
        isHealthy = false;
        view.failed(error.message);
      }
      await sleep(realClock, INTERVAL_MS, signal).catch(() => undefined);
    }
  } finally {
    view.end();
  }
  return isHealthy ? 0 : 2;
}

async function answerInTime(ask: AskStatus, signal: AbortSignal): Promise<Status> {
  const late = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  try {
    return await ask(AbortSignal.any([signal, late]));
  } catch (error) {
    if (!late.aborted || signal.aborted) throw error;
    throw new NoAnswer(`the agent has not answered for ${ANSWER_TIMEOUT_MS / 1000} s`);
  }
}

function lineView(input: CommandInput): WatchView {
  let before = '';
  return {
    answered: (status) => {
      const now = lastingOf(status);
      if (now !== before) show(input, status, (of) => `${statusText(of)}\n`);
      before = now;
    },
    failed: (message) => {
      if (before !== message) input.print(message);
      before = message;
    },
    end: () => undefined,
  };
}

/** The status without the parts that change each second. */
function lastingOf({ by: _, heard, history, ...lasting }: Status): string {
  return JSON.stringify({
    ...lasting,
    lost: heard.map(({ of, lost }) => [of, lost]),
    folder: history?.folder,
  });
}

interface ScreenContents {
  readonly status?: Status;
  readonly failure?: { readonly message: string; readonly since: string };
}

/** `now` has the form of a moment in an answer. */
function screenText({ status, failure }: ScreenContents, now: string): string {
  const last = status === undefined ? '' : statusText(status);
  if (failure === undefined) return `${last}\n\nAsked each second; Ctrl+C ends.`;
  const { message, since } = failure;
  const gone = `NO ANSWER since ${clockTime(since, now)}, for ${timeBetween(since, now)}; asked again each second, Ctrl+C ends.`;
  const old = status === undefined ? [] : ['', `The last answer, of ${clockTime(status.by.at, now)}:`, '', last];
  return [gone, message, ...old].join('\n');
}

/** Draws on the terminal of standard output, and leaves the last picture there. */
async function screenView(): Promise<WatchView> {
  const { createLogUpdate } = await import('log-update');
  const { stdout } = process;
  const log = createLogUpdate(stdout);
  let shown: ScreenContents = {};
  const draw = () => {
    if (shown.status === undefined && shown.failure === undefined) return;
    const { columns, rows } = stdout;
    log(fitted(screenText(shown, new Date(realClock.wall()).toISOString()), { columns, rows }));
  };
  const afresh = () => {
    // The terminal has wrapped the lines anew, so their places are unknown.
    stdout.write('\x1b[H\x1b[2J');
    log.done();
    draw();
  };
  const pause = () => {
    log.done();
    process.kill(process.pid, 'SIGSTOP');
  };
  const events = [
    [stdout, 'resize', afresh],
    [process, 'SIGCONT', afresh],
    [process, 'SIGTSTP', pause],
  ] as const;
  for (const [of, event, listener] of events) of.on(event, listener);
  return {
    answered: (status) => {
      shown = { status };
      draw();
    },
    failed: (message) => {
      const since = shown.failure?.since ?? new Date(realClock.wall()).toISOString();
      shown = { ...shown, failure: { message, since } };
      draw();
    },
    end: () => {
      for (const [of, event, listener] of events) of.off(event, listener);
      log.done();
    },
  };
}

/** The size of a terminal. */
interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** C0 and C1 control characters: names and messages of others could move the cursor with them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression removes them.
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;
/** Hanging indent of a wrapped line. */
const HANGING_INDENT = 2;

/** Lines that are no wider than the terminal, and one fewer than its rows, because the cursor is below them. */
export function fitted(text: string, { columns, rows }: Size): string {
  const lines = text.split('\n').flatMap((line) => wrapped(line.replace(CONTROL, '\ufffd'), Math.max(columns, 10)));
  const room = Math.max(rows - 1, 1);
  if (lines.length <= room) return lines.join('\n');
  const shown = lines.slice(0, room - 1);
  const note = `… ${lines.length - shown.length} more lines: a taller window shows them`;
  return [...shown, note.slice(0, columns)].join('\n');
}

/** The pieces of a line, wrapped at blanks if it has some. */
function wrapped(line: string, width: number): string[] {
  const indent = Math.min(/^ */.exec(line)?.[0].length ?? 0, width >> 1);
  const begin = ' '.repeat(Math.min(indent + HANGING_INDENT, width >> 1));
  const pieces: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const blank = rest.lastIndexOf(' ', width);
    const end = blank > begin.length ? blank : width;
    pieces.push(rest.slice(0, end).trimEnd());
    rest = `${begin}${rest.slice(end).trimStart()}`;
  }
  return [...pieces, rest];
}
