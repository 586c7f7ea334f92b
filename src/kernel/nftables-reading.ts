/** Reads a table of nftables as a whole, in portions. */
import { ENOENT } from '../../native/errno.ts';
import { NetlinkError } from '../../native/netlink.ts';
import type { NetlinkSocket } from '../../native/netlink-socket.ts';
import {
  readChain,
  readChains,
  readElement,
  readElements,
  readRules,
  readSets,
  tableHandle,
} from '../../native/nft/listings.ts';
import type { TableId } from '../../native/nft/request.ts';
import { breath } from '../base/clock.ts';
import { elementOf, ruleOf } from './nftables-decoding.ts';
import type { Hook, NftElement, NftPart, NftState, NftTouched, ReadChain, ReadRule } from './nftables-kernel.ts';

/** Attempts to read the table without a write of another program in between. After these the last read counts: most likely the others wrote to other tables. */
const READS = 5;
/** Rules between two breaths of the event loop. */
const RULES = 5000;

export interface TableRead {
  readonly state: NftState;
  readonly handle: bigint;
  /** The generation of the ruleset then; undefined when another program wrote meanwhile. */
  readonly generation: number | undefined;
}

/** undefined: there is no table. The socket must have no other listing meanwhile; `generation`: of the ruleset now. Throws NetlinkError. */
export async function readTable(
  socket: NetlinkSocket,
  id: TableId,
  generation: () => number,
): Promise<TableRead | undefined> {
  for (let tries = 1; ; tries++) {
    const before = generation();
    const handle = tableHandle(socket, id);
    if (handle === undefined) return undefined;
    const state = await readState(socket, id).catch((error: unknown) => {
      // The table was deleted meanwhile: ask again.
      if (tries < READS && error instanceof NetlinkError && error.errno === ENOENT) return undefined;
      throw error;
    });
    if (state === undefined) continue;
    const isSame = generation() === before;
    // Another program wrote meanwhile: entries may be missing.
    if (!isSame && tries < READS) continue;
    return { state, handle, generation: isSame ? before : undefined };
  }
}

async function readState(socket: NetlinkSocket, id: TableId): Promise<NftState> {
  const chains = new Map<string, { readonly hook?: Hook; readonly rules: ReadRule[] }>();
  for (const { name, base } of readChains(socket, id))
    chains.set(name, { ...(base === undefined ? {} : { hook: base }), rules: [] });
  let count = 0;
  for (const { chain, comment, expressions } of readRules(socket, id)) {
    chains.get(chain)?.rules.push(ruleOf(comment, expressions, id.family));
    count += 1;
    if (count % RULES === 0) await breath();
  }
  const sets = new Map<string, readonly NftElement[]>();
  for (const { name, isDynamic } of [...readSets(socket, id)]) {
    const elements: NftElement[] = [];
    if (!isDynamic) {
      for (const part of readElements(socket, id, name)) {
        for (const element of part) elements.push(elementOf(element));
        await breath();
      }
    }
    sets.set(name, elements);
  }
  return { chains, sets };
}

/** Reads some objects of a table, which must exist. Throws NetlinkError. */
export function readPart(socket: NetlinkSocket, id: TableId, { chains, elements }: NftTouched): NftPart {
  return {
    chains: new Map([...chains].map((name) => [name, chainNow(socket, id, name)])),
    elements: new Map(
      [...elements].map(([set, keys]) => {
        return [set, new Map([...keys].map((key) => [key, elementNow(socket, id, { set, key })]))];
      }),
    ),
  };
}

function chainNow(socket: NetlinkSocket, id: TableId, name: string): ReadChain | undefined {
  const found = readChain(socket, id, name);
  if (found === undefined) return undefined;
  const rules = [...readRules(socket, id, name)].map(({ comment, expressions }) =>
    ruleOf(comment, expressions, id.family),
  );
  return { ...(found.base === undefined ? {} : { hook: found.base }), rules };
}

function elementNow(
  socket: NetlinkSocket,
  id: TableId,
  of: { readonly set: string; readonly key: string },
): NftElement | undefined {
  const found = readElement(socket, id, of);
  return found && elementOf(found);
}
