/** A rule of nftables while a packet is in it. Pure. */
import type { Expression, ReadExpression } from '../../kernel/nftables-kernel.ts';
import type { Effect, PacketState, WalkStep } from './fates.ts';
import { numberOf } from './registers.ts';

export type ChainVerdict = Extract<Expression, { do: 'verdict' }>['verdict'];

/** A rule in its chain, and what it has done so far: words as bytes, one character each. */
export interface Run {
  readonly chain: string;
  readonly text: string;
  readonly expressions: readonly ReadExpression[];
  readonly words: string[];
  readonly state: PacketState;
  /** Where the packet goes on when the rule does not match in the end. */
  readonly before: PacketState;
  /** Owner of the last element that was found: the packet goes on as this Service's. */
  readonly owner: WalkStep['owner'];
}

/** The packet behind a rule that does not match: what the rule found does not count. */
export function passedBy({ before, state }: Run): PacketState {
  return { ...before, mark: state.mark };
}

/** The packet behind a rule that ended without a verdict: what it found or drew was a step only when it did something with it. */
export function concluded({ state, before }: Run): PacketState {
  for (let at = state.way; at !== undefined && at !== before.way; at = at.before) {
    if (at.step.effect.kind !== 'lookup' && at.step.effect.kind !== 'choose') return state;
  }
  return { ...state, way: before.way };
}

/** The number that a comparison of the drawn word lets pass; undefined when it is no such comparison. */
export function onlyNumber(expression: ReadExpression | undefined, word: number): number | undefined {
  if (expression?.do !== 'compare' || expression.from !== word || expression.is !== 'equal') return undefined;
  return expression.value.length === 4 ? numberOf(expression.value) : undefined;
}

export function likely(state: PacketState, share: number): PacketState {
  return { ...state, probability: state.probability * share };
}

/** Packets that are alike in all but their probability become one. */
export function merged(states: readonly PacketState[]): PacketState[] {
  const found: PacketState[] = [];
  for (const state of states) {
    const last = found.at(-1);
    const isAlike = last !== undefined && last.way === state.way && last.mark === state.mark;
    if (isAlike) found[found.length - 1] = { ...last, probability: last.probability + state.probability };
    else found.push(state);
  }
  return found;
}

/** The verdict of an element; undefined for one that slicewire never writes. */
export function verdictIn(data: string): ChainVerdict | undefined {
  const [, kind, chain] = /^(goto|jump) (.+)$/.exec(data) ?? [];
  if (chain !== undefined) return { kind: kind === 'jump' ? 'jump' : 'goto', chain };
  return data === 'drop' || data === 'return' ? { kind: data } : undefined;
}

export function effectOf(verdict: ChainVerdict): Effect {
  return 'chain' in verdict ? { kind: verdict.kind, chain: verdict.chain } : { kind: verdict.kind };
}
