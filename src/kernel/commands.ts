/** The seam to processes: every command starts here, with arguments and standard input, never through a shell. */

import { readFile, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
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

/** A command could not be started. `cause`: in words. */
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

/** A command that takes its input in pieces, for as long as it has not ended. One piece at a time. */
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
  /** Starts a command that takes its input in pieces. Missing: each piece has a process of its own. */
  start?(command: Omit<Command, 'input'>): LastingCommand;
  /** Runs a command to its end. Any exit status is a result. Rejects with CommandNotStarted, or with the signal's reason. */
  run(command: Command, signal: AbortSignal): Promise<CommandResult>;
  /** Who holds the xtables lock: `iptables (process 123)`; undefined where that is not known. Never rejects. */
  lockHolder?(): Promise<string | undefined>;
}

/** Characters that are written to standard input at once. */
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

/** Joins lines into chunks: few writes, and none that blocks the event loop for long. */
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

// Finds the process that holds the xtables lock, so that an operator need not guess (k8s#48107).

/** Where the legacy variant of iptables has its lock (iptables/xshared.c). */
const LOCK_FILE = process.env.XTABLES_LOCKFILE || '/run/xtables.lock';

/** `iptables (process 123)`; undefined when /proc/locks names no holder (proc_locks(5)). */
async function lockHolder(): Promise<string | undefined> {
  try {
    const { ino } = await stat(LOCK_FILE);
    const pid = holderIn(await readFile('/proc/locks', 'utf8'), ino);
    if (pid !== undefined) return await describe(pid);
  } catch {
    // The holder is a hint in an error message. Without it the message has "another program".
  }
  return undefined;
}

/** The process that holds a lock of the whole file with this inode; undefined when the text names none. */
export function holderIn(locks: string, inode: number): string | undefined {
  for (const line of locks.split('\n')) {
    const [, kind, , , pid, file] = line.trim().split(/\s+/);
    // The number becomes part of a path; -1 stands for a process of another namespace.
    if (kind === 'FLOCK' && file?.endsWith(`:${inode}`) === true && pid !== undefined && /^\d{1,10}$/.test(pid))
      return pid;
  }
  return undefined;
}

async function describe(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'a program');
  return `${name.trim()} (process ${pid})`;
}
