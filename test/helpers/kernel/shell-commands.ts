/**
 * Commands of the tests, started by small shells that stay. A process of Node.js takes several times as long to start another one as
 * a shell does, and the stories start thousands. How the agent itself starts commands is tested with `realCommands`.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CommandRunner, chunksOf, commandNotStarted } from '../../../src/kernel/commands.ts';

/** Statuses of a shell whose command is no program (POSIX, 2.8.2 Exit Status for Commands). */
const NOT_EXECUTABLE = 126;
const NOT_FOUND = 127;
/** A shell adds the number of the signal that ended a command; `ip` has a status of 255 of its own. */
const [SIGNALLED, LAST_SIGNAL] = [128, 192];

/** Of each network namespace by name, and of this one. A shell runs one command at a time; as many stay as ran at once. */
const idle = new Map<string | undefined, Shell[]>();

export const shellCommands: CommandRunner = {
  async run({ file, args, input }, signal) {
    signal.throwIfAborted();
    const [object, verb, name = '', ...inside] = args;
    const isOfNamespace = file === 'ip' && object === 'netns';
    const namespace = isOfNamespace && verb === 'exec' ? name : undefined;
    if (isOfNamespace && verb === 'delete') endAll(name);
    const shells = idle.get(namespace) ?? [];
    idle.set(namespace, shells);
    const shell = shells.pop() ?? new Shell(namespace);
    const words = namespace === undefined ? [file, ...args] : inside;
    const result = await shell.run(words, input === undefined ? undefined : [...chunksOf(input())].join(''));
    shells.push(shell);
    signal.throwIfAborted();
    if (result.status === NOT_FOUND) throw commandNotStarted(file, { code: 'ENOENT' });
    if (result.status === NOT_EXECUTABLE) throw commandNotStarted(file, { code: 'EACCES' });
    const { status, ...texts } = result;
    return { exitCode: status > SIGNALLED && status <= LAST_SIGNAL ? undefined : status, ...texts };
  },
};

/** A namespace lasts as long as a process of it. */
function endAll(namespace: string): void {
  for (const shell of idle.get(namespace) ?? []) shell.end();
  idle.delete(namespace);
}

/** Of all shells of this process, each with a folder in it for what its command reads and writes. */
const folder = mkdtempSync(join(tmpdir(), 'slicewire-shells-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** It ends with this process. */
class Shell {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #folder = mkdtempSync(join(folder, 'shell-'));
  /** Rejects when the shell ends by itself: its namespace may be gone. */
  readonly #ended: Promise<never>;
  #says = '';

  constructor(namespace: string | undefined) {
    const [file, ...args] = namespace === undefined ? ['sh'] : ['ip', 'netns', 'exec', namespace, 'sh'];
    this.#process = spawn(file, args, { cwd: process.cwd(), env: { ...process.env, LC_ALL: 'C' } });
    this.#process.stdout.setEncoding('utf8');
    this.#process.stderr.setEncoding('utf8').on('data', (text: string) => (this.#says += text));
    this.#process.stdin.on('error', () => undefined);
    this.#ended = Promise.race([once(this.#process, 'close'), once(this.#process, 'error')]).then(([cause]) => {
      throw new Error(`a shell of the tests ended: ${[file, ...args].join(' ')}: ${cause} ${this.#says}`);
    });
    this.#ended.catch(() => undefined);
    this.#hold(false);
  }

  async run(words: readonly string[], input: string | undefined) {
    const at = (name: string) => join(this.#folder, name);
    if (input !== undefined) writeFileSync(at('in'), input);
    const from = input === undefined ? '/dev/null' : quoted(at('in'));
    this.#hold(true);
    const answer = once(this.#process.stdout, 'data');
    this.#process.stdin.write(
      `${words.map(quoted).join(' ')} <${from} >${quoted(at('out'))} 2>${quoted(at('err'))}; echo $?\n`,
    );
    const [status] = (await Promise.race([answer, this.#ended])) as [string];
    this.#hold(false);
    const read = (name: string) => readFileSync(at(name), 'utf8');
    return { status: Number(status), stdout: read('out'), stderr: read('err') };
  }

  end(): void {
    this.#process.stdin.end();
  }

  /** Whether this process stays for the shell's answer. */
  #hold(isRunning: boolean): void {
    const { stdin, stdout, stderr } = this.#process;
    for (const one of [this.#process, stdin, stdout, stderr] as unknown as { ref(): void; unref(): void }[]) {
      if (isRunning) one.ref();
      else one.unref();
    }
  }
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
