/**
 * The life of every change of one source of objects. A change is received (`changed`), a sync takes it (`syncBegan`), and it is then in the
 * kernel, or not yet (`syncEnded`, `confirmed`). History, marks, latency and health read it here, and nothing else counts changes.
 *
 * A mark is the version up to which all changes of a kind are in the kernel. It moves when a sync has written the changes that it took, or
 * at once when a change needs no write. A mark never claims a change that the kernel lacks: `lags` names the Services that the kernel
 * refused, and a write that failed as a whole moves no mark. The cost of a change does not depend on the number of objects.
 *
 * Pure; the time comes from a clock.
 */

import { firstLine } from '../../base/cause.ts';
import type { Clock } from '../../base/clock.ts';
import type { ServiceKey } from '../model/objects.ts';
import { hasReached } from '../model/resource-version.ts';
import type { ApplyReport } from '../reconcile/step.ts';
import { Lags, type MarkedKind, MarkHistory, type Marks } from './marks.ts';
import { ChangeNumbers, type PendingChange, PendingChanges } from './pending-changes.ts';
import { PendingObjects } from './pending-objects.ts';

interface LedgerOptions {
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  /** Whether something was received that no sync has taken yet. */
  readonly hasChanges: () => boolean;
  /** Shared by all sources of the process. */
  readonly numbers?: ChangeNumbers;
}

/** Refused Services that are named as behind. With more of them no mark moves, as after a write that failed as a whole. */
export const MAX_BEHIND = 1000;
/** Services that the end of a sync names. */
const MAX_NAMED = 10;
const NONE: Marks = { services: '', slices: '' };

/** The name of an object in `pendingObjects`, which has objects of both kinds. */
export function objectName(of: MarkedKind, key: string): string {
  return `${of} ${key}`;
}

interface KnownObject {
  readonly service: ServiceKey | undefined;
  readonly received: string;
}

/** The change of a Service, of a slice, or of the Node, which has no mark. */
export interface ReceivedChange {
  readonly of: MarkedKind | 'node';
  readonly key: string;
  /** The Service that the object is, or that it belongs or belonged to; "" for the Node. */
  readonly service: ServiceKey | '';
  /** Its resourceVersion until now; "" for none. */
  readonly before: string;
  /** The object does not exist any more. */
  readonly isGone: boolean;
  /** `PendingChange.triggeredAt` */
  readonly triggeredAt?: number;
}

/** The outcome of a sync for the changes that it took. */
export interface WrittenChanges {
  /** The sync failed as a whole. */
  readonly hasFailed: boolean;
  /** They are in the kernel, but for those of `without`. */
  readonly hasWritten: boolean;
  /** The Services that the kernel refused, each with its answer. */
  readonly without: ReadonlyMap<ServiceKey, string>;
  /** Why nothing was written; "" otherwise. */
  readonly why: string;
}

/** The changes at the end of a sync. */
export interface ChangesAtEnd extends WrittenChanges {
  /** The number of the last change that the sync took. */
  readonly upTo: number;
  /** Changes that no sync took before this one. */
  readonly count: number;
  /** The first Services of these. */
  readonly services: readonly ServiceKey[];
  /** The changes that are in the kernel since this sync, in their order. */
  readonly written: readonly PendingChange[];
  /**
   * `PendingChange.triggeredAt` of the changes that the sync took, for the metric of programming latency; those of a sync that failed as a
   * whole come with the next one that did not. Each comes once, also where the kernel refused the change.
   */
  readonly triggers: readonly number[];
  /** The number of the oldest change that is not in the kernel; one more than `upTo` when all are. */
  readonly oldest: number;
}

interface TakenSync {
  /** The versions that were received when it began. They become the marks when it has written. */
  readonly versions: Marks;
  /** The number of the last change that it took. */
  readonly upTo: number;
  /** Its outcome; undefined while it runs. */
  readonly wrote: WrittenChanges | undefined;
}

export class ChangeLedger {
  /** The marks until now, each with its time: since when a version is in the kernel. */
  readonly markHistory = new MarkHistory();
  /** The changes that are not in the kernel, each with its number and its time: for latency, and for the oldest one. */
  readonly pendingChanges = new PendingChanges();
  /** The objects of these changes, each with the version that the kernel has of it. */
  readonly pendingObjects = new PendingObjects();
  /** Why changes are not in the kernel: those of refused Services, or all of them. */
  readonly lags = new Lags();
  readonly #options: LedgerOptions;
  readonly #numbers: ChangeNumbers;
  readonly #startedAt: number;
  #received: Marks = NONE;
  #marks: Marks = NONE;
  /** The sync that runs, or waits for `confirmed`. */
  #running: TakenSync | undefined;
  /** The number of the last change of the last sync that ended; undefined before the first sync. */
  #lastTaken: number | undefined;
  /** The last sync wrote all changes that it took, except for those of refused Services. */
  #isWritten = false;
  #onChange: () => void = () => undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#numbers = options.numbers ?? new ChangeNumbers();
    this.#startedAt = options.clock.wall();
  }

  /** Sets the one callback, which is called when marks or lags have changed. */
  onChange(call: () => void): void {
    this.#onChange = call;
  }

  get marks(): Marks {
    return this.#marks;
  }

  /** The versions that were received, whether the kernel has them or not. */
  get received(): Marks {
    return this.#received;
  }

  /** All changes of a kind up to this version were received. "" when the versions went back: earlier ones mean nothing any more. */
  reached(of: MarkedKind, version: string): void {
    this.#received = { ...this.#received, [of]: version };
    if (version === '') this.#goBack(of);
    else if (this.#running === undefined && this.#isWritten && !this.#options.hasChanges()) {
      this.pendingObjects.settled();
      if (this.#move(this.#received, true)) this.#onChange();
    }
  }

  /** An object changed. Returns the number of the change; undefined before the first sync, which takes the initial lists as a whole. */
  changed({ of, key, service, before, isGone, triggeredAt = 0 }: ReceivedChange): number | undefined {
    if (this.#lastTaken === undefined) return undefined;
    const number = this.#numbers.next();
    const trigger = triggeredAt >= this.#startedAt ? triggeredAt : 0;
    this.pendingChanges.add({ number, receivedAt: this.#options.clock.now(), triggeredAt: trigger, service });
    if (of === 'node') return number;
    // After versions went back, and until a list is complete, the version that an object had before belongs to other numbers.
    const isKnown = this.#received[of] !== '';
    this.pendingObjects.changed(objectName(of, key), {
      service,
      programmed: isKnown ? before : '',
      isNew: isKnown && before === '',
      isGone,
    });
    return number;
  }

  /** A sync takes all that was received until now. */
  syncBegan(): void {
    // An aborted sync has no end, and may have written some of its changes.
    if (this.#running !== undefined) this.#isWritten = false;
    const upTo = this.#numbers.last;
    // The first sync takes the initial lists as one change.
    this.#lastTaken ??= Math.max(0, upTo - 1);
    this.#running = { versions: this.#received, upTo, wrote: undefined };
    this.pendingObjects.syncBegan();
  }

  /** The sync has written, or failed. The marks move with `confirmed`. Returns undefined when no sync began. */
  syncEnded(wrote: WrittenChanges): ChangesAtEnd | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    const { upTo } = running;
    const taken = this.#lastTaken ?? 0;
    const services = this.pendingChanges.servicesBetween(taken, upTo, MAX_NAMED);
    this.#lastTaken = upTo;
    this.#running = { ...running, wrote };
    const triggers = wrote.hasFailed ? [] : this.pendingChanges.takeTriggers(upTo);
    const written = wrote.hasWritten ? this.pendingChanges.written(upTo, wrote.without) : [];
    return {
      ...wrote,
      upTo,
      count: upTo - taken,
      services,
      triggers,
      written,
      oldest: this.pendingChanges.oldest(upTo + 1),
    };
  }

  /** The steps that follow a sync on this node are done too, such as the relay of node ports: the marks move. */
  confirmed(): void {
    const { versions, wrote } = this.#running ?? {};
    if (versions === undefined || wrote === undefined) return;
    const { hasWritten, without, why } = wrote;
    const now = this.#options.clock.now();
    const isTooMuch = without.size > MAX_BEHIND;
    this.#isWritten = hasWritten && !isTooMuch;
    this.#running = undefined;
    if (this.#isWritten) {
      this.pendingObjects.written(without);
      this.lags.written(without, now);
      // Changes that came during the sync need no write, if no Service waits for the next sync.
      const isSettled = !this.#options.hasChanges();
      if (isSettled) this.pendingObjects.settled();
      this.#move(isSettled ? this.#received : versions, false);
    } else {
      this.pendingObjects.notWritten();
      this.lags.notWritten(isTooMuch ? tooMany(without) : why, now);
    }
    this.#onChange();
  }

  /**
   * Whether a version of an object is in the kernel: its own version there has reached it, or the mark has and its Service is not behind.
   * `object`: the version of the object in the kernel. `service`: the Service that the object is or belongs to, where that is known.
   */
  hasVersion(of: MarkedKind, version: string, object: string, service: ServiceKey | undefined): boolean {
    const mark = this.#marks[of];
    if (mark === '') return false;
    if (hasReached(object, version)) return true;
    return hasReached(mark, version) && (service === undefined || !this.lags.behind.has(service));
  }

  /**
   * The version of an object that is in the kernel; "" when it is not known. `service`: the Service that the object is or belongs to, where
   * that is known. `received`: the newest version that was received.
   */
  versionOf(of: MarkedKind, key: string, { service, received }: KnownObject): string {
    return this.#marks[of] === '' ? '' : this.pendingObjects.programmed(objectName(of, key), service, received);
  }

  #goBack(of: MarkedKind): void {
    const running = this.#running;
    if (running !== undefined) this.#running = { ...running, versions: { ...running.versions, [of]: '' } };
    this.markHistory.forgetAll();
    this.pendingObjects.forgetVersions((object) => object.startsWith(objectName(of, '')));
    this.#marks = { ...this.#marks, [of]: '' };
    this.markHistory.add({ ...this.#marks, at: this.#options.clock.now() });
    this.#onChange();
  }

  /** `isAtOnce`: without a write. Returns whether a mark moved. */
  #move(marks: Marks, isAtOnce: boolean): boolean {
    if (marks.services === this.#marks.services && marks.slices === this.#marks.slices) return false;
    this.#marks = marks;
    this.markHistory.add({ ...marks, at: this.#options.clock.now() }, isAtOnce);
    return true;
  }
}

function tooMany(without: ReadonlyMap<ServiceKey, string>): string {
  const [first] = without;
  return `the kernel refuses ${without.size} Services, such as ${first?.[0]}: ${first?.[1]}`;
}

/**
 * A failure of the environment, or of an object that Services share, leaves open which changes were written: then none count. What waits for a
 * refused Service is not written either.
 */
export function writtenChanges({
  outcome,
  failed,
  skipped,
}: Pick<ApplyReport, 'outcome' | 'failed' | 'skipped'>): WrittenChanges {
  const without = new Map<ServiceKey, string>();
  const hasFailed = outcome === 'failed';
  if (outcome === 'complete') return { hasFailed, hasWritten: true, without, why: '' };
  const unwritten = (why: string) => ({ hasFailed, hasWritten: false, without, why });
  const open = failed.find(({ blame, owner }) => blame === 'environment' || owner === undefined);
  if (open !== undefined) return unwritten(`${open.key}: ${firstLine(open.cause)}`);
  const waits = skipped.find(({ owner }) => owner === undefined);
  if (waits !== undefined) return unwritten(`${waits.key} waits for ${waits.blockedBy}`);
  if (failed.length === 0) return unwritten('not all was written');
  for (const { owner = '', key, cause } of failed)
    if (!without.has(owner)) without.set(owner, `the kernel refused ${key}: ${firstLine(cause)}`);
  for (const { owner = '', key, blockedBy } of skipped)
    if (!without.has(owner)) without.set(owner, `${key} waits for ${blockedBy}`);
  return { hasFailed, hasWritten: true, without, why: '' };
}
