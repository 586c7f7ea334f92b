/** Tells the objects of a list from the events of a watch, by the resourceVersions that a reflector says it has reached. Pure. */

/** `object` undefined: it is gone. `version`: see FleetObjects. */
type Apply<T> = (key: string, object: T | undefined, version: string, isEvent: boolean) => void;

interface Waiting<T> {
  readonly key: string;
  readonly object: T | undefined;
  /** undefined: that of what is reached next. */
  readonly version: string | undefined;
}

/**
 * Between a reflector's sink and the fleet's objects. A watch passes on one object and then says that its version is reached; a list
 * passes on many before. An object that is gone has the version that is reached next: of its event, or of the list that lacks it.
 */
export class Receiving<T> {
  readonly #apply: Apply<T>;
  #waiting: Waiting<T>[] = [];
  #isList = false;

  constructor(apply: Apply<T>) {
    this.#apply = apply;
  }

  /** An object is there, or changed; `version` is its resourceVersion. `object` undefined: it is not for the fleet. */
  set(key: string, object: T | undefined, version: string): void {
    this.#add({ key, object, version });
  }

  /** An object was deleted. */
  gone(key: string): void {
    this.#add({ key, object: undefined, version: undefined });
  }

  /** All up to this version was passed on. */
  reached(reached: string): void {
    for (const { key, object, version = reached } of this.#waiting) {
      this.#apply(key, object, version, !this.#isList && version === reached);
    }
    this.#waiting = [];
    this.#isList = false;
  }

  /** A second object before a version was reached: they are of a list. Those that are there are passed on at once. */
  #add(waiting: Waiting<T>): void {
    this.#waiting.push(waiting);
    if (this.#waiting.length === 1 && !this.#isList) return;
    this.#isList = true;
    const { object, version } = waiting;
    const isNow = (each: Waiting<T>) => each.version !== undefined;
    if (object === undefined && version === undefined && this.#waiting.length > 1 && !this.#waiting.some(isNow)) return;
    for (const each of this.#waiting.filter(isNow)) this.#apply(each.key, each.object, each.version ?? '', false);
    this.#waiting = this.#waiting.filter((each) => !isNow(each));
  }
}
