/** Many ways between states of Services, in each mode and from one mode to another. */

import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { Random } from '../../helpers/base/random.ts';
import { MODES } from '../check/mode-world.ts';
import { type Breach, type Exception, PrefixWorld } from './prefixes.ts';
import { ABSENT, coreStates, nextService, randomService, type State, withOthers } from './states.ts';

/** Ways of one kind: the same text names it in results. */
export interface Kind {
  readonly name: string;
  readonly modes: readonly ModeName[];
  /** Two Services share addresses, node ports and endpoints. */
  readonly services: 1 | 2;
  /** Its part of the time: the longer a way takes, the more. */
  readonly share: number;
}

const SHARES: Readonly<Record<ModeName, number>> = { nftables: 1, iptables: 1, ipvs: 4 };

export const KINDS: readonly Kind[] = [
  ...MODES.flatMap((mode) => [
    { name: mode, modes: [mode], services: 1 as const, share: SHARES[mode] },
    { name: `${mode}, two Services`, modes: [mode], services: 2 as const, share: SHARES[mode] },
  ]),
  { name: 'from mode to mode', modes: MODES, services: 1, share: 4 },
];

const SHARES_OF_ALL = KINDS.reduce((sum, { share }) => sum + share, 0);

export interface Ways {
  readonly kind: Kind;
  /** Pairs of states. */
  readonly pairs: number;
  readonly cuts: number;
  readonly exceptions: ReadonlyMap<Exception, number>;
  readonly breaches: readonly Breach[];
}

/** Breaches that are kept: the others are of the same few kinds. */
const MAX_BREACHES = 20;
/** A world that has gone through so many states is left for a new one: what a state leaves behind must not add up. */
const STATES_A_WORLD = 200;

/** Random ways of a kind, for its share of so many milliseconds. The same seed gives the same ways. */
export async function randomWays(kind: Kind, seed: number, timeOfAll: number): Promise<Ways> {
  const random = new Random(seed);
  const time = (timeOfAll * kind.share) / SHARES_OF_ALL;
  return await follow(kind, randomStates(kind, random), { random, until: performance.now() + time });
}

function* randomStates({ services }: Kind, random: Random): Generator<State> {
  let state: State = [randomService(random), services === 2 ? randomService(random) : ABSENT];
  for (;;) {
    yield state;
    state = [nextService(random, state[0]), services === 2 ? nextService(random, state[1]) : ABSENT];
  }
}

/** Each way from one state of `coreStates` to another, forth and back; what these states leave open is drawn. */
export async function allWays(mode: ModeName, seed: number): Promise<Ways> {
  const random = new Random(seed);
  const kind: Kind = { name: `${mode}, all pairs`, modes: [mode], services: 1, share: 1 };
  return await follow(kind, pairsOf(coreStates(), random), { random, until: Number.POSITIVE_INFINITY });
}

function* pairsOf(states: ReturnType<typeof coreStates>, random: Random): Generator<State> {
  for (const [i, first] of states.entries()) {
    for (const second of states.slice(i + 1)) {
      yield [withOthers(random, first), ABSENT];
      yield [withOthers(random, second), ABSENT];
    }
    yield [withOthers(random, first), ABSENT];
  }
}

interface Following {
  readonly random: Random;
  readonly until: number;
}

async function follow(kind: Kind, states: Iterable<State>, { random, until }: Following): Promise<Ways> {
  const breaches: Breach[] = [];
  const exceptions = new Map<Exception, number>();
  let [pairs, cuts, gone] = [0, 0, 0];
  let world = new PrefixWorld(random.pick(kind.modes));
  let former: State | undefined;
  const add = () => {
    for (const [name, count] of world.exceptions) exceptions.set(name, (exceptions.get(name) ?? 0) + count);
    cuts += world.cuts;
  };
  for (const state of states) {
    if (performance.now() > until || breaches.length > MAX_BREACHES) break;
    if (gone === STATES_A_WORLD && former !== undefined) {
      add();
      world = new PrefixWorld(random.pick(kind.modes));
      breaches.push(...(await world.go(former)));
      gone = 0;
    }
    breaches.push(...(await world.go(state, random.pick(kind.modes))));
    if (former !== undefined) pairs += 1;
    former = state;
    gone += 1;
  }
  add();
  return { kind, pairs, cuts, exceptions, breaches };
}

/** For people, a line. */
export function waysText({ kind, pairs, cuts, exceptions, breaches }: Ways): string {
  const named = [...exceptions].sort().map(([name, count]) => `${name} ${count}`);
  const found = breaches.length > MAX_BREACHES ? `more than ${MAX_BREACHES}` : String(breaches.length);
  return `${kind.name}: ${pairs} pairs of states, ${cuts} cuts, ${found} breaches${named.length === 0 ? '' : `; exceptions: ${named.join(', ')}`}`;
}

/** For people, some lines. */
export function breachText({ mode, before, after, packet, was, is, becomes, cut, cuts }: Breach): string {
  return [
    `${mode}, after write ${cut} of ${cuts}: ${packet} is ${is}`,
    `  before: ${was}, with ${before}`,
    `  afterwards: ${becomes}, with ${after}`,
  ].join('\n');
}
