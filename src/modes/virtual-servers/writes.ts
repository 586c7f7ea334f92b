/** Writes as a plan has them. */
import type { KernelWrite, Server } from '../../host/ipvs-kernel.ts';
import type { OwnedDestination, OwnedEntry } from './objects.ts';

/** One write with what it is part of. */
export interface PlannedWrite {
  readonly write: KernelWrite;
  /** Key of the step that it is a line of. */
  readonly step: string;
  readonly owner: string | undefined;
  readonly line: () => string;
}

/** An entry that goes, unless what it labels or guards is still installed then. */
export interface PlannedRemoval extends PlannedWrite {
  readonly entry: OwnedEntry;
}

/** Destinations that go, and their server too when it is not wanted any more. */
export interface Retirement {
  readonly server: Server;
  readonly step: string;
  readonly owner: string | undefined;
  readonly destinations: readonly OwnedDestination[];
  readonly isServerGone: boolean;
}

/** The writes of one plan of virtual servers, by the stage in which they come (`plan.ts`). */
export interface StagedWrites {
  readonly sets: readonly PlannedWrite[];
  readonly entries: readonly PlannedWrite[];
  readonly servers: readonly PlannedWrite[];
  readonly addresses: readonly PlannedWrite[];
  readonly retire: readonly Retirement[];
  readonly goneAddresses: readonly PlannedWrite[];
  readonly goneEntries: readonly PlannedRemoval[];
  readonly goneSets: readonly PlannedWrite[];
}
