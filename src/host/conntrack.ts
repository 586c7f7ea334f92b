/** The seam to the kernel's table of connections. */
import type { Flow } from '../../native/conntrack.ts';
import type { Family } from '../model/address.ts';
import { realSysctls } from './sysctls.ts';

export interface FlowTable {
  /** UDP flows, part by part: each `next` holds the event loop for one part. Returns whether a flow may be missing. */
  udpFlows(family: Family): Generator<readonly Flow[], boolean>;
  /** Connections of TCP and SCTP that are translated and that nobody answered, the same way. */
  openings(family: Family): Generator<readonly Flow[], boolean>;
  /** Returns how many were still there. Throws when the kernel refuses. */
  delete(family: Family, flows: readonly Flow[]): number;
  close(): void;
}

/** Open it. Throws when the kernel lets nobody in. */
export type OpenFlowTable = () => Promise<FlowTable>;

/** Entries of the table up to which the kernel looks through all of it in one step: about 10 ms for each 100,000. */
const ONE_STEP = 100_000;

export const openFlowTable: OpenFlowTable = async () => {
  const entries = Number(await realSysctls.read('net/netfilter/nf_conntrack_count'));
  // Loaded only here: a command that never looks at flows needs no foreign functions.
  const { ConntrackSocket } = await import('../../native/conntrack.ts');
  return new ConntrackSocket({ isFiltered: entries <= ONE_STEP });
};
