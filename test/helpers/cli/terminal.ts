/** A program on a pseudo-terminal, and what a person sees of it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../base/until.ts';
import { TerminalScreen } from './terminal-screen.ts';

export interface TerminalOptions {
  readonly rows?: number;
  readonly columns?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** script(1) of util-linux makes the pseudo-terminal. `command` is a line for a shell. */
export class Terminal {
  readonly screen: TerminalScreen;
  /** Resolves with the exit status of the command. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #folder: string;
  #text = '';

  constructor(command: string, { rows = 24, columns = 80, env = {}, cwd }: TerminalOptions = {}) {
    this.screen = new TerminalScreen(rows, columns);
    this.#folder = mkdtempSync(join(tmpdir(), 'slicewire-terminal-'));
    const line = `tty >'${join(this.#folder, 'tty')}'; stty rows ${rows} cols ${columns}; exec ${command}`;
    this.#child = spawn('script', ['-qefc', line, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TERM: 'xterm', SHELL: '/bin/sh', ...env },
      ...(cwd === undefined ? {} : { cwd }),
    });
    this.#child.stdin?.on('error', () => undefined);
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text;
      this.screen.write(text);
    });
    this.ended = new Promise((resolve) => this.#child.once('exit', resolve));
  }

  /** All that was written to the terminal, with its control sequences. */
  get text(): string {
    return this.#text;
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  resize(rows: number, columns: number): void {
    this.screen.resize(rows, columns);
    const device = readFileSync(join(this.#folder, 'tty'), 'utf8').trim();
    execFileSync('stty', ['-F', device, 'rows', String(rows), 'cols', String(columns)]);
  }

  /** Waits until the screen shows it. */
  async shows(what: string | RegExp): Promise<void> {
    const holds = (shown: string) => (typeof what === 'string' ? shown.includes(what) : what.test(shown));
    try {
      await until(String(what), () => holds(this.screen.text));
    } catch (error) {
      throw new Error(`${String(error)}; the screen:\n${this.screen.text}`);
    }
  }

  /** Ends what still runs. */
  async close(): Promise<void> {
    if (this.#child.exitCode === null) this.#child.kill('SIGKILL');
    // The pseudo-terminal is gone with script: what reads it gets SIGHUP.
    await this.ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
