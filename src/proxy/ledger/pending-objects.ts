/**
 * The objects with changes that are not in the kernel, each with the resourceVersion that is there. An object costs nothing here as
 * long as the kernel has what was received of it. Pure.
 */
import type { ServiceKey } from '../model/objects.ts';

/** An object whose newest version is not in the kernel. */
export interface PendingObject {
  /** The Service that it is, or that it belongs to. */
  readonly service: ServiceKey;
  /** The resourceVersion in the kernel; "": none, or one that nobody knows. */
  readonly programmed: string;
  /** Nothing of it is in the kernel. */
  readonly isNew: boolean;
}

/** What an object was until it changed. */
export interface ChangedObject extends PendingObject {
  /** It went. */
  readonly isGone: boolean;
}

type PendingByKey = Map<string, PendingObject>;

export class PendingObjects {
  /** Changed since the last sync began. */
  #fresh: PendingByKey = new Map();
  /** Changed before the sync that runs, which takes the changes. */
  #taken: PendingByKey = new Map();
  /** Changes that an earlier sync took and could not write. */
  readonly #held: PendingByKey = new Map();
  /** Went while a sync ran, which may write what they were. */
  readonly #gone = new Set<string>();
  #isRunning = false;
  /** Services of which no version was ever in the kernel; undefined: of none, because no sync has written yet. */
  #never: ReadonlySet<ServiceKey> | undefined;

  /** An object changes. One that came and goes, and of which nothing was written, is forgotten: they would add up while nothing is. */
  changed(object: string, { isGone, ...before }: ChangedObject): void {
    const isTaken = this.#isRunning && (this.#taken.has(object) || this.#held.has(object));
    if (isTaken && isGone) this.#gone.add(object);
    else this.#gone.delete(object);
    if (isGone && !isTaken && (this.get(object) ?? before).isNew) this.#forget(object);
    else if (!this.#fresh.has(object)) this.#fresh.set(object, before);
  }

  /** The versions of these objects went back: nobody knows any more which one is in the kernel. */
  forgetVersions(isMeant: (object: string) => boolean): void {
    for (const objects of [this.#fresh, this.#taken, this.#held]) {
      for (const [object, pending] of objects)
        if (isMeant(object)) objects.set(object, { ...pending, programmed: '', isNew: false });
    }
  }

  /** A sync takes all changes. Those of a sync that had no end count as not written. */
  syncBegan(): void {
    this.notWritten();
    this.#taken = this.#fresh;
    this.#fresh = new Map();
    this.#isRunning = true;
  }

  /** The sync wrote nothing, or nobody knows what. */
  notWritten(): void {
    this.#hold(this.#taken);
    this.#ended();
  }

  /** The sync wrote all that it took, and all that earlier ones could not write, but for these Services. */
  written(without: ReadonlyMap<ServiceKey, unknown>): void {
    const never = [...without.keys()].filter((service) => this.#never?.has(service) ?? true);
    this.#never = new Set(never);
    if (without.size > 0) this.#hold(this.#taken, ({ service }) => without.has(service));
    for (const [object, { service }] of this.#held) if (!without.has(service)) this.#held.delete(object);
    this.#ended();
  }

  /** Nothing is left to write: changes since the last sync changed nothing for the kernel. */
  settled(): void {
    if (this.#fresh.size > 0) this.#fresh = new Map();
  }

  /** The version of an object that is in the kernel; `received`: the newest that is known. */
  programmed(object: string, service: ServiceKey | undefined, received: string): string {
    if (this.#never === undefined || (service !== undefined && this.#never.has(service))) return '';
    return this.get(object)?.programmed ?? received;
  }

  /** undefined: the kernel has what was received. */
  get(object: string): PendingObject | undefined {
    return this.#held.get(object) ?? this.#taken.get(object) ?? this.#fresh.get(object);
  }

  /** The objects of a Service, each once. */
  of(service: ServiceKey): ReadonlyMap<string, PendingObject> {
    const found: PendingByKey = new Map();
    for (const objects of [this.#held, this.#taken, this.#fresh]) {
      for (const [object, pending] of objects)
        if (pending.service === service && !found.has(object)) found.set(object, pending);
    }
    return found;
  }

  /** The number of objects, of which one may count more than once. */
  get size(): number {
    return this.#fresh.size + this.#taken.size + this.#held.size;
  }

  /** What is held still was not written. */
  #ended(): void {
    this.#taken = new Map();
    this.#isRunning = false;
    for (const object of this.#gone) if (this.#held.get(object)?.isNew === true) this.#forget(object);
    this.#gone.clear();
  }

  #forget(object: string): void {
    this.#fresh.delete(object);
    this.#held.delete(object);
  }

  /** The oldest version is the one in the kernel. */
  #hold(objects: PendingByKey, isHeld: (pending: PendingObject) => boolean = () => true): void {
    for (const [object, pending] of objects)
      if (isHeld(pending) && !this.#held.has(object)) this.#held.set(object, pending);
  }
}
