/** A table of nftables as it is compared: read by the real decoders, from the simulated kernel or from a real one. */
import type { NetlinkSocket } from '../../../native/netlink-socket.ts';
import { readChains, readElements, readRules, readSets, tableHandle } from '../../../native/nft/listings.ts';
import type { TableId } from '../../../native/nft/request.ts';
import { ruleOf } from '../../../src/kernel/nftables-reading.ts';

/** Lines, which are equal for equal tables; undefined when there is no such table. Elements that packets add are left out. */
export function contentOf(socket: NetlinkSocket, id: TableId): readonly string[] | undefined {
  if (tableHandle(socket, id) === undefined) return undefined;
  const lines: string[] = [];
  for (const chain of readChains(socket, id)) lines.push(`chain ${textOf(chain)}`);
  const numbers = new Map<string, number>();
  for (const { chain, comment, expressions } of readRules(socket, id)) {
    const number = (numbers.get(chain) ?? 0) + 1;
    numbers.set(chain, number);
    lines.push(`rule ${number} of ${chain}: ${textOf([comment, ruleOf(comment, expressions, id.family).expressions])}`);
  }
  for (const set of [...readSets(socket, id)]) {
    lines.push(`set ${textOf(set)}`);
    if (set.isDynamic) continue;
    const elements = [...readElements(socket, id, set.name)].flat();
    lines.push(...elements.map((element) => `element of ${set.name}: ${textOf(element)}`));
  }
  return lines.sort();
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}
