/** The bare tool, as a floor: `restorer-inside.ts` seen from its parent. */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { InsideProcess } from './inside.ts';

const PROGRAM = fileURLToPath(new URL('./restorer-inside.ts', import.meta.url));

export interface RestoreCommand {
  /** `iptables-nft-restore`, `nft`. */
  readonly file: string;
  readonly args: readonly string[];
  /** Its input. */
  readonly text: string;
}

export class Restorer {
  readonly #process: InsideProcess<RestoreCommand, number, never>;

  constructor(lab: Lab, namespace: string) {
    this.#process = new InsideProcess({ lab, namespace, program: PROGRAM });
  }

  /** Milliseconds. */
  async restore(command: RestoreCommand): Promise<number> {
    return await this.#process.ask(command);
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}
