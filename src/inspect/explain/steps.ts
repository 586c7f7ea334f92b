/** The way of a packet through the kernel, as steps of an answer. Pure. */

import type { ExplainedStep } from '../wire/explanation.ts';
import { percentText } from '../wire/format.ts';
import type { Effect, Fate, Step } from './fates.ts';

export interface Ways {
  /** The steps that all packets share. */
  readonly shared: readonly ExplainedStep[];
  /** The further steps of each fate. */
  readonly own: ReadonlyMap<Fate, readonly ExplainedStep[]>;
}

export function waysOf(fates: readonly Fate[]): Ways {
  const [first] = fates;
  if (first === undefined) return { shared: [], own: new Map() };
  let length = fates.length === 1 ? first.way.length : 0;
  if (fates.length > 1) {
    while (length < first.way.length && fates.every(({ way }) => isSame(way[length], first.way[length]))) length += 1;
  }
  const own = new Map(fates.map((fate) => [fate, fate.way.slice(length).map(explained)]));
  return { shared: first.way.slice(0, length).map(explained), own };
}

function isSame(a: Step | undefined, b: Step | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  return a.table === b.table && a.chain === b.chain && a.rule === b.rule && a.share === b.share && does(a) === does(b);
}

function explained(step: Step): ExplainedStep {
  const { table, chain, rule, owner } = step;
  return { table, chain, rule, does: does(step), object: owner ?? '' };
}

function does({ effect, share }: Step): string {
  const words = wordsOf(effect);
  return share < 1 && effect.kind !== 'choose' ? `${words} (${percentText(share)} of the packets)` : words;
}

function wordsOf(effect: Effect): string {
  switch (effect.kind) {
    case 'jump':
    case 'goto':
      return `goes to ${effect.chain}`;
    case 'mark':
      return `sets the mark 0x${effect.mark.toString(16)}`;
    case 'choose':
      return `draws ${effect.number} of ${effect.of} numbers`;
    case 'lookup':
      return effect.found === '' ? 'finds it' : `finds ${effect.found}`;
    case 'translate':
      return `sends it to ${effect.to}`;
    case 'remember':
      return `remembers the client in ${effect.memory}`;
    case 'masquerade':
      return 'masquerades it: the source becomes an address of this node';
    case 'reject':
      return 'refuses it';
    case 'drop':
      return 'drops it';
    case 'accept':
      return 'accepts it';
    case 'return':
      return 'goes back';
  }
}
