/**
 * Which versions of objects are in the kernel. A mark moves when a sync has written what it took, or at once where there is nothing to
 * write; each change costs the same. It never claims a change that the kernel lacks: the Services that the kernel refused are named
 * apart, and a write that failed as a whole moves nothing (`lags.ts`). Pure; the time comes from a clock.
 */
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { hasReached } from '../../proxy/model/resource-version.ts';
import { Lags, type MarkedKind, MarkHistory, type Marks } from './marks.ts';
import { PendingObjects } from './pending-objects.ts';

/** The fate of the changes that a sync took. */
export interface WrittenChanges {
  /** They are in the kernel, but for those of `without`. */
  readonly hasWritten: boolean;
  /** The Services that the kernel refused, each with what it said. */
  readonly without: ReadonlyMap<ServiceKey, string>;
  /** Why nothing was written; "" otherwise. */
  readonly why: string;
}

export interface TrackingOptions {
  readonly now: () => number;
  /** Whether something was received that no sync has taken yet. */
  readonly hasChanges: () => boolean;
}

/** Most Services that are named as behind. With more of them the marks stand. */
export const MAX_BEHIND = 1000;
const NONE: Marks = { services: '', slices: '' };

/** The name of an object among those of both kinds. */
export function objectName(of: MarkedKind, key: string): string {
  return `${of} ${key}`;
}

export interface KnownObject {
  readonly service: ServiceKey | undefined;
  readonly received: string;
}

export interface ObjectChange {
  /** The Service that the object is, or that it belongs or belonged to. */
  readonly service: ServiceKey;
  readonly before: string;
  readonly isGone: boolean;
}

interface SyncState {
  /** What the sync that runs took; undefined: none runs. */
  readonly taken: Marks | undefined;
  /** There was a sync: only from then on can objects differ. */
  readonly hasBegun: boolean;
  /** All that the last sync took was written, but for refused Services. */
  readonly isWritten: boolean;
}

/** Of one source of objects. */
export class Tracking {
  readonly history = new MarkHistory();
  readonly pending = new PendingObjects();
  readonly lags = new Lags();
  readonly #options: TrackingOptions;
  #received: Marks = NONE;
  #marks: Marks = NONE;
  #sync: SyncState = { taken: undefined, hasBegun: false, isWritten: false };
  #onChange: () => void = () => undefined;

  constructor(options: TrackingOptions) {
    this.#options = options;
  }

  /** Sets the one callback for when marks or lags are other than before. */
  onChange(call: () => void): void {
    this.#onChange = call;
  }

  get marks(): Marks {
    return this.#marks;
  }

  /** What was received, whether the kernel has it or not. */
  get received(): Marks {
    return this.#received;
  }

  /** All changes of a kind up to this version were received; "": the versions went back, and nothing is known of this kind. */
  reached(of: MarkedKind, version: string): void {
    this.#received = { ...this.#received, [of]: version };
    if (version === '') this.#goBack(of);
    else if (this.#sync.taken === undefined && this.#sync.isWritten && !this.#options.hasChanges()) {
      this.pending.settled();
      if (this.#move(this.#received, true)) this.#onChange();
    }
  }

  /** A Service or slice changed; `before`: its resourceVersion until now, "" for none. `isGone`: there is none any more. */
  changed(of: MarkedKind, key: string, { service, before, isGone }: ObjectChange): void {
    if (!this.#sync.hasBegun) return;
    // Until a list is complete after versions went back, what objects had before are other numbers.
    const isKnown = this.#received[of] !== '';
    const programmed = isKnown ? before : '';
    this.pending.changed(objectName(of, key), { service, programmed, isNew: isKnown && before === '', isGone });
  }

  /** A sync takes all that was received until now. */
  syncBegan(): void {
    // A sync that had no end may have written anything.
    const isWritten = this.#sync.isWritten && this.#sync.taken === undefined;
    this.#sync = { taken: this.#received, hasBegun: true, isWritten };
    this.pending.syncBegan();
  }

  syncEnded({ hasWritten, without, why }: WrittenChanges): void {
    const { taken } = this.#sync;
    if (taken === undefined) return;
    const now = this.#options.now();
    const isTooMuch = without.size > MAX_BEHIND;
    const isWritten = hasWritten && !isTooMuch;
    this.#sync = { taken: undefined, hasBegun: true, isWritten };
    if (isWritten) {
      this.pending.written(without);
      this.lags.written(without, now);
      // Later changes were none for the kernel, or there would be something to take.
      const isSettled = !this.#options.hasChanges();
      if (isSettled) this.pending.settled();
      this.#move(isSettled ? this.#received : taken, false);
    } else {
      this.pending.notWritten();
      this.lags.notWritten(isTooMuch ? tooMany(without) : why, now);
    }
    this.#onChange();
  }

  /**
   * Whether a version of a kind is in the kernel: by the mark, or because it is that of the object itself. `object`: its version
   * there. `service`: the Service that it is or belongs to, where that is known.
   */
  hasVersion(of: MarkedKind, version: string, object: string, service: ServiceKey | undefined): boolean {
    const mark = this.#marks[of];
    if (mark === '') return false;
    if (hasReached(object, version)) return true;
    return hasReached(mark, version) && (service === undefined || !this.lags.behind.has(service));
  }

  /**
   * The version of an object that is in the kernel. `service`: that it is or belongs to, where that is known; `received`: the newest
   * version that is known.
   */
  versionOf(of: MarkedKind, key: string, { service, received }: KnownObject): string {
    return this.#marks[of] === '' ? '' : this.pending.programmed(objectName(of, key), service, received);
  }

  #goBack(of: MarkedKind): void {
    const { taken } = this.#sync;
    if (taken !== undefined) this.#sync = { ...this.#sync, taken: { ...taken, [of]: '' } };
    this.history.forgetAll();
    this.pending.forgetVersions((object) => object.startsWith(objectName(of, '')));
    this.#marks = { ...this.#marks, [of]: '' };
    this.history.add({ ...this.#marks, at: this.#options.now() });
    this.#onChange();
  }

  /** Returns whether something moved. */
  #move(marks: Marks, isAtOnce: boolean): boolean {
    if (marks.services === this.#marks.services && marks.slices === this.#marks.slices) return false;
    this.#marks = marks;
    this.history.add({ ...marks, at: this.#options.now() }, isAtOnce);
    return true;
  }
}

function tooMany(without: ReadonlyMap<ServiceKey, string>): string {
  const [first] = without;
  return `the kernel refuses ${without.size} Services, such as ${first?.[0]}: ${first?.[1]}`;
}
