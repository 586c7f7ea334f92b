/** The iptables commands of one family and backend, and what their failures mean (exit statuses: include/xtables.h of iptables). */
import type { Family } from '../model/address.ts';
import { breath, unlessAborted } from './clock.ts';
import type { CommandResult, CommandRunner } from './commands.ts';
import { lockHolder } from './xtables-lock.ts';

/** Which variant of the tools: what the name `iptables` means on this host, or one by its own name. */
export type IptablesBackend = 'auto' | 'nft' | 'legacy';

/** One of the two by itself. */
export type IptablesVariant = Exclude<IptablesBackend, 'auto'>;

/** Seconds that a command waits for the xtables lock. */
const LOCK_WAIT_SECONDS = 5;
/** Exit status RESOURCE_PROBLEM (xtables.h). */
const RESOURCE_PROBLEM = 4;
const LOCK_HELD = /holding the xtables lock|Can't lock/;
/** Lines of output between two breaths of the event loop. */
const LINES_A_BREATH = 4000;

/** What the tools say of a chain that is not there; iptables-nft calls it «incompatible» (1.8.9). */
const NO_CHAIN =
  /No chain\/target\/match by that name|[Cc]hain .* does not exist|No such file or directory|is incompatible/;

/** What was read before it was asked for. */
interface Ahead {
  readonly stdout: string;
  /** Nothing was written since. */
  readonly isCurrent: () => Promise<boolean>;
}

export interface ChainQuery {
  readonly table: string;
  readonly chain: string;
  /** Seconds to wait for the lock; without any, the legacy tool waits for ever. */
  readonly wait?: number;
}

/** A command of iptables failed. */
export class IptablesError extends Error {
  readonly code = 'IPTABLES';
  /** The line of its input that it complained of. */
  readonly line: number | undefined;
  /** It refused what it was given; otherwise it could not do its work at all. */
  readonly isRefusal: boolean;

  constructor(message: string, { line, isRefusal }: { line?: number | undefined; isRefusal: boolean }) {
    super(message);
    this.line = line;
    this.isRefusal = isRefusal;
  }
}

/** Chains that the kubelet makes, in the variant that its node uses (KEP-3178). */
const OF_KUBELET = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/**
 * The variant in which the kubelet of this node writes, if there is one: in a container the name `iptables` says nothing of
 * the node. undefined when nothing of it is found. The legacy tool is asked only where its tables are in use: asking makes them.
 */
export async function backendOfKubelet(
  runner: CommandRunner,
  hasLegacyTables: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<IptablesVariant | undefined> {
  for (const backend of ['nft', 'legacy'] as const) {
    if (backend === 'legacy' && !(await hasLegacyTables())) continue;
    const tools = new IptablesTools(runner, 'IPv4', backend);
    try {
      for (const chain of OF_KUBELET)
        if (await tools.hasChain({ table: 'mangle', chain, wait: 1 }, signal)) return backend;
    } catch (error) {
      if (signal.aborted) throw error;
      // That variant is not there, or does not work here: the kubelet does not use it.
    }
  }
  return undefined;
}

export class IptablesTools {
  readonly family: Family;
  readonly #runner: CommandRunner;
  readonly #prefix: string;
  #variant: IptablesVariant | undefined;
  #ahead: Promise<Ahead | undefined> | undefined;
  #writes = 0;

  constructor(runner: CommandRunner, family: Family, backend: IptablesBackend) {
    this.#runner = runner;
    this.family = family;
    const base = family === 'IPv4' ? 'iptables' : 'ip6tables';
    this.#prefix = backend === 'auto' ? base : `${base}-${backend}`;
  }

  /** What the tool said that it is; undefined until its version was asked for, and of one that does not say it (before 1.8). */
  get variant(): IptablesVariant | undefined {
    return this.#variant;
  }

  /** Restores that were begun: whoever remembers something of the rules knows by it that they are others now. */
  get writes(): number {
    return this.#writes;
  }

  /** `iptables v1.8.9 (nf_tables)`. Throws when the tool is missing or does not work. */
  async version(signal: AbortSignal): Promise<string> {
    const { stdout } = await this.#run('', ['--version'], signal);
    this.#variant = stdout.includes('(nf_tables)') ? 'nft' : stdout.includes('(legacy)') ? 'legacy' : undefined;
    return stdout.trim();
  }

  /**
   * Begin to read what `save` is to be asked for, beside other work. It serves once, and only if the ruleset still has the
   * number then that it had before; where it has none, nothing is read.
   */
  readAhead(generation: () => Promise<number | undefined>, signal: AbortSignal): void {
    const read = async (): Promise<Ahead | undefined> => {
      const before = await generation();
      if (before === undefined) return undefined;
      const { stdout } = await this.#run('-save', [], signal);
      return { stdout, isCurrent: async () => (await generation()) === before };
    };
    // What is wrong is told by the read that is made in its place.
    this.#ahead = read().catch(() => undefined);
  }

  /** Hand each line of all tables, as saved, to `read`. */
  async save(read: (line: string) => void, signal: AbortSignal): Promise<void> {
    const ahead = this.#ahead && (await unlessAborted(this.#ahead, signal));
    this.#ahead = undefined;
    const { stdout } = (await ahead?.isCurrent()) === true && ahead ? ahead : await this.#run('-save', [], signal);
    let start = 0;
    for (let count = 1; start < stdout.length; count++) {
      const end = stdout.indexOf('\n', start);
      read(end < 0 ? stdout.slice(start) : stdout.slice(start, end));
      start = end < 0 ? stdout.length : end + 1;
      if (count % LINES_A_BREATH === 0) await breath();
    }
    signal.throwIfAborted();
  }

  /** One `iptables-restore --noflush`. Throws an IptablesError with the line that failed, where the tool says it. */
  async restore(lines: () => Iterable<string>, signal: AbortSignal): Promise<void> {
    this.#writes += 1;
    await this.#run('-restore', ['--noflush', '--wait', String(LOCK_WAIT_SECONDS)], signal, lines);
  }

  /** Whether a chain exists. Throws when that cannot be told. */
  async hasChain({ table, chain, wait = LOCK_WAIT_SECONDS }: ChainQuery, signal: AbortSignal): Promise<boolean> {
    const args = ['--wait', String(wait), '-t', table, '-S', chain];
    const result = await this.#runner.run({ file: this.#prefix, args }, signal);
    if (result.exitCode === 0) return true;
    if (NO_CHAIN.test(result.stderr)) return false;
    throw await this.#failure(`${this.#prefix} -t ${table} -S ${chain}`, result);
  }

  /** Packets that each rule of a chain counted, in their order; none where there is no such chain. Throws an IptablesError. */
  async counters({ table, chain, wait = LOCK_WAIT_SECONDS }: ChainQuery, signal: AbortSignal): Promise<number[]> {
    const args = ['--wait', String(wait), '-t', table, '-v', '-S', chain];
    const result = await this.#runner.run({ file: this.#prefix, args }, signal);
    if (result.exitCode !== 0) {
      if (NO_CHAIN.test(result.stderr)) return [];
      throw await this.#failure(`${this.#prefix} -t ${table} -v -S ${chain}`, result);
    }
    // -A CHAIN … -c PACKETS BYTES -j TARGET; a comment may hold what looks like it.
    const rules = result.stdout.split('\n').filter((line) => line.startsWith('-A '));
    return rules.map((line) =>
      Number(/ -c (\d+) \d+(?: -[jg] |$)/.exec(line.replace(/"(?:\\.|[^"])*"/g, ''))?.[1] ?? 0),
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

  async #failure(what: string, result: CommandResult): Promise<IptablesError> {
    const said = result.stderr.trim().split('\n').slice(0, 5).join('; ');
    const status = result.exitCode === undefined ? 'was killed' : `exit status ${result.exitCode}`;
    if (LOCK_HELD.test(result.stderr)) {
      const holder = await lockHolder();
      const text = `${what} waited in vain for the xtables lock, which ${holder ?? 'another program'} holds`;
      return new IptablesError(text, { isRefusal: false });
    }
    const line = failedLine(result.stderr);
    // iptables-nft ends with 4, RESOURCE_PROBLEM, for every refusal of the kernel as well: a line that is named is refused.
    const isRefusal = line !== undefined || (result.exitCode !== undefined && result.exitCode !== RESOURCE_PROBLEM);
    return new IptablesError(`${what} failed (${status}): ${said}`, { line, isRefusal });
  }
}

/** The line number in `line N failed`, `line N: RULE_APPEND failed`, `Error occurred at line: N`. */
function failedLine(stderr: string): number | undefined {
  const found = /line (\d+) failed|line (\d+): \S+ failed|occurred at line: (\d+)/.exec(stderr);
  const text = found?.[1] ?? found?.[2] ?? found?.[3];
  return text === undefined ? undefined : Number(text);
}
