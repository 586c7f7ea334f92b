/** The name of the agent of a simulated node, which one process at a time holds. */
import type { NameService } from '../../../src/kernel/agent-name.ts';
import type { SimProcess } from '../engine/process.ts';

export class SimNames {
  #holder: { readonly process: SimProcess; readonly line: () => string } | undefined;

  /** As a process takes it and asks for it. It is free when its holder is dead. */
  of(process: SimProcess): NameService {
    return {
      uid: 0,
      take: async (line) => {
        if (process.isDead || this.#living !== undefined) return undefined;
        this.#holder = { process, line };
        return { release: async () => this.#free(process) };
      },
      ask: async () => {
        const holder = this.#living;
        if (holder === undefined) return { kind: 'no connection', cause: 'ECONNREFUSED: connection refused' };
        return {
          kind: 'line',
          peer: { pid: holder.process.pid, uid: 0, gid: 0 },
          line: holder.process.run(holder.line),
        };
      },
    };
  }

  get #living() {
    return this.#holder?.process.isDead === false ? this.#holder : undefined;
  }

  #free(process: SimProcess): void {
    if (this.#holder?.process === process) this.#holder = undefined;
  }
}
