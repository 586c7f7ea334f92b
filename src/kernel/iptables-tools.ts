/** The iptables commands of one family and backend, and the meaning of their failures (exit statuses: include/xtables.h of iptables). */
import type { Family } from '../base/address.ts';
import { breath, unlessAborted } from '../base/clock.ts';
import { CommandNotStarted, type CommandResult, type CommandRunner, type LastingCommand } from './commands.ts';

/** The variant of the tools: `auto` runs the command `iptables`, the others a variant by its own name. */
export type IptablesBackend = 'auto' | 'nft' | 'legacy';

export type IptablesVariant = Exclude<IptablesBackend, 'auto'>;

/** Seconds that a command waits for the xtables lock. */
const LOCK_WAIT_SECONDS = 5;
/** Exit status RESOURCE_PROBLEM (xtables.h). */
const RESOURCE_PROBLEM = 4;
const RESTORE = ['--noflush', '--wait', String(LOCK_WAIT_SECONDS)];
const LOCK_HELD = /holding the xtables lock|Can't lock/;
/** Lines of output that are read before the event loop runs other work. */
const LINES_AT_ONCE = 4000;

/** Errors about a chain that does not exist; iptables-nft 1.8.9 calls it "incompatible". */
const NO_CHAIN =
  /No chain\/target\/match by that name|[Cc]hain .* does not exist|No such file or directory|is incompatible/;

/** Output of iptables-save that was read before `save` was called. */
interface Ahead {
  readonly stdout: string;
  /** Whether no program has written rules since. */
  readonly isCurrent: () => Promise<boolean>;
}

export interface ChainQuery {
  readonly table: string;
  readonly chain: string;
  /** Seconds to wait for the xtables lock; 5 by default. */
  readonly wait?: number;
}

/** A command of iptables failed. */
export class IptablesError extends Error {
  readonly code = 'IPTABLES';
  /** The line of its input that the command refused, where it names one. */
  readonly line: number | undefined;
  /** The command refused its input. Otherwise it could not work at all. */
  readonly isRefusal: boolean;

  constructor(message: string, { line, isRefusal }: { line?: number | undefined; isRefusal: boolean }) {
    super(message);
    this.line = line;
    this.isRefusal = isRefusal;
  }
}

/** The kubelet's chains, in the variant that its node uses (KEP-3178). */
export const OF_KUBELET = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/**
 * The variant in which this node's kubelet writes; undefined when it has no chains. In a container the command `iptables` may be
 * of another variant than the node's. `mayUse` says which variants may have the chains: the legacy tool must run only where its tables
 * are in use, because it creates them.
 */
export async function backendOfKubelet(
  runner: CommandRunner,
  mayUse: Readonly<Record<IptablesVariant, () => Promise<boolean>>>,
  signal: AbortSignal,
): Promise<IptablesVariant | undefined> {
  for (const backend of ['nft', 'legacy'] as const) {
    if (!(await mayUse[backend]())) continue;
    const tools = new IptablesTools(runner, 'IPv4', backend);
    try {
      for (const chain of OF_KUBELET)
        if (await tools.hasChain({ table: 'mangle', chain, wait: 1 }, signal)) return backend;
    } catch (error) {
      if (signal.aborted) throw error;
      // The variant is missing or does not work: the kubelet does not use it.
    }
  }
  return undefined;
}

/** Runs iptables, iptables-save and iptables-restore of one family. */
export class IptablesTools {
  readonly family: Family;
  readonly #runner: CommandRunner;
  readonly #prefix: string;
  #variant: IptablesVariant | undefined;
  #ahead: Promise<Ahead | undefined> | undefined;
  #writes = 0;
  readonly #lasting: LastingRestore | undefined;

  constructor(runner: CommandRunner, family: Family, backend: IptablesBackend) {
    this.#runner = runner;
    this.family = family;
    const base = family === 'IPv4' ? 'iptables' : 'ip6tables';
    this.#prefix = backend === 'auto' ? base : `${base}-${backend}`;
    const { start } = runner;
    const args = [...RESTORE, '--verbose'];
    this.#lasting = start && new LastingRestore({ start, file: `${this.#prefix}-restore`, args });
  }

  /** The variant of the tool; undefined before `version` ran or it was assumed, and for tools before 1.8, which do not name it. */
  get variant(): IptablesVariant | undefined {
    return this.#variant;
  }

  /** Takes the tool for one of this variant until `version` runs, so that nothing is started before it is needed. */
  assume(variant: IptablesVariant): this {
    this.#variant = variant;
    return this;
  }

  /** The number of restores so far. When it has grown, what is remembered of the rules is stale. */
  get writes(): number {
    return this.#writes;
  }

  /** `iptables v1.8.9 (nf_tables)`. Throws CommandNotStarted when the tool is missing, IptablesError when it does not work. */
  async version(signal: AbortSignal): Promise<string> {
    const { stdout } = await this.#run('', ['--version'], signal);
    this.#variant = stdout.includes('(nf_tables)') ? 'nft' : stdout.includes('(legacy)') ? 'legacy' : undefined;
    return stdout.trim();
  }

  /**
   * Starts to read the rules beside other work. The next `save` uses the output if the ruleset still has the same generation.
   * Nothing is read ahead where the kernel has no generations.
   */
  readAhead(generation: () => Promise<number | undefined>, signal: AbortSignal): void {
    const read = async (): Promise<Ahead | undefined> => {
      const before = await generation();
      if (before === undefined) return undefined;
      const { stdout } = await this.#run('-save', [], signal);
      return { stdout, isCurrent: async () => (await generation()) === before };
    };
    // `save` reads again, and reports its failure.
    this.#ahead = read().catch(() => undefined);
  }

  /** Hands each line of iptables-save to `read`. Throws IptablesError, CommandNotStarted, or the signal's reason. */
  async save(read: (line: string) => void, signal: AbortSignal): Promise<void> {
    const ahead = this.#ahead && (await unlessAborted(this.#ahead, signal));
    this.#ahead = undefined;
    const { stdout } = (await ahead?.isCurrent()) === true && ahead ? ahead : await this.#run('-save', [], signal);
    await eachLine(stdout, read);
    signal.throwIfAborted();
  }

  /** Hands each line of `iptables-save -c` of a table to `read`: rules begin with `[PACKETS:BYTES]`. Throws as `save`. */
  async saveCounters(table: string, read: (line: string) => void, signal: AbortSignal): Promise<void> {
    const { stdout } = await this.#run('-save', ['-c', '-t', table], signal);
    await eachLine(stdout, read);
    signal.throwIfAborted();
  }

  /** Runs `iptables-restore --noflush`. Throws IptablesError with the refused line where the tool names it. */
  async restore(lines: () => Iterable<string>, signal: AbortSignal): Promise<void> {
    this.#writes += 1;
    const result = (await this.#lasting?.restore(lines, signal)) ?? 'unable';
    if (result === 'unable') await this.#run('-restore', RESTORE, signal, lines);
    else if (result !== 'done') throw await this.#failure(`${this.#prefix}-restore`, result);
  }

  /** Whether a chain exists. Throws IptablesError when the tool gives no answer. */
  async hasChain({ table, chain, wait = LOCK_WAIT_SECONDS }: ChainQuery, signal: AbortSignal): Promise<boolean> {
    const args = ['--wait', String(wait), '-t', table, '-S', chain];
    const result = await this.#runner.run({ file: this.#prefix, args }, signal);
    if (result.exitCode === 0) return true;
    if (NO_CHAIN.test(result.stderr)) return false;
    throw await this.#failure(`${this.#prefix} -t ${table} -S ${chain}`, result);
  }

  /** The rules of a chain in order, without `-A CHAIN`; undefined for a missing chain. Throws IptablesError. */
  async rules(
    { table, chain, wait = LOCK_WAIT_SECONDS }: ChainQuery,
    signal: AbortSignal,
  ): Promise<string[] | undefined> {
    const args = ['--wait', String(wait), '-t', table, '-S', chain];
    const result = await this.#runner.run({ file: this.#prefix, args }, signal);
    if (result.exitCode !== 0) {
      if (NO_CHAIN.test(result.stderr)) return undefined;
      throw await this.#failure(`${this.#prefix} -t ${table} -S ${chain}`, result);
    }
    const start = `-A ${chain}`;
    const rules = result.stdout.split('\n').filter((line) => line === start || line.startsWith(`${start} `));
    return rules.map((line) => line.slice(start.length + 1));
  }

  /** Packets that matched each rule of a chain, in the order of the rules; empty for a missing chain. Throws IptablesError. */
  async counters({ table, chain, wait = LOCK_WAIT_SECONDS }: ChainQuery, signal: AbortSignal): Promise<number[]> {
    const args = ['--wait', String(wait), '-t', table, '-v', '-S', chain];
    const result = await this.#runner.run({ file: this.#prefix, args }, signal);
    if (result.exitCode !== 0) {
      if (NO_CHAIN.test(result.stderr)) return [];
      throw await this.#failure(`${this.#prefix} -t ${table} -v -S ${chain}`, result);
    }
    // -A CHAIN … -c PACKETS BYTES -j TARGET; a comment may contain the same text.
    const rules = result.stdout.split('\n').filter((line) => line.startsWith('-A '));
    return rules.map((line) =>
      Number(/ -c (\d{1,20}) \d+(?: -[jg] |$)/.exec(line.replace(/"(?:\\.|[^"])*"/g, ''))?.[1] ?? 0),
    );
  }

  async #run(
    suffix: string,
    args: readonly string[],
    signal: AbortSignal,
    input?: () => Iterable<string>,
  ): Promise<CommandResult> {
    const file = `${this.#prefix}${suffix}`;
    const result = await this.#runner.run(input === undefined ? { file, args } : { file, args, input }, signal);
    if (result.exitCode !== 0) throw await this.#failure(file, result);
    return result;
  }

  async #failure(command: string, result: CommandResult): Promise<IptablesError> {
    const stderr = result.stderr.trim().split('\n').slice(0, 5).join('; ');
    const status = result.exitCode === undefined ? 'was killed' : `exit status ${result.exitCode}`;
    if (LOCK_HELD.test(result.stderr)) {
      const holder = await this.#runner.lockHolder?.();
      const text = `${command} did not get the xtables lock: ${holder ?? 'another program'} holds it`;
      return new IptablesError(text, { isRefusal: false });
    }
    const line = failedLine(result.stderr);
    // iptables-nft also ends with 4, RESOURCE_PROBLEM, when the kernel refuses a rule; it then names the line.
    const isRefusal = line !== undefined || (result.exitCode !== undefined && result.exitCode !== RESOURCE_PROBLEM);
    return new IptablesError(`${command} failed (${status}): ${stderr}`, { line, isRefusal });
  }
}

/** N of `line N failed`, `line N: RULE_APPEND failed`, `Error occurred at line: N`. */
function failedLine(stderr: string): number | undefined {
  const found = /line (\d{1,9}) failed|line (\d{1,9}): \S+ failed|occurred at line: (\d{1,9})/.exec(stderr);
  const text = found?.[1] ?? found?.[2] ?? found?.[3];
  return text === undefined ? undefined : Number(text);
}

/** Calls `read` with each line, and lets the event loop run other work in between. */
async function eachLine(stdout: string, read: (line: string) => void): Promise<void> {
  let start = 0;
  for (let count = 1; start < stdout.length; count++) {
    const end = stdout.indexOf('\n', start);
    read(end < 0 ? stdout.slice(start) : stdout.slice(start, end));
    start = end < 0 ? stdout.length : end + 1;
    if (count % LINES_AT_ONCE === 0) await breath();
  }
}

// Many restores share one process of iptables-restore. A new process for each would cost as much as the rest of a small restore: the fork
// of the agent, the linker, and a question to the kernel for each extension.

/** Restores of one process: the tool does not free all of its memory. */
const MAX_RESTORES = 500;
const ANSWER_TIMEOUT_MS = 5000;
const GREETING = '# slicewire';

interface LastingRestoreOptions {
  readonly start: NonNullable<CommandRunner['start']>;
  readonly file: string;
  readonly args: readonly string[];
  /** Milliseconds in which a tool must print its first comment. */
  readonly patience?: number;
}

/**
 * The tool reads its input line by line and commits a table at its COMMIT. With --verbose it prints comments of its input, so a comment
 * after the last COMMIT says that everything before it is done (iptables-restore.c and xtables-restore.c of iptables). Where a tool does
 * not do this, each restore has a process of its own. For each table the tool reads anew what the kernel has.
 */
export class LastingRestore {
  readonly #options: LastingRestoreOptions;
  #process: LastingCommand | undefined;
  #isBusy = false;
  /** Whether the tool prints comments; undefined before it was tried. */
  #printsComments: boolean | undefined;
  /** Restores and lines of the present process. */
  #restores = 0;
  #lines = 0;

  constructor(options: LastingRestoreOptions) {
    this.#options = options;
  }

  /**
   * Resolves with `done` when all lines were read and committed; with `unable` when nothing was written, and the restore needs a process
   * of its own; otherwise with the result of the process, whose messages count lines from the first of these. Rejects with the signal's
   * reason.
   */
  async restore(lines: () => Iterable<string>, signal: AbortSignal): Promise<'done' | 'unable' | CommandResult> {
    if (this.#isBusy || this.#printsComments === false) return 'unable';
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
    this.#printsComments ??= await this.#greets(process, signal);
    return this.#printsComments ? process : undefined;
  }

  /** Whether the tool prints comments; undefined where it could not be started. */
  async #greets(process: LastingCommand, signal: AbortSignal): Promise<boolean | undefined> {
    const tooLong = AbortSignal.timeout(this.#options.patience ?? ANSWER_TIMEOUT_MS);
    try {
      return (
        (await process.ask(this.#counted([], GREETING), GREETING, AbortSignal.any([signal, tooLong]))) === undefined
      );
    } catch (error) {
      signal.throwIfAborted();
      // The caller runs a process of its own, which fails too and reports it.
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

/** `line 25 failed` → `line 2 failed` after 23 lines of earlier restores. */
function countedFrom(complaints: string, before: number): string {
  return complaints.replace(/\b(line:? )(\d{1,9})\b/g, (whole, words: string, number: string) =>
    Number(number) > before ? `${words}${Number(number) - before}` : whole,
  );
}
