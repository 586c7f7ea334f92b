/**
 * Every state that the objects ever had, for checks. A state has a number, which only grows: a resourceVersion is given twice after a
 * restore of etcd.
 */
import type { ApiObject, Change } from '../../helpers/cluster/api/api-store.ts';

/** Objects by kind, then by `namespace/name`, or by name where a kind has no namespace. Nobody may change them. */
export type Objects = ReadonlyMap<string, ReadonlyMap<string, ApiObject>>;

export class States {
  readonly #states: { readonly version: number; readonly objects: Objects }[] = [];

  /** The first state, numbered 0, has no objects. */
  constructor(version: number) {
    this.#states.push({ version, objects: new Map() });
  }

  /** The number of the newest. */
  get newest(): number {
    return this.#states.length - 1;
  }

  /** Throws RangeError where there was no such state. */
  at(number: number): Objects {
    return this.#at(number).objects;
  }

  /** The resourceVersion of the server then. */
  versionOf(number: number): number {
    return this.#at(number).version;
  }

  add({ version, kind, key, after }: Change): void {
    const before = this.at(this.newest);
    const shelf = new Map(before.get(kind));
    if (after === undefined) shelf.delete(key);
    else shelf.set(key, after);
    this.#states.push({ version, objects: new Map(before).set(kind, shelf) });
  }

  /** What was at a resourceVersion is again, and the resourceVersion with it. The last state with this version counts. */
  restored(version: number): void {
    const state = this.#states.findLast((one) => one.version <= version);
    this.#states.push({ version, objects: state?.objects ?? new Map() });
  }

  #at(number: number): { readonly version: number; readonly objects: Objects } {
    const state = this.#states[number];
    if (state === undefined) throw new RangeError(`there was no state ${number}; the newest is ${this.newest}`);
    return state;
  }
}
