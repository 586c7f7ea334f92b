/** The seam to processes: every command starts here, with arguments and standard input, never through a shell. */
import { Readable } from 'node:stream';
import { execa } from 'execa';
import { lockHolder } from './xtables-lock.ts';

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

export interface CommandRunner {
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
    const source = input === undefined ? { stdin: 'ignore' as const } : { input: Readable.from(chunks(input())) };
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
      throw new CommandNotStarted(file, startProblem(result));
    }
    return { exitCode: result.exitCode, stdout: String(result.stdout), stderr: String(result.stderr) };
  },
};

/** The reason in words. */
function startProblem(result: {
  readonly code?: string | undefined;
  readonly originalMessage?: string | undefined;
}): string {
  if (result.code === 'ENOENT') return MISSING;
  return result.code === 'EACCES' ? 'permission denied' : (result.originalMessage ?? 'unknown cause');
}

/** Joins lines into chunks: few writes, and none that blocks the event loop for long. */
function* chunks(lines: Iterable<string>): Generator<string> {
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
