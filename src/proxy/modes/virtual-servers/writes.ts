/** The writes of a plan. */
import type { KernelWrite, Server } from '../../../kernel/ipvs-kernel.ts';
import type { SetId } from './sets.ts';
import type { OwnedDestination, OwnedEntry } from './tracked-objects.ts';

/** One write, with its step and owner. */
export interface PlannedWrite {
  readonly write: KernelWrite;
  /** Key of its step. */
  readonly step: string;
  readonly owner: string | undefined;
  readonly line: () => string;
}

/** A write of an entry. One that labels or guards an object is not removed before that. */
export interface PlannedEntry extends PlannedWrite {
  readonly entry: OwnedEntry;
}

/** Destinations to remove, and their server if it is no longer wanted. */
export interface Retirement {
  readonly server: Server;
  readonly step: string;
  readonly owner: string | undefined;
  readonly destinations: readonly OwnedDestination[];
  readonly isServerGone: boolean;
}

/** A set that gets another maxelem, with its entries. */
export interface PlannedResize {
  readonly id: SetId;
  readonly from: number;
  readonly to: number;
  readonly step: string;
  readonly owner: undefined;
  readonly line: () => string;
}

/** The writes of a plan of virtual servers, by stage (`plan.ts`). */
export interface StagedWrites {
  readonly sets: readonly PlannedWrite[];
  readonly resizes: readonly PlannedResize[];
  readonly entries: readonly PlannedWrite[];
  /** Entries that stop packets to servers which have served them. */
  readonly stops: readonly PlannedWrite[];
  readonly servers: readonly PlannedWrite[];
  readonly addresses: readonly PlannedWrite[];
  readonly retire: readonly Retirement[];
  readonly goneAddresses: readonly PlannedWrite[];
  readonly goneEntries: readonly PlannedEntry[];
  readonly goneSets: readonly PlannedWrite[];
}
