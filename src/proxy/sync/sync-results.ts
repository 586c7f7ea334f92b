/** The results of syncs, for the log, health and metrics. */
import type { Committer } from '../../kernel/ruleset-notices.ts';
import type { Drift } from '../model/drift.ts';
import type { ApplyReport } from '../reconcile/step.ts';
import type { Work } from '../reconcile/work.ts';

export interface SyncReport extends ApplyReport {
  /** Milliseconds from the start of the sync to its end. */
  readonly duration: number;
  /** Kernel objects that another program had changed, if the kernel was read. */
  readonly drift: readonly Drift[];
  /** The program that did, where a write met it. */
  readonly by?: Committer | undefined;
  /** The kernel was not read: an earlier agent left it as desired, and no program has written since. */
  readonly isAsLeft?: boolean;
  /** Milliseconds that reading the kernel took; 0 if it was not read. */
  readonly reading: number;
  /** Milliseconds until the desired state was complete. */
  readonly desiring: number;
  /** Milliseconds that planning and writing took. */
  readonly writing: number;
  /** The work of the sync: it follows the change, not the cluster (invariant 11). */
  readonly work: Work;
}

export class SyncStatus {
  #lastComplete: number | undefined;
  #failingSince: number | undefined;

  /** Milliseconds since 1970 of the last complete sync (invariant 8: a partial one does not count). */
  get lastComplete(): number | undefined {
    return this.#lastComplete;
  }

  /** Milliseconds since 1970 of the first incomplete sync since the last complete one; undefined after a complete sync. */
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
