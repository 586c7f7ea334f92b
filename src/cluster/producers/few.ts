/** A set that usually has few members, without the 200 bytes that an empty Set takes. */

/** A set of one is its member, a small one a list, a large one a Set. Members are neither lists nor Sets. */
export type Few<T extends string | object> = undefined | T | readonly T[] | Set<T>;

/** A longer list becomes a Set. */
const MAX_LIST_LENGTH = 16;

export function membersOf<T extends string | object>(few: Few<T>): Iterable<T> {
  if (few === undefined) return [];
  return isList(few) || few instanceof Set ? few : [few];
}

export function countOf<T extends string | object>(few: Few<T>): number {
  if (few === undefined) return 0;
  if (few instanceof Set) return few.size;
  return isList(few) ? few.length : 1;
}

/** Adds a member; a Set is changed in place. */
export function withMember<T extends string | object>(few: Few<T>, member: T): Few<T> {
  if (few instanceof Set) return few.add(member);
  const list = isList(few) ? few : [...membersOf(few)];
  if (list.includes(member)) return few;
  if (list.length === 0) return member;
  return list.length < MAX_LIST_LENGTH ? [...list, member] : new Set([...list, member]);
}

/** Removes a member; a Set is changed in place. Returns undefined for an empty set. */
export function withoutMember<T extends string | object>(few: Few<T>, member: T): Few<T> {
  if (few instanceof Set) {
    few.delete(member);
    return few.size === 0 ? undefined : few;
  }
  const left = [...membersOf(few)].filter((one) => one !== member);
  return left.length > 1 ? left : left[0];
}

function isList<T extends string | object>(few: Few<T>): few is readonly T[] {
  return Array.isArray(few);
}

/** Such sets by name. A name without members is not kept. */
export class Lists<T extends string | object> {
  readonly #lists = new Map<string, Few<T>>();

  get(name: string): Iterable<T> {
    return membersOf(this.#lists.get(name));
  }

  count(name: string): number {
    return countOf(this.#lists.get(name));
  }

  add(name: string, member: T): void {
    this.#lists.set(name, withMember(this.#lists.get(name), member));
  }

  remove(name: string, member: T): void {
    const left = withoutMember(this.#lists.get(name), member);
    if (left === undefined) this.#lists.delete(name);
    else this.#lists.set(name, left);
  }
}
