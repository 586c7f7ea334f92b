/**
 * One process of iptables-restore for many restores. A new process for each costs as much as the rest of a small restore: the fork of
 * the agent, the linker, and a question to the kernel for each extension.
 *
 * The tool reads its input line by line and commits a table at its COMMIT. With --verbose it prints comments of its input, so a comment
 * after the last COMMIT tells that all before it is done (iptables-restore.c and xtables-restore.c of iptables). Where a tool does not
 * do this, each restore has a process of its own. The tool reads what the kernel has anew for each table.
 */
import { CommandNotStarted, type CommandResult, type CommandRunner, type LastingCommand } from './commands.ts';

/** Restores of one process: what the tool does not free stays small. */
const MAX_RESTORES = 500;
const ANSWER_TIMEOUT_MS = 5000;
const GREETING = '# slicewire';

export interface LastingRestoreOptions {
  readonly start: NonNullable<CommandRunner['start']>;
  readonly file: string;
  readonly args: readonly string[];
  /** Milliseconds in which a tool prints its first comment. */
  readonly patience?: number;
}

export class LastingRestore {
  readonly #options: LastingRestoreOptions;
  #process: LastingCommand | undefined;
  #isBusy = false;
  /** Whether the tool prints comments; undefined: not tried yet. */
  #answers: boolean | undefined;
  /** Restores and lines of the present process. */
  #restores = 0;
  #lines = 0;

  constructor(options: LastingRestoreOptions) {
    this.#options = options;
  }

  /**
   * `done`: all lines were read and committed. `unable`: nothing was written, and a process of its own must do it. Otherwise the result
   * of the process, whose complaints count lines from the first of these. Rejects with the signal's reason.
   */
  async restore(lines: () => Iterable<string>, signal: AbortSignal): Promise<'done' | 'unable' | CommandResult> {
    if (this.#isBusy || this.#answers === false) return 'unable';
    this.#isBusy = true;
    try {
      const process = await this.#ready(signal);
      if (process === undefined) return 'unable';
      const before = this.#lines;
      this.#restores += 1;
      const mark = `${GREETING} ${this.#restores}`;
      const result = await process.ask(this.#counted(lines(), mark), mark, signal);
      return result === undefined ? 'done' : { ...result, stderr: countedFrom(result.stderr, before) };
    } finally {
      this.#isBusy = false;
    }
  }

  /** A process that prints comments; undefined where the tool does not. */
  async #ready(signal: AbortSignal): Promise<LastingCommand | undefined> {
    if (this.#process?.hasEnded === false && this.#restores < MAX_RESTORES) return this.#process;
    this.#process?.end();
    const { start, file, args } = this.#options;
    const process = start({ file, args });
    this.#process = process;
    this.#restores = 0;
    this.#lines = 0;
    this.#answers ??= await this.#greets(process, signal);
    return this.#answers ? process : undefined;
  }

  /** undefined: not known. */
  async #greets(process: LastingCommand, signal: AbortSignal): Promise<boolean | undefined> {
    const tooLong = AbortSignal.timeout(this.#options.patience ?? ANSWER_TIMEOUT_MS);
    try {
      return (
        (await process.ask(this.#counted([], GREETING), GREETING, AbortSignal.any([signal, tooLong]))) === undefined
      );
    } catch (error) {
      signal.throwIfAborted();
      // A program that cannot be started is reported by the process of its own, and tried again.
      return error instanceof CommandNotStarted ? undefined : false;
    }
  }

  *#counted(lines: Iterable<string>, mark: string): Generator<string> {
    for (const line of lines) {
      this.#lines += 1;
      yield line;
    }
    this.#lines += 1;
    yield mark;
  }
}

/** `line 25 failed` is `line 2 failed` after 23 lines of earlier restores. */
function countedFrom(complaints: string, before: number): string {
  return complaints.replace(/\b(line:? )(\d{1,9})\b/g, (whole, words: string, number: string) =>
    Number(number) > before ? `${words}${Number(number) - before}` : whole,
  );
}
