/**
 * The objects with changes that are not in the kernel, each with the resourceVersion that the kernel has of it. An object takes no memory
 * here while the kernel has its newest version.
 *
 * A changed object is fresh until a sync begins, and taken while that sync runs. Then it is forgotten when the sync has written it, and
 * held when it has not. Pure.
 */
import type { ServiceKey } from '../model/objects.ts';

/** An object whose newest version is not in the kernel. */
export interface PendingObject {
  /** The Service that it is, or that it belongs to. */
  readonly service: ServiceKey;
  /** The resourceVersion in the kernel; "" when it is not there, or not known. */
  readonly programmed: string;
  /** Nothing of it is in the kernel. */
  readonly isNew: boolean;
}

/** The state of an object before its change. */
export interface ChangedObject extends PendingObject {
  /** The change deletes it. */
  readonly isGone: boolean;
}

type PendingByKey = Map<string, PendingObject>;

export class PendingObjects {
  /** Changed since the last sync began. */
  #fresh: PendingByKey = new Map();
  /** Changed before the sync that runs, which writes the changes. */
  #taken: PendingByKey = new Map();
  /** Changes that an earlier sync took and could not write. */
  readonly #held: PendingByKey = new Map();
  /** Deleted while a sync ran, which may write their earlier state. */
  readonly #gone = new Set<string>();
  #isRunning = false;
  /**
   * Services whose version in the kernel is not known: none was ever written, or the kernel refused to write them again although nothing of
   * them had changed. undefined before the first sync that wrote, when that is so for all.
   */
  #unknown: ReadonlySet<ServiceKey> | undefined;

  /** An object changes. A new one that is deleted before it was written is forgotten: such objects would add up while writes fail. */
  changed(object: string, { isGone, ...before }: ChangedObject): void {
    const isTaken = this.#isRunning && (this.#taken.has(object) || this.#held.has(object));
    if (isTaken && isGone) this.#gone.add(object);
    else this.#gone.delete(object);
    if (isGone && !isTaken && (this.get(object) ?? before).isNew) this.#forget(object);
    else if (!this.#fresh.has(object)) this.#fresh.set(object, before);
  }

  /** The versions of these objects went back: the one in the kernel is not known any more. */
  forgetVersions(isMeant: (object: string) => boolean): void {
    for (const objects of [this.#fresh, this.#taken, this.#held]) {
      for (const [object, pending] of objects)
        if (isMeant(object)) objects.set(object, { ...pending, programmed: '', isNew: false });
    }
  }

  /** A sync takes all changes. Those of an aborted sync before it count as not written. */
  syncBegan(): void {
    this.notWritten();
    this.#taken = this.#fresh;
    this.#fresh = new Map();
    this.#isRunning = true;
  }

  /** The sync wrote nothing, or an unknown part. */
  notWritten(): void {
    this.#hold(this.#taken);
    this.#ended();
  }

  /** The sync wrote all taken and held objects, except for those of these Services. */
  written(without: ReadonlyMap<ServiceKey, unknown>): void {
    if (without.size > 0) this.#hold(this.#taken, ({ service }) => without.has(service));
    const changed = new Set<ServiceKey>();
    for (const [object, { service }] of this.#held) {
      if (without.has(service)) changed.add(service);
      else this.#held.delete(object);
    }
    const isUnknown = (service: ServiceKey) => !changed.has(service) || (this.#unknown?.has(service) ?? true);
    this.#unknown = new Set([...without.keys()].filter(isUnknown));
    this.#ended();
  }

  /** No write is left to do: the changes since the last sync make no difference to the kernel. */
  settled(): void {
    if (this.#fresh.size > 0) this.#fresh = new Map();
  }

  /** The version of an object that is in the kernel; `received`: the newest that is known. */
  programmed(object: string, service: ServiceKey | undefined, received: string): string {
    if (this.#unknown === undefined || (service !== undefined && this.#unknown.has(service))) return '';
    return this.get(object)?.programmed ?? received;
  }

  /** The pending state of an object; undefined when the kernel has its newest version. */
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

  /** The number of entries; an object may have more than one. */
  get size(): number {
    return this.#fresh.size + this.#taken.size + this.#held.size;
  }

  #ended(): void {
    this.#taken = new Map();
    this.#isRunning = false;
    // A deleted object that is still held was not written.
    for (const object of this.#gone) if (this.#held.get(object)?.isNew === true) this.#forget(object);
    this.#gone.clear();
  }

  #forget(object: string): void {
    this.#fresh.delete(object);
    this.#held.delete(object);
  }

  /** Keeps the entry of an object that is held already: the kernel has the oldest version. */
  #hold(objects: PendingByKey, isHeld: (pending: PendingObject) => boolean = () => true): void {
    for (const [object, pending] of objects)
      if (isHeld(pending) && !this.#held.has(object)) this.#held.set(object, pending);
  }
}
