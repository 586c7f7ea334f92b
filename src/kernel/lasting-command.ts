/** A process that takes its input piece by piece, and says when it has done each: many pieces need no process of their own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import {
  CommandNotStarted,
  type CommandResult,
  type CommandRunner,
  chunksOf,
  commandNotStarted,
  type LastingCommand,
  realCommands,
} from './commands.ts';

/** Milliseconds without a piece after which the process ends: an agent at rest has none. */
const IDLE_TIMEOUT_MS = 10_000;
/** Characters of output that are kept. */
const MAX_OUTPUT_LENGTH = 64 * 1024;

interface PendingAnswer {
  readonly answer: string;
  readonly resolve: () => void;
}

interface CommandStreams {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
}

/** The seam to processes, with those that last. */
export const lastingCommands: CommandRunner = {
  ...realCommands,
  start: ({ file, args }) => startCommand(file, args),
};

/** Starts at once. Throws CommandNotStarted where no more files can be opened. It keeps this process from ending only while a piece is under way, and ends with it, because its input then ends. */
export function startCommand(file: string, args: readonly string[], idle = IDLE_TIMEOUT_MS): LastingCommand {
  const child: ChildProcess = spawn(file, args, { stdio: 'pipe', env: { ...process.env, LC_ALL: 'C' } });
  const { stdin, stdout, stderr } = child;
  // Node.js makes no streams when the limit of open files is reached, and tells that in an event.
  if (!stdin || !stdout || !stderr) {
    child.on('error', () => undefined);
    throw new CommandNotStarted(file, 'too many open files');
  }
  return new ChildCommand(file, { child, streams: { stdin, stdout, stderr }, idle });
}

class ChildCommand implements LastingCommand {
  readonly #child: ChildProcess;
  readonly #streams: CommandStreams;
  readonly #idle: number;
  readonly #ended: Promise<CommandResult>;
  #hasEnded = false;
  #asked: PendingAnswer | undefined;
  /** The begun line of the output. */
  #line = '';
  /** What it complained about since the last piece. */
  #errors = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(
    file: string,
    { child, streams, idle }: { readonly child: ChildProcess; readonly streams: CommandStreams; readonly idle: number },
  ) {
    this.#child = child;
    this.#streams = streams;
    this.#idle = idle;
    this.#ended = new Promise((resolve, reject) => {
      child.on('error', (error) => reject(commandNotStarted(file, error)));
      child.on('close', (code) => resolve({ exitCode: code ?? undefined, stdout: '', stderr: this.#errors }));
    });
    const end = () => {
      this.#hasEnded = true;
      clearTimeout(this.#timer);
    };
    // A failure is told to whoever asks.
    this.#ended.then(end, end);
    streams.stdin.on('error', () => undefined);
    streams.stdout.setEncoding('utf8').on('data', (text: string) => this.#read(text));
    streams.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-MAX_OUTPUT_LENGTH);
    });
    this.#rest();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async ask(lines: Iterable<string>, answer: string, signal: AbortSignal): Promise<CommandResult | undefined> {
    signal.throwIfAborted();
    this.#wake();
    const stop = () => this.#child.kill();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const { promise: answered, resolve } = Promise.withResolvers<undefined>();
      this.#asked = { answer, resolve: () => resolve(undefined) };
      this.#errors = '';
      await this.#write(lines);
      const result = await Promise.race([answered, this.#ended]);
      signal.throwIfAborted();
      return result;
    } catch (error) {
      // It may wait for the rest of a piece, and must not take the next one for that.
      this.#child.kill();
      this.#hasEnded = true;
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#asked = undefined;
      this.#rest();
    }
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    this.#streams.stdin.end();
  }

  async #write(lines: Iterable<string>): Promise<void> {
    const { stdin } = this.#streams;
    for (const chunk of chunksOf(lines)) {
      if (this.#hasEnded) return;
      if (stdin.write(chunk)) continue;
      // A process that refuses a line takes no more: its status and its complaint tell why, not the broken pipe.
      await Promise.race([once(stdin, 'drain').catch(() => this.#ended), this.#ended]);
    }
  }

  #read(text: string): void {
    const lines = (this.#line + text).split('\n');
    this.#line = (lines.pop() ?? '').slice(-MAX_OUTPUT_LENGTH);
    if (this.#asked !== undefined && lines.includes(this.#asked.answer)) this.#asked.resolve();
  }

  #wake(): void {
    clearTimeout(this.#timer);
    this.#child.ref();
    for (const socket of this.#sockets()) socket.ref();
  }

  #rest(): void {
    this.#child.unref();
    for (const socket of this.#sockets()) socket.unref();
    if (!this.#hasEnded) this.#timer = setTimeout(() => this.end(), this.#idle).unref();
  }

  #sockets(): Socket[] {
    const { stdin, stdout, stderr } = this.#streams;
    return [stdin, stdout, stderr].filter((stream) => stream instanceof Socket);
  }
}
