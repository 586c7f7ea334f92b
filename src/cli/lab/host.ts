/** A process inside a namespace that carries out commands, seen from the lab. */
import { type Child, startChild } from '../../kernel/child.ts';
import type { Answer, HostCommand } from './host-protocol.ts';

export class Host {
  readonly #child: Child;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #errors: string[] = [];
  #next = 1;
  #end: Answer | undefined;

  constructor({ file, args }: { file: string; args: readonly string[] }) {
    this.#child = startChild({
      file,
      args,
      onLine: (line) => this.#onAnswer(line),
      onErrorLine: (line) => this.#errors.push(line),
    });
    void this.#child.ended.then(() => {
      const end: Answer = {
        outcome: 'error',
        error: ['the host process ended', ...this.#errors.slice(-10)].join('; '),
      };
      this.#end = end;
      for (const resolve of this.#waiting.values()) resolve(end);
    });
  }

  command(command: HostCommand): Promise<Answer> {
    if (this.#end !== undefined) return Promise.resolve(this.#end);
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.send(JSON.stringify({ id, command }));
    });
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }

  #onAnswer(line: string): void {
    const { id, answer } = JSON.parse(line) as { id: number; answer: Answer };
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
  }
}
