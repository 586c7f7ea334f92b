/** What the agent knows of its own work: for the log, health and metrics. */
import type { ApplyReport } from '../reconcile/step.ts';
import type { Work } from '../reconcile/work.ts';

export interface SyncReport extends ApplyReport {
  /** Milliseconds from the start of the sync to its end. */
  readonly duration: number;
  /** Kernel objects that another program had changed, when the kernel was read. */
  readonly drift: readonly string[];
  /** Milliseconds that reading the kernel took; 0 when what is believed was not questioned. */
  readonly reading: number;
  /** Milliseconds that planning and writing took. */
  readonly writing: number;
  /** When the changes happened that are in the kernel since this sync, as far as slices say; milliseconds since 1970. */
  readonly triggers: readonly number[];
  /** What the sync had to look at: it follows the change, not the cluster (invariant 11). */
  readonly work: Work;
}

export class SyncStatus {
  #lastComplete: number | undefined;
  #failingSince: number | undefined;

  /** Milliseconds since 1970 of the last complete sync (invariant 8: a partial one does not count). */
  get lastComplete(): number | undefined {
    return this.#lastComplete;
  }

  /** Since when syncs have not been complete; undefined while all is well. */
  get failingSince(): number | undefined {
    return this.#failingSince;
  }

  record(report: SyncReport, at: number): void {
    if (report.outcome === 'complete') {
      this.#lastComplete = at;
      this.#failingSince = undefined;
    } else {
      this.#failingSince ??= at;
    }
  }
}
