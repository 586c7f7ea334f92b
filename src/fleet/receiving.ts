/** Tells the objects of a list from the events of a watch, by the resourceVersions that a reflector says it has reached. Pure. */

/** `object` undefined: it is gone. `version`: see FleetObjects. */
type Apply<T> = (key: string, object: T | undefined, version: string, isEvent: boolean) => void;

interface Received<T> {
  readonly key: string;
  readonly object: T | undefined;
  /** undefined: it is gone, with the version that is reached next. */
  readonly version: string | undefined;
}

/**
 * Between a reflector's sink and the fleet's objects. A watch passes on one object and then says that its version is reached; a list
 * passes on many before. An object that is gone has the version that is reached next: of its event, or of the list that lacks it.
 */
export class Receiving<T> {
  readonly #apply: Apply<T>;
  /** The first since a version was reached: it may be an event. */
  #first: Received<T> | undefined;
  #isList = false;
  /** Objects that a list lacks. */
  readonly #gone = new Set<string>();

  constructor(apply: Apply<T>) {
    this.#apply = apply;
  }

  /** An object is there, or changed; `version` is its resourceVersion. `object` undefined: it is not for the fleet. */
  set(key: string, object: T | undefined, version: string): void {
    this.#take({ key, object, version });
  }

  /** An object was deleted. */
  gone(key: string): void {
    this.#take({ key, object: undefined, version: undefined });
  }

  /** All up to this version was passed on. */
  reached(reached: string): void {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) {
      const { key, object, version = reached } = first;
      this.#apply(key, object, version, version === reached);
    }
    for (const key of this.#gone) this.#apply(key, undefined, reached, false);
    this.#gone.clear();
    this.#isList = false;
  }

  #take(received: Received<T>): void {
    if (this.#first === undefined && !this.#isList) {
      this.#first = received;
      return;
    }
    this.#isList = true;
    if (this.#first !== undefined) this.#list(this.#first);
    this.#first = undefined;
    this.#list(received);
  }

  #list({ key, object, version }: Received<T>): void {
    this.#gone.delete(key);
    if (version === undefined) this.#gone.add(key);
    else this.#apply(key, object, version, false);
  }
}
