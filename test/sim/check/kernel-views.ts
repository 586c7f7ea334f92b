/** What becomes of a packet in a kernel that has the objects of one mode, or of two while one takes over from the other. Pure. */

import type { Family } from '../../../src/base/address.ts';
import type { Fate, NodeOfPacket, Packet } from '../../../src/inspect/explain/packet.ts';
import { type Walked, walk } from '../../../src/inspect/explain/walk.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';

/**
 * What each mode has in the kernel, in one family. `iptables`: all chains; `ipvs`: the same chains, virtual servers, sets and addresses.
 * A mode without an object in the kernel is left out; the built-in chains alone are none.
 */
export interface ModeViews {
  readonly nftables?: FamilyView | undefined;
  readonly iptables?: FamilyView | undefined;
  readonly ipvs?: FamilyView | undefined;
}

export type KernelViews = (family: Family) => ModeViews;

export interface Become {
  /** Those of the mode that does something to the packet; of the one that sees it first where both do. */
  readonly fates: readonly Fate[];
  /** The fates in each mode that does something to the packet: one takes over from another when both do the same. */
  readonly texts: readonly string[];
  /** Every endpoint that a mode which sees it may send it to, as `ip:port`. */
  readonly backends: ReadonlySet<string>;
  /** One mode sends all such packets to endpoints, and no other drops any before or after. */
  readonly isDelivered: boolean;
  /** What was not interpreted. */
  readonly unknown: readonly string[];
}

export type { Walked };

export type Walk = (view: FamilyView, packet: Packet, facts: NodeOfPacket) => Walked;

/** The chains are walked once: those of IPVS mode are the same. */
export function viewsIn({ nftables, iptables, ipvs }: ModeViews): FamilyView[] {
  return [nftables, ipvs ?? iptables].filter((view) => view !== undefined);
}

export function becomeOf(views: readonly FamilyView[], packet: Packet, facts: NodeOfPacket, how: Walk = walk): Become {
  return becomeOfWalked(
    views,
    views.map((view) => how(view, packet, facts)),
  );
}

/** `walked`: one walk of the packet for each view. */
export function becomeOfWalked(views: readonly FamilyView[], walked: readonly Walked[]): Become {
  const all = walked.map(({ fates }) => fates);
  const isFull = (fates: readonly Fate[]) => fates.length > 0 && fates.every(({ kind }) => kind === 'balanced');
  // Another mode translates before IPVS sees a packet, or stops one that comes in: its servers do not matter then.
  const isBeforeIpvs = (i: number) => {
    const fates = all[i] ?? [];
    return views[i]?.servers === undefined && (isFull(fates) || (fates.length > 0 && fates.every(isStoppedAtInput)));
  };
  const reached = all.filter((_, i) => views[i]?.servers === undefined || !all.some((_one, j) => isBeforeIpvs(j)));
  const isTranslated = (by: readonly Fate[]) => all.some((fates) => fates !== by && isFull(fates));
  const dropped = all.some((fates) =>
    fates.some((fate) => isDropped(fate) && !(isTranslated(fates) && isFilter(fate))),
  );
  const acting = all.filter((fates) => fates.some(({ kind }) => kind !== 'untouched'));
  return {
    texts: acting.map(fatesText),
    fates: all.find(isFull) ?? all.find((fates) => fates.some(({ kind }) => kind !== 'untouched')) ?? all[0] ?? [],
    backends: new Set(reached.flat().flatMap(({ kind, backend }) => (kind === 'balanced' ? [backend] : []))),
    isDelivered: !dropped && all.some(isFull),
    unknown: walked.flatMap(({ unknown }) => unknown),
  };
}

function isDropped({ kind }: Fate): boolean {
  return kind === 'dropped';
}

/** In nftables mode's chain of the hook input: IPVS takes packets later there (priority 99, after 0), and earlier in the hook output (-98). */
function isStoppedAtInput({ kind, way }: Fate): boolean {
  return (kind === 'dropped' || kind === 'rejected') && way.some(({ chain }) => chain === 'filter-input');
}

/** The table filter of iptables sees packets after every translation, that of another mode as well: such a rule meets an endpoint's address. */
function isFilter({ way }: Fate): boolean {
  const last = way.at(-1);
  return last?.table === 'filter' && !last.rule.includes('--ctorig');
}

/** The same without the shares, which depend on the time while endpoints get their share little by little. */
export function withoutShares(text: string): string {
  return text.replace(/ 0\.\d{6}/g, '');
}

/** `balanced 10.244.1.1:8080 masqueraded 0.500000, rejected`, in a fixed order. */
export function fatesText(fates: readonly Omit<Fate, 'way'>[]): string {
  const shares = new Map<string, number>();
  for (const { kind, backend, masqueraded, probability } of fates) {
    const text = [kind, backend, masqueraded ? 'masqueraded' : ''].filter((part) => part !== '').join(' ');
    shares.set(text, (shares.get(text) ?? 0) + probability);
  }
  const texts = [...shares].map(([text, share]) => (share > 1 - 1e-6 ? text : `${text} ${share.toFixed(6)}`));
  return texts.sort().join(', ') || 'untouched';
}
