/** A process of the benchmark inside a namespace of the lab: one JSON line a command, one JSON line an answer, by number. */
import { createInterface } from 'node:readline';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';

/** What goes from the process: an answer to a command, or something that is told without being asked. */
export type Said<Answer, Told> =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly error: string }
  | { readonly told: Told };

export interface InsideOptions<Told> {
  readonly lab: Lab;
  /** Name of the namespace in the lab: `node`, `client`, `other`. */
  readonly namespace: string;
  /** Path of the program, and its arguments. */
  readonly program: string;
  readonly args?: readonly string[];
  readonly onTold?: (told: Told) => void;
}

interface Waiting<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

export class InsideProcess<Command, Answer, Told> {
  readonly #child: Child;
  readonly #waiting = new Map<number, Waiting<Answer>>();
  readonly #errors: string[] = [];
  #next = 1;
  #hasEnded = false;

  constructor({ lab, namespace, program, args = [], onTold }: InsideOptions<Told>) {
    const command = lab.inside(namespace, process.execPath, [program, ...args]);
    this.#child = startChild({
      ...command,
      onLine: (line) => this.#said(JSON.parse(line) as Said<Answer, Told>, onTold),
      onErrorLine: (line) => this.#errors.push(line),
    });
    void this.#child.ended.then(() => this.#end());
  }

  /** That of the program itself: `ip netns exec` becomes it. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Rejects when the command fails, or the process ends before it answers. */
  ask(command: Command): Promise<Answer> {
    if (this.#hasEnded) return Promise.reject(this.#ending());
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send(JSON.stringify({ id, command }));
    });
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  #said(said: Said<Answer, Told>, onTold: ((told: Told) => void) | undefined): void {
    if ('told' in said) {
      onTold?.(said.told);
      return;
    }
    const waiting = this.#waiting.get(said.id);
    this.#waiting.delete(said.id);
    if ('answer' in said) waiting?.resolve(said.answer);
    else waiting?.reject(new Error(said.error));
  }

  #end(): void {
    this.#hasEnded = true;
    for (const { reject } of this.#waiting.values()) reject(this.#ending());
    this.#waiting.clear();
  }

  #ending(): Error {
    return new Error(['a process of the benchmark ended', ...this.#errors.slice(-10)].join('; '));
  }
}

/** Inside: say something that nobody asked for. */
export function tell(told: unknown): void {
  process.stdout.write(`${JSON.stringify({ told })}\n`);
}

/** Inside: obey commands until standard input ends or SIGTERM comes; `atEnd` cleans up. Commands may overlap. */
export function obey<Command, Answer>(
  carryOut: (command: Command) => Answer | Promise<Answer>,
  atEnd: () => void | Promise<void> = () => undefined,
): void {
  const end = async () => {
    await atEnd();
    process.exit(0);
  };
  process.once('SIGTERM', () => void end());
  createInterface({ input: process.stdin })
    .on('line', async (line) => {
      const { id, command } = JSON.parse(line) as { id: number; command: Command };
      try {
        process.stdout.write(`${JSON.stringify({ id, answer: await carryOut(command) })}\n`);
      } catch (error) {
        process.stdout.write(`${JSON.stringify({ id, error: String(error) })}\n`);
      }
    })
    .on('close', () => void end());
}
