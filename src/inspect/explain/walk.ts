/**
 * Walks the first packet of a connection through what a mode has in the kernel, and tells its fates with their probabilities and the way
 * that leads to each. It interprets what the view has, not what was desired. Pure.
 */
import type { Memories } from '../../proxy/modes/inspection.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { Fate } from './fates.ts';
import { fateOf, startOf } from './fates.ts';
import type { AskedMemories } from './matching.ts';
import type { NodeOfPacket, Packet } from './packet.ts';
import { RulesWalk } from './rules-walk.ts';
import { TableWalk } from './table-walk.ts';

export interface Walked {
  /** What may become of the packet; the probabilities add up to 1. */
  readonly fates: readonly Fate[];
  /**
   * All memories of session affinity that were asked on the way. A caller looks up in the kernel which of them know the client,
   * and walks again with those in `NodeOfPacket.remembered`.
   */
  readonly memories: Memories;
  /** Sentences about rules that are not interpreted, and about chains and sets that are missing. */
  readonly unknown: readonly string[];
}

/** A view without any rules leaves every packet alone. */
export function walk(view: FamilyView, packet: Packet, facts: NodeOfPacket): Walked {
  const walking = portions(view, packet, facts);
  for (;;) {
    const { done, value } = walking.next();
    if (done === true) return value;
  }
}

/** Fates between two breaths: a Service may have thousands of endpoints. */
const FATES_AT_ONCE = 250;

/** The same, with a breath between portions, so that an agent goes on with its work meanwhile. The view must not change in between. */
export async function walkInPortions(
  { view, packet, facts }: { readonly view: FamilyView; readonly packet: Packet; readonly facts: NodeOfPacket },
  breath: () => Promise<void>,
): Promise<Walked> {
  const walking = portions(view, packet, facts);
  for (let count = 1; ; count++) {
    const { done, value } = walking.next();
    if (done === true) return value;
    if (count % FATES_AT_ONCE === 0) await breath();
  }
}

function* portions(view: FamilyView, packet: Packet, facts: NodeOfPacket): Generator<undefined, Walked> {
  const asked: AskedMemories = { lists: new Set(), destinations: new Set() };
  const unknown = new Set<string>();
  const { family, rules, servers, table } = view;
  const input = { packet, facts, unknown };
  let fates: Fate[] = [fateOf(startOf(packet))];
  if (table !== undefined) fates = yield* new TableWalk({ ...input, asked: asked.lists, family, table }).fates();
  else if (rules !== undefined) fates = yield* new RulesWalk({ ...input, asked, rules, servers }).fates();
  return { fates, memories: { lists: [...asked.lists], destinations: [...asked.destinations] }, unknown: [...unknown] };
}
