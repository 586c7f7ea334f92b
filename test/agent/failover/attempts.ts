/** Connections that a client attempts, one after another. */
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../../src/kernel/commands.ts';

/** Milliseconds; `at` since 1970. */
export interface Attempt {
  readonly at: number;
  readonly took: number;
  readonly isAnswered: boolean;
}

const CLIENT = fileURLToPath(new URL('./client-inside.ts', import.meta.url));
/** Milliseconds between two attempts, and how long a client waits for one. */
const INTERVAL = 20;
const PATIENCE = 5000;
/** Milliseconds after which the first packet counts as lost: the kernel sends the next one after a second (RFC 6298). */
const LOST = 900;

export class Attempts {
  readonly all: Attempt[] = [];
  readonly #child: Child;

  constructor(
    lab: { inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } },
    to: string,
  ) {
    const [address = '', port = ''] = to.split(':');
    const args = [CLIENT, address, port, String(INTERVAL), String(PATIENCE)];
    this.#child = startChild({
      ...lab.inside('pod', process.execPath, args),
      onLine: (line) => this.all.push(JSON.parse(line) as Attempt),
    });
  }

  /** Those that began at a time or later. */
  since(at: number): readonly Attempt[] {
    return this.all.filter((one) => one.at >= at);
  }

  async stop(): Promise<void> {
    await this.#child.stop();
  }
}

/** Its first packet went to nobody. */
export function isLost({ took, isAnswered }: Attempt): boolean {
  return !isAnswered || took >= LOST;
}
