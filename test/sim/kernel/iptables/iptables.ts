/**
 * iptables on a simulated node: both variants with their tools, the xtables lock, and the rules in the kernel, which other programs
 * write too. The rules survive the processes.
 */

import type { Family } from '../../../../src/base/address.ts';
import {
  type Command,
  CommandNotStarted,
  type CommandResult,
  type CommandRunner,
} from '../../../../src/kernel/commands.ts';
import type { IptablesVariant } from '../../../../src/kernel/iptables-tools.ts';
import type { Table } from '../../../../src/proxy/modes/netfilter/rules.ts';
import type { SimProcess } from '../../engine/process.ts';
import type { SimTime, TimerOwner } from '../../engine/time.ts';
import { XtablesLock } from './lock.ts';
import { restore } from './restore.ts';
import { type Chains, RuleStore, type TableCommit } from './rule-store.ts';
import { cutOutput, done, list, lockHeld, save, type Tool, toolFailure, toolOf, versionOf } from './tools.ts';

/** A program that writes. */
export interface Writer {
  readonly pid: number;
  /** At most 15 bytes. */
  readonly name: string;
}

export interface RulesCommit extends TableCommit {
  readonly variant: IptablesVariant;
  readonly writer: Writer;
}

/** What a tool did at one moment: all that it was asked, or, of a restore, from one commit to the next. */
export interface ToolStep {
  /** The same for all steps of one tool. */
  readonly command: Command;
  readonly family: Family;
  /** The lines of its input that it carried out; undefined for tools without input. */
  readonly lines: readonly string[] | undefined;
  /** Lines of the input before them. */
  readonly offset: number;
  /** As it would end here. */
  readonly result: CommandResult;
}

/** What another program did to a table. */
export interface RulesEdit {
  readonly family: Family;
  readonly table: Table;
  readonly before: Chains;
  readonly after: Chains;
  /** Arguments of the tool that does the same, after those of the table. */
  readonly args: readonly string[] | undefined;
}

export interface IptablesOptions {
  readonly time: SimTime;
  /** The variant of the command `iptables`. */
  readonly variant: IptablesVariant;
  readonly onCommit: (commit: RulesCommit) => void;
  readonly hasSet: (name: string) => boolean;
  readonly nextPid: () => number;
}

/** Milliseconds that a tool takes until it has read its input, and from its end until the agent hears of it. */
const STARTING = 2;
const ENDING = 1;
/** Milliseconds between the commits of two tables of one restore. */
const BETWEEN = 1;

interface Run {
  readonly command: Command;
  readonly tool: Tool;
  readonly signal: AbortSignal;
  /** Who dies with it. */
  readonly owner: TimerOwner;
  /** The signal that ends a restore comes before the commit of this number, from 0. */
  readonly killedAt?: number;
}

export class SimIptables {
  readonly variant: IptablesVariant;
  readonly lock: XtablesLock;
  readonly stores: Readonly<Record<IptablesVariant, RuleStore>>;
  /** Rules that the kernel refuses. */
  refuses: (line: string) => boolean = () => false;
  /** Commands that this machine does not have. */
  readonly missing = new Set<string>();
  /** Tools go on when the agent is killed, as they do outside a container. */
  toolsSurvive = false;
  onTool: (step: ToolStep) => void = () => undefined;
  onEdit: (edit: RulesEdit) => void = () => undefined;
  readonly #options: IptablesOptions;
  #writer: Writer = { pid: 0, name: '' };

  constructor(options: IptablesOptions) {
    this.#options = options;
    this.variant = options.variant;
    this.lock = new XtablesLock(options.time);
    const store = (variant: IptablesVariant) =>
      new RuleStore((commit) => options.onCommit({ ...commit, variant, writer: this.#writer }));
    this.stores = { nft: store('nft'), legacy: store('legacy') };
  }

  /** Its writes are those of this program. */
  writeAs<T>(writer: Writer, write: () => T): T {
    const before = this.#writer;
    this.#writer = writer;
    try {
      return write();
    } finally {
      this.#writer = before;
    }
  }

  /** The tools as a process runs them. */
  commands(process: SimProcess): CommandRunner {
    return {
      run: (command, signal) => this.#start(process, command, signal),
      lockHolder: () =>
        process.call({ what: 'read /proc/locks', effect: () => this.lock.holderText, fail: () => undefined }),
    };
  }

  refersTo(set: string): boolean {
    return Object.values(this.stores).some((store) => store.refersTo(set));
  }

  #start(process: SimProcess, command: Command, signal: AbortSignal): Promise<CommandResult> {
    signal.throwIfAborted();
    const tool = toolOf(command.file, this.variant);
    const owner: TimerOwner = this.toolsSurvive ? { isDead: false } : process;
    let hasRun = false;
    return process.call<CommandResult>(
      {
        what: `${command.file} ${command.args.join(' ')}`.trim(),
        effect: async () => {
          hasRun = true;
          if (command.file === 'modprobe') return done();
          if (tool === undefined || this.missing.has(command.file))
            throw new CommandNotStarted(command.file, 'no such program');
          return await this.#run({ command, tool, signal, owner });
        },
        fail: async (variant) => {
          const mayHalve = !hasRun && tool?.verb === 'restore' && variant % 3 === 2;
          if (!mayHalve) return toolFailure(command, { hasRun, variant });
          return await this.#run({ command, tool, signal, owner, killedAt: 1 });
        },
        cut: async (answer, variant) => cutOutput(await answer, variant),
      },
      signal,
    );
  }

  async #run(run: Run): Promise<CommandResult> {
    const { command, tool, signal, owner } = run;
    const { time } = this.#options;
    await time.pause(STARTING, { owner, signal });
    // iptables-save takes no lock, and --version needs none.
    const needsLock = tool.variant === 'legacy' && tool.verb !== 'save' && !command.args.includes('--version');
    const seconds = Number(command.args[command.args.indexOf('--wait') + 1] ?? 0);
    const release = needsLock
      ? await this.lock.take(seconds, {
          owner: {
            get isDead() {
              return owner.isDead;
            },
          },
          signal,
        })
      : () => undefined;
    if (release === undefined) return lockHeld(seconds);
    try {
      const result = await this.#work(run);
      await time.pause(ENDING, { owner, signal });
      return result;
    } finally {
      release();
    }
  }

  async #work(run: Run): Promise<CommandResult> {
    const { command, tool } = run;
    const store = this.stores[tool.variant];
    if (tool.verb === 'save') return save(tool, command.args, store);
    if (tool.verb === 'restore') return await this.#restore(run);
    const result = list(tool, command.args, store);
    this.onTool({ command, family: tool.family, lines: undefined, offset: 0, result });
    return result;
  }

  async #restore({ command, tool, signal, owner, killedAt }: Run): Promise<CommandResult> {
    const writer = { pid: this.#options.nextPid(), name: command.file.slice(0, 15) };
    const lines = [...(command.input?.() ?? [])];
    const work = restore(lines, {
      store: this.stores[tool.variant],
      family: tool.family,
      version: versionOf(tool),
      isLegacy: tool.variant === 'legacy',
      hasSet: this.#options.hasSet,
      refuses: (line) => this.refuses(line),
    });
    let offset = 0;
    for (let commits = 0; ; commits++) {
      const next = this.writeAs(writer, () => work.next());
      const end = next.done === true ? lines.length : lines.indexOf('COMMIT', offset) + 1;
      if (next.done === true || commits > 0) {
        const result = next.done === true ? next.value : done();
        this.onTool({ command, family: tool.family, lines: lines.slice(offset, end), offset, result });
        offset = end;
      }
      if (next.done === true) return next.value;
      if (commits === killedAt) return { exitCode: undefined, stdout: '', stderr: '' };
      if (commits > 0) await this.#options.time.pause(BETWEEN, { owner, signal });
    }
  }
}
