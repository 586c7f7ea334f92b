/** The network namespaces of one lab, and commands inside them. */
import type { CommandRunner } from '../../kernel/commands.ts';

export class Namespaces {
  readonly #commands: CommandRunner;
  readonly #signal: AbortSignal;
  readonly #prefix = `sw${process.pid}-${Math.random().toString(36).slice(2, 6)}`;
  readonly #names: string[] = [];

  constructor(commands: CommandRunner, signal: AbortSignal) {
    this.#commands = commands;
    this.#signal = signal;
  }

  /** The full name of a namespace: `node`, `client`, `other`, `pod-1`… */
  name(name: string): string {
    return `${this.#prefix}-${name}`;
  }

  /** Command and arguments that run something inside a namespace. */
  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return { file: 'ip', args: ['netns', 'exec', this.name(name), file, ...args] };
  }

  async add(name: string): Promise<void> {
    await this.#run({ file: 'ip', args: ['netns', 'add', this.name(name)] });
    this.#names.push(this.name(name));
  }

  /** Run a command inside a namespace; resolves with its standard output. Throws when it fails. */
  async exec(name: string, file: string, ...args: string[]): Promise<string> {
    return await this.#run(this.inside(name, file, args));
  }

  /** Delete all of them, also after the lab's signal aborted. */
  async remove(): Promise<void> {
    const never = new AbortController().signal;
    for (const name of this.#names) {
      await this.#commands.run({ file: 'ip', args: ['netns', 'delete', name] }, never);
    }
    this.#names.length = 0;
  }

  async #run(command: { file: string; args: readonly string[] }): Promise<string> {
    const result = await this.#commands.run(command, this.#signal);
    if (result.exitCode === 0) return result.stdout;
    throw new Error(`${command.file} ${command.args.join(' ')}: ${result.stderr.trim()}`);
  }
}
