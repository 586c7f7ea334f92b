/**
 * Walks the first packet of a connection through the objects that a mode has in the kernel: its fates with their probabilities, and the
 * way that leads to each. The view decides, not the model. Pure.
 */
import type { Address } from '../../base/address.ts';
import type { Memories } from '../../proxy/modes/inspection.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { Explanation } from '../wire/explanation.ts';
import type { ExplainFacts } from './facts.ts';
import { type Fate, fateOf, type NodeOfPacket, type Packet, startOf } from './packet.ts';
import type { MemoryNames } from './rule.ts';
import { RulesWalk } from './rules-walk.ts';
import { TableWalk } from './table-walk.ts';

export interface Walked {
  /** All possible ones; their probabilities add up to 1. */
  readonly fates: readonly Fate[];
  /**
   * All memories of session affinity that rules on the way looked into. A caller looks up in the kernel which of them know the client,
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

/** Fates between two turns of the event loop, because a Service may have thousands of endpoints. */
const FATES_AT_ONCE = 250;

/** The same in portions, between which an agent goes on with its work. The view must not change meanwhile. */
export async function walkInPortions(
  { view, packet, facts }: { readonly view: FamilyView; readonly packet: Packet; readonly facts: NodeOfPacket },
  yieldToEventLoop: () => Promise<void>,
): Promise<Walked> {
  const walking = portions(view, packet, facts);
  for (let count = 1; ; count++) {
    const { done, value } = walking.next();
    if (done === true) return value;
    if (count % FATES_AT_ONCE === 0) await yieldToEventLoop();
  }
}

type Sticky = NonNullable<Explanation['verdict']['sticky']>;

/** A walk with what the kernel remembers of the client. */
interface Remembering {
  /** The walk of a client that nothing remembers. */
  readonly fresh: Walked;
  readonly walked: Walked;
  readonly remembered: ReadonlyMap<string, number>;
  readonly sticky: Sticky | null;
}

interface RememberingInput {
  readonly view: FamilyView;
  readonly packet: Packet;
  readonly localAddresses: ReadonlySet<Address>;
  readonly facts: ExplainFacts;
}

/** Walks, looks up which memories of session affinity on the way know the client, and walks again with these (docs/semantics.md 7.8). */
export async function walkRemembering({ view, packet, localAddresses, facts }: RememberingInput): Promise<Remembering> {
  const node = (remembered: Iterable<string>): NodeOfPacket => ({ localAddresses, remembered: new Set(remembered) });
  const fresh = await walkInPortions({ view, packet, facts: node([]) }, () => facts.yieldToEventLoop());
  const { lists, destinations } = fresh.memories;
  if (lists.length === 0 && destinations.length === 0)
    return { fresh, walked: fresh, remembered: new Map(), sticky: null };
  const remembered = await facts.remembered(view.family, fresh.memories, packet.source);
  if (remembered.size === 0) return { fresh, walked: fresh, remembered, sticky: null };
  const walked = await walkInPortions({ view, packet, facts: node(remembered.keys()) }, () => facts.yieldToEventLoop());
  const [only, another] = walked.fates;
  if (only?.kind !== 'balanced' || another !== undefined) return { fresh, walked, remembered, sticky: null };
  const seconds = [...remembered].find(([memory]) => {
    const [fate, second] = walk(view, packet, node([memory])).fates;
    return second === undefined && fate?.backend === only.backend;
  })?.[1];
  return { fresh, walked, remembered, sticky: seconds === undefined ? null : { endpoint: only.backend, seconds } };
}

function* portions(view: FamilyView, packet: Packet, facts: NodeOfPacket): Generator<undefined, Walked> {
  const memories: MemoryNames = { lists: new Set(), destinations: new Set() };
  const unknown = new Set<string>();
  const { family, rules, servers, table } = view;
  const input = { packet, facts, unknown };
  let fates: Fate[] = [fateOf(startOf(packet))];
  if (table !== undefined) fates = yield* new TableWalk({ ...input, memories: memories.lists, family, table }).fates();
  else if (rules !== undefined) fates = yield* new RulesWalk({ ...input, memories, rules, servers }).fates();
  return {
    fates,
    memories: { lists: [...memories.lists], destinations: [...memories.destinations] },
    unknown: [...unknown],
  };
}
