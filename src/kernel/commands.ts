/** Processes: every command starts here, with arguments and standard input, never through a shell. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { Readable, type Writable } from 'node:stream';
import { execa } from 'execa';

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** Lines for standard input, without line ends. */
  readonly input?: () => Iterable<string>;
}

export interface CommandResult {
  /** undefined when a signal ended the command. */
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

const MISSING = 'no such program';

/** A command could not be started. */
export class CommandNotStarted extends Error {
  readonly code = 'COMMAND_NOT_STARTED';
  readonly file: string;
  /** There is no such program. */
  readonly isMissing: boolean;

  constructor(file: string, cause: string) {
    super(`cannot start ${file}: ${cause}`);
    this.file = file;
    this.isMissing = cause === MISSING;
  }
}

/** A command that takes its input in pieces, one at a time. */
export interface LastingCommand {
  readonly hasEnded: boolean;
  /**
   * Writes lines to its input. Resolves with undefined when it prints the line `answer`, with its result when it ends before that. Rejects
   * with CommandNotStarted, or with the signal's reason after it has ended.
   */
  ask(lines: Iterable<string>, answer: string, signal: AbortSignal): Promise<CommandResult | undefined>;
  /** Ends its input. */
  end(): void;
}

export interface CommandRunner {
  /** Starts a command that takes its input in pieces. Without it, each piece has a process of its own. */
  start?(command: Omit<Command, 'input'>): LastingCommand;
  /** Runs a command to its end. Any exit status is a result. Rejects with CommandNotStarted, or with the signal's reason. */
  run(command: Command, signal: AbortSignal): Promise<CommandResult>;
  /** The holder of the xtables lock: `iptables (process 123)`; undefined where it is not known. Never rejects. */
  lockHolder?(): Promise<string | undefined>;
}

/** Characters of a write to standard input. */
const CHUNK = 512 * 1024;

export const realCommands: CommandRunner = {
  lockHolder,
  async run({ file, args, input }, signal) {
    signal.throwIfAborted();
    const source = input === undefined ? { stdin: 'ignore' as const } : { input: Readable.from(chunksOf(input())) };
    const result = await execa(file, args, {
      ...source,
      cancelSignal: signal,
      reject: false,
      stripFinalNewline: false,
      maxBuffer: 1024 * 1024 * 1024,
      env: { LC_ALL: 'C' },
    });
    if (signal.aborted) throw signal.reason;
    if (result.exitCode === undefined && result.signal === undefined) {
      throw commandNotStarted(file, { code: result.code, message: result.originalMessage });
    }
    return { exitCode: result.exitCode, stdout: String(result.stdout), stderr: String(result.stderr) };
  },
};

/** The reason in words, from the error of a process that was not started. */
export function commandNotStarted(
  file: string,
  { code, message }: { readonly code?: string | undefined; readonly message?: string | undefined },
): CommandNotStarted {
  if (code === 'ENOENT') return new CommandNotStarted(file, MISSING);
  return new CommandNotStarted(file, code === 'EACCES' ? 'permission denied' : (message ?? 'unknown cause'));
}

/** Joins lines into chunks, so that writes are few and none blocks the event loop for long. */
export function* chunksOf(lines: Iterable<string>): Generator<string> {
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    chunk += '\n';
    if (chunk.length >= CHUNK) {
      yield chunk;
      chunk = '';
    }
  }
  if (chunk !== '') yield chunk;
}

// Lasting commands: a command that takes its input piece by piece, and prints a line when it has done a piece, saves a process for each.

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

/** `realCommands`, with lasting commands. */
export const lastingCommands: CommandRunner = {
  ...realCommands,
  start: ({ file, args }) => startCommand(file, args),
};

/**
 * Starts at once. The command keeps this process from ending only while a piece is under way, and ends with this process, because its
 * input ends then. Throws CommandNotStarted where no more files can be opened.
 */
export function startCommand(file: string, args: readonly string[], idle = IDLE_TIMEOUT_MS): LastingCommand {
  const child: ChildProcess = spawn(file, args, { stdio: 'pipe', env: { ...process.env, LC_ALL: 'C' } });
  const { stdin, stdout, stderr } = child;
  // At the limit of open files Node.js makes no streams, and emits an error.
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
  #pending: PendingAnswer | undefined;
  /** The last line of the output, without its end. */
  #line = '';
  /** Standard error since the last piece. */
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
    // A failure is reported by `ask`.
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
      this.#pending = { answer, resolve: () => resolve(undefined) };
      this.#errors = '';
      await this.#write(lines);
      const result = await Promise.race([answered, this.#ended]);
      signal.throwIfAborted();
      return result;
    } catch (error) {
      // The command may wait for the rest of a piece, and would take the next piece for that.
      this.#child.kill();
      this.#hasEnded = true;
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#pending = undefined;
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
      // A command that refuses a line reads no more: its status and its standard error have the reason, not the broken pipe.
      await Promise.race([once(stdin, 'drain').catch(() => this.#ended), this.#ended]);
    }
  }

  #read(text: string): void {
    const lines = (this.#line + text).split('\n');
    this.#line = (lines.pop() ?? '').slice(-MAX_OUTPUT_LENGTH);
    if (this.#pending !== undefined && lines.includes(this.#pending.answer)) this.#pending.resolve();
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

// Processes that run beside slicewire and exchange lines with it, such as a host of the demo.

export interface Child {
  readonly pid: number | undefined;
  send(line: string): void;
  /** Sends SIGTERM, and SIGKILL after 2 s; resolves when the process has ended. */
  stop(): Promise<void>;
  /** Resolves with the exit status when the process ends; undefined when a signal ended it. */
  readonly ended: Promise<number | undefined>;
}

interface ChildOptions {
  readonly file: string;
  readonly args: readonly string[];
  readonly onLine?: (line: string) => void;
  /** Lines of standard error. */
  readonly onErrorLine?: (line: string) => void;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts at once. `ended` resolves with undefined where the program cannot start. */
export function startChild({ file, args, onLine, onErrorLine, env }: ChildOptions): Child {
  const child = execa(file, args, {
    reject: false,
    buffer: false,
    stdin: 'pipe',
    forceKillAfterDelay: 2000,
    ...(env === undefined ? {} : { env }),
  });
  createInterface({ input: child.stdout }).on('line', (line) => onLine?.(line));
  createInterface({ input: child.stderr }).on('line', (line) => onErrorLine?.(line));
  child.stdin.on('error', () => undefined);
  const ended = child.then((result) => result.exitCode);
  return {
    pid: child.pid,
    send: (line) => child.stdin.write(`${line}\n`),
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
    ended,
  };
}

// The holder of the xtables lock: a message with its name saves an operator a guess (k8s#48107).

/** The lock of the legacy variant of iptables (iptables/xshared.c). */
const LOCK_FILE = process.env.XTABLES_LOCKFILE || '/run/xtables.lock';

/** `iptables (process 123)`; undefined when /proc/locks names no holder (proc_locks(5)). */
async function lockHolder(): Promise<string | undefined> {
  try {
    const { ino } = await stat(LOCK_FILE);
    const pid = holderIn(await readFile('/proc/locks', 'utf8'), ino);
    if (pid !== undefined) return await describe(pid);
  } catch {
    // The holder is only a hint in an error message, which says "another program" without it.
  }
  return undefined;
}

/** The process that holds a lock of the whole file with this inode; undefined when /proc/locks names none. */
export function holderIn(locks: string, inode: number): string | undefined {
  for (const line of locks.split('\n')) {
    const [, kind, , , pid, file] = line.trim().split(/\s+/);
    // The number becomes part of a path. A process of another namespace has -1.
    if (kind === 'FLOCK' && file?.endsWith(`:${inode}`) === true && pid !== undefined && /^\d{1,10}$/.test(pid))
      return pid;
  }
  return undefined;
}

async function describe(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'a program');
  return `${name.trim()} (process ${pid})`;
}
