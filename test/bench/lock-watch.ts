/**
 * How long another program waits for the kernel's lock of nftables (`nft_net->commit_mutex`, one for each network namespace): every
 * transaction takes it, and a large one holds it until its commit is over.
 */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { InsideProcess } from './inside.ts';

const PROGRAM = fileURLToPath(new URL('./lock-inside.ts', import.meta.url));

export class LockWatch {
  readonly #process: InsideProcess<'longest', number, never>;

  /** Begins to wait in the node's namespace, again and again. */
  static async start(lab: Lab): Promise<LockWatch> {
    const watch = new LockWatch(lab);
    await watch.longest();
    return watch;
  }

  private constructor(lab: Lab) {
    this.#process = new InsideProcess({ lab, namespace: 'node', program: PROGRAM });
  }

  /** The milliseconds of the longest wait since the last call. */
  async longest(): Promise<number> {
    return await this.#process.ask('longest');
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}
