/** The seam to conntrack, the kernel's table of connections. */
import type { Flow } from '../../native/conntrack.ts';
import type { Family } from '../base/address.ts';
import { realSysctls } from './sysctls.ts';

export type { Flow };

export interface FlowTable {
  /** UDP flows, part by part: each `next` blocks the event loop for one part. Returns whether a flow may be missing. Throws when the kernel refuses. */
  udpFlows(family: Family): Generator<readonly Flow[], boolean>;
  /**
   * Translated connections of TCP and SCTP that nobody has answered yet, in the same way. Without a family: those of both, for the cost of
   * one, and those of IPVS.
   */
  openings(family?: Family): Generator<readonly Flow[], boolean>;
  /** Deletes flows; returns how many still existed. Throws when the kernel refuses. */
  delete(family: Family, flows: readonly Flow[]): number;
  close(): void;
}

/** Opens the table. `oneStep`: the most entries that the kernel filters in one step. Throws when the kernel refuses. */
export type OpenFlowTable = (oneStep?: number) => Promise<FlowTable>;

/** With at most so many entries the kernel filters the whole table in one step, which takes about 10 ms. */
const ONE_STEP = 100_000;

export const openFlowTable: OpenFlowTable = async (oneStep = ONE_STEP) => {
  const entries = Number(await realSysctls.read('net/netfilter/nf_conntrack_count'));
  // Loaded only here: commands that read no flows need no foreign functions.
  const { ConntrackSocket } = await import('../../native/conntrack.ts');
  return new ConntrackSocket({ isFiltered: entries <= oneStep });
};
