/**
 * Divides a table of slots among endpoints by their weights, as Maglev does (Eisenbud et al., NSDI 2016, section 3.4): each endpoint has its
 * own order of all slots, and takes its next free one whenever it is its turn. So the result does not depend on the history, all nodes have
 * the same, and where an endpoint or a weight changes, few slots get another endpoint. Pure.
 */
import { mixedHash } from '../../base/hash.ts';

/** The use of the slots. */
type SlotsUse =
  /** Shares that differ from those of the weights by less than 1 % of all. */
  | 'weights'
  /** The same with session affinity, where each slot is a rule: for few endpoints. */
  | 'affinity'
  /**
   * Clients that keep their slots. With many slots for each endpoint, few clients of others get another one where one leaves: at most 1.2/N of
   * all for up to 40 endpoints. Between 10 and 11 endpoints the number of slots changes, and with it the endpoint of nearly every client.
   */
  | 'clients';

/** Prime numbers of slots, by the most endpoints that get them. */
const SIZES: Readonly<Record<SlotsUse, readonly (readonly [endpoints: number, slots: number])[]>> = {
  weights: [
    [4, 251],
    [20, 1021],
    [80, 4093],
    [320, 16_381],
    [Number.POSITIVE_INFINITY, 65_521],
  ],
  affinity: [[50, 251]],
  clients: [
    [10, 8191],
    [Number.POSITIVE_INFINITY, 65_521],
  ],
};

interface Member {
  /** Names it on every node: `ip:port`. */
  readonly text: string;
  /** More than 0. */
  readonly weight?: number;
}

/**
 * The members in the slots, each at least once, as long as there are more slots than members; the members alone where they are too many for
 * the use. One without a weight counts as 1.
 */
export function inSlots<M extends Member>(members: readonly M[], use: SlotsUse): readonly M[] {
  const slots = SIZES[use].find(([most]) => members.length <= most)?.[1];
  if (slots === undefined) return members;
  const largest = Math.max(...members.map(({ weight = 1 }) => weight));
  const turns = members.map((member) => new Turns(member, slots));
  const table = Array<M | undefined>(slots).fill(undefined);
  let left = slots;
  for (let round = 1; left > 0 && turns.length > 0; round++) {
    for (const one of turns) {
      if (left === 0) break;
      if (!one.isDue(round, largest)) continue;
      table[one.next((slot) => table[slot] === undefined)] = one.member;
      left -= 1;
    }
  }
  return table.filter((member) => member !== undefined);
}

/** The order in which a member takes slots, and when it is its turn. */
class Turns<M extends Member> {
  readonly member: M;
  readonly #slots: number;
  readonly #skip: number;
  #at: number;
  /** The sum of its weights after which it is its turn again. */
  #due = 0;

  constructor(member: M, slots: number) {
    this.member = member;
    this.#slots = slots;
    this.#at = mixedHash(member.text) % slots;
    this.#skip = (mixedHash(`${member.text} skip`) % (slots - 1)) + 1;
  }

  /** The heaviest members have a turn in each round, one of half the weight in every second one, and all have one in the first. */
  isDue(round: number, largest: number): boolean {
    const { weight = 1 } = this.member;
    if (round * weight < this.#due) return false;
    this.#due += largest;
    return true;
  }

  /** The next free slot in its order. */
  next(isFree: (slot: number) => boolean): number {
    while (!isFree(this.#at)) this.#at = (this.#at + this.#skip) % this.#slots;
    return this.#at;
  }
}
