/** Session affinity: which endpoint the kernel remembers for a client, and for how long (docs/semantics.md 7.8). Pure. */

import type { Address } from '../../base/address.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { Explanation } from '../wire/explanation.ts';
import type { ExplainFacts } from './facts.ts';
import type { NodeOfPacket, Packet } from './packet.ts';
import { lasting } from './phrases.ts';
import { type Walked, walk, walkInPortions } from './walk.ts';

type Sticky = NonNullable<Explanation['verdict']['sticky']>;

/** A walk with what the kernel remembers of the client. */
export interface Remembering {
  readonly walked: Walked;
  readonly remembered: ReadonlyMap<string, number>;
  readonly sticky: Sticky | null;
}

export interface RememberingInput {
  readonly view: FamilyView;
  readonly packet: Packet;
  readonly localAddresses: ReadonlySet<Address>;
  readonly facts: ExplainFacts;
}

/** Walk, look up the memories that were asked on the way, and walk again with those that know the client. */
export async function walkRemembering({ view, packet, localAddresses, facts }: RememberingInput): Promise<Remembering> {
  const node = (remembered: Iterable<string>): NodeOfPacket => ({ localAddresses, remembered: new Set(remembered) });
  const fresh = await walkInPortions({ view, packet, facts: node([]) }, () => facts.breath());
  const { lists, destinations } = fresh.memories;
  if (lists.length === 0 && destinations.length === 0) return { walked: fresh, remembered: new Map(), sticky: null };
  const remembered = await facts.remembered(view.family, fresh.memories, packet.source);
  if (remembered.size === 0) return { walked: fresh, remembered, sticky: null };
  const walked = await walkInPortions({ view, packet, facts: node(remembered.keys()) }, () => facts.breath());
  const [only, another] = walked.fates;
  if (only?.kind !== 'balanced' || another !== undefined) return { walked, remembered, sticky: null };
  const seconds = [...remembered].find(([memory]) => {
    const [fate, second] = walk(view, packet, node([memory])).fates;
    return second === undefined && fate?.backend === only.backend;
  })?.[1];
  return { walked, remembered, sticky: seconds === undefined ? null : { endpoint: only.backend, seconds } };
}

/** `which session affinity of Service shop/web remembers for this client for another 9 min` */
export function stickyClause({ seconds }: Sticky, of: string): string {
  return `which the session affinity of ${of} remembers for this client for another ${lasting(seconds)}`;
}
