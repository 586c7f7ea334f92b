/** Whether the agent answers for its health all the time: what holds its event loop keeps the answer waiting. */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { InsideProcess } from './inside.ts';

const PROGRAM = fileURLToPath(new URL('./health-inside.ts', import.meta.url));

/** Milliseconds: shorter waits are not told one by one. */
export const LEAST_WAIT = 10;

export interface HealthAnswer {
  /** The longer ones. */
  readonly waits: readonly Wait[];
}

/** A question that was not answered at once. */
export interface Wait {
  /** Milliseconds since 1970. */
  readonly from: number;
  readonly milliseconds: number;
}

export class HealthWatch {
  readonly #process: InsideProcess<{ kind: 'ready' | 'end' }, HealthAnswer, never>;

  static async start(lab: Lab): Promise<HealthWatch> {
    const watch = new HealthWatch(lab);
    await watch.#process.ask({ kind: 'ready' });
    return watch;
  }

  private constructor(lab: Lab) {
    this.#process = new InsideProcess({ lab, namespace: 'node', program: PROGRAM });
  }

  /** All that it saw. */
  async end(): Promise<HealthAnswer> {
    return await this.#process.ask({ kind: 'end' });
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}
