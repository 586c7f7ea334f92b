/** The agent as a process inside a namespace of the lab: the same program that runs on a node. */
import { type Child, startChild } from '../../kernel/commands.ts';
import { selfCommand } from '../../kernel/process.ts';
import type { Lab } from './lab.ts';

/** A line of the agent's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** The machine may be busy with other work. */
const LOG_TIMEOUT_MS = 60_000;

export class AgentProcess {
  readonly log: LogLine[] = [];
  readonly #child: Child;
  readonly #waiting = new Set<() => void>();

  /**
   * `slicewire ARGS` in the namespace of the node, or in that of another host: this program, or the given executable. Its log has a line
   * for each sync, which callers wait for, unless the arguments have a `-v`.
   */
  constructor(lab: Pick<Lab, 'inside'>, own: readonly string[], executable?: string, at = 'node') {
    const args = own.includes('run') && !own.includes('-v') ? [...own, '-v', '2'] : own;
    const self = executable === undefined ? selfCommand(...args) : { file: executable, args };
    const { file, args: rest } = lab.inside(at, self.file, self.args);
    this.#child = startChild({ file, args: rest, onErrorLine: (line) => this.#logged(line) });
    void this.#child.ended.then(() => this.#wake());
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get ended(): Promise<number | undefined> {
    return this.#child.ended;
  }

  /** The first matching line from `since` on; throws when none comes `within` milliseconds. */
  async logged(fits: (line: LogLine) => boolean, { since = 0, within = LOG_TIMEOUT_MS } = {}): Promise<LogLine> {
    const late = performance.now() + within;
    for (;;) {
      const found = this.log.slice(since).find(fits);
      if (found !== undefined) return found;
      const left = late - performance.now();
      if (left <= 0) throw new Error(`the agent did not log the expected line; its log:\n${this.text()}`);
      await this.#nextLine(left);
    }
  }

  /** The first line of a sync from `since` on; throws when none comes `within` milliseconds. */
  async synced(since = 0, within = LOG_TIMEOUT_MS): Promise<LogLine> {
    return await this.logged((line) => line.msg === 'synced', { since, within });
  }

  text(): string {
    return this.log.map((line) => `${line.level} ${line.msg}`).join('\n');
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  #nextLine(within: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, within);
      this.#waiting.add(done);
    });
  }

  #logged(line: string): void {
    try {
      this.log.push(JSON.parse(line) as LogLine);
    } catch {
      this.log.push({ level: 'text', msg: line });
    }
    this.#wake();
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}
