/** A listing in several datagrams, of which each is made when the one before was received (af_netlink.c, netlink_dump). */
import { NLM_F_DUMP_INTR } from '../../../../native/netlink.ts';
import { doneMessage, message, NLM_F_MULTI, Refused, type Request, type Said } from './format.ts';
import type { NextPart } from './socket.ts';

/** The content of a listing. */
export interface Listed {
  /** The entries at this moment; each is made when it is said, and undefined when it is not there any more. Throws Refused. */
  readonly entries: () => readonly (() => Said | undefined)[];
  /** Moves with each change of which a listing tells that it met it (nl_dump_check_consistent). Without it the kernel tells of none. */
  readonly version?: () => number;
}

export interface ListingOptions {
  readonly port: number;
  /** Bytes of the longest datagram, unless one entry is longer. */
  readonly longest: number;
}

/**
 * Each datagram is of the entries at that moment: the kernel goes on behind as many of them as it listed. Throws Refused when what is asked
 * for does not exist.
 */
export function listingOf(
  { entries, version }: Listed,
  { sequence }: Request,
  { port, longest }: ListingOptions,
): NextPart {
  entries();
  let [listed, isDone] = [0, false];
  let before: number | undefined;
  return () => {
    if (isDone) return undefined;
    const moment = version?.();
    const isTorn = before !== undefined && before !== moment;
    before = moment;
    const header = { flags: NLM_F_MULTI | (isTorn ? NLM_F_DUMP_INTR : 0), sequence, port };
    const done = (errno: number) => {
      isDone = true;
      return doneMessage(header, errno);
    };
    const part: Buffer[] = [];
    try {
      const all = entries();
      for (let bytes = 0; listed < all.length; listed++) {
        const said = all[listed]?.();
        if (said === undefined) continue;
        const told = message(said, header);
        if (part.length > 0 && bytes + told.length > longest) break;
        part.push(told);
        bytes += told.length;
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // What came before is told first, and the next part fails again.
      if (part.length === 0) return done(error.errno);
    }
    return part.length === 0 ? done(0) : Buffer.concat(part);
  };
}
