/**
 * The life of every change of one source of objects: received, taken by a sync, and then in the kernel or refused. History, marks,
 * latency and health read it here, and nothing else counts changes. A mark is the version up to which all changes are in the kernel.
 * It moves when a sync has written what it took, or at once where there is nothing to write; each change costs the same. A mark never
 * claims a change that the kernel lacks: the Services that the kernel refused are named apart, and a write that failed as a whole
 * moves nothing. Pure; the time comes from a clock.
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

/** Most Services that are named as behind. With more of them the marks stay where they are. */
export const MAX_BEHIND = 1000;
/** Services that the end of a sync names. */
const MAX_NAMED = 10;
const NONE: Marks = { services: '', slices: '' };

/** The name of an object among those of all kinds. */
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

/** The outcome for the changes that a sync took. */
export interface WrittenChanges {
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
  /** The number of the oldest change that is not in the kernel; one more than `upTo` when all are. */
  readonly oldest: number;
}

interface TakenSync {
  /** The versions that it took, and the number of the last change. */
  readonly taken: Marks;
  readonly upTo: number;
  /** What it wrote; undefined while it runs. */
  readonly wrote: WrittenChanges | undefined;
}

export class ChangeLedger {
  readonly history = new MarkHistory();
  /** By number. */
  readonly changes = new PendingChanges();
  /** By object. */
  readonly pending = new PendingObjects();
  readonly lags = new Lags();
  readonly #options: LedgerOptions;
  readonly #numbers: ChangeNumbers;
  readonly #startedAt: number;
  #received: Marks = NONE;
  #marks: Marks = NONE;
  /** The sync that runs, or waits for `confirmed`. */
  #running: TakenSync | undefined;
  /** The number of the last change that a sync took and ended with; undefined before the first sync. */
  #taken: number | undefined;
  /** All that the last sync took was written, but for refused Services. */
  #isWritten = false;
  #onChange: () => void = () => undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#numbers = options.numbers ?? new ChangeNumbers();
    this.#startedAt = options.clock.wall();
  }

  /** Sets the one callback for when marks or lags are other than before. */
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

  /** All changes of a kind up to this version were received; "": the versions went back, and nothing is known of this kind. */
  reached(of: MarkedKind, version: string): void {
    this.#received = { ...this.#received, [of]: version };
    if (version === '') this.#goBack(of);
    else if (this.#running === undefined && this.#isWritten && !this.#options.hasChanges()) {
      this.pending.settled();
      if (this.#move(this.#received, true)) this.#onChange();
    }
  }

  /** An object changed. Returns the number of the change; undefined before the first sync, which takes the initial lists as a whole. */
  changed({ of, key, service, before, isGone, triggeredAt = 0 }: ReceivedChange): number | undefined {
    if (this.#taken === undefined) return undefined;
    const number = this.#numbers.next();
    const trigger = triggeredAt >= this.#startedAt ? triggeredAt : 0;
    this.changes.add({ number, receivedAt: this.#options.clock.now(), triggeredAt: trigger, service });
    if (of === 'node') return number;
    // Until a list is complete after versions went back, what objects had before are other numbers.
    const isKnown = this.#received[of] !== '';
    const programmed = isKnown ? before : '';
    this.pending.changed(objectName(of, key), { service, programmed, isNew: isKnown && before === '', isGone });
    return number;
  }

  /** A sync takes all that was received until now. */
  syncBegan(): void {
    // A sync that had no end may have written anything.
    if (this.#running !== undefined) this.#isWritten = false;
    const upTo = this.#numbers.last;
    this.#taken ??= Math.max(0, upTo - 1);
    this.#running = { taken: this.#received, upTo, wrote: undefined };
    this.pending.syncBegan();
  }

  /** The sync has written, or failed to. The marks move with `confirmed`. Undefined where no sync began. */
  syncEnded(wrote: WrittenChanges): ChangesAtEnd | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    const { upTo } = running;
    const [taken = 0] = [this.#taken];
    const services = this.changes.servicesBetween(taken, upTo, MAX_NAMED);
    this.#taken = upTo;
    this.#running = { ...running, wrote };
    const written = wrote.hasWritten ? this.changes.written(upTo, wrote.without) : [];
    return { ...wrote, upTo, count: upTo - taken, services, written, oldest: this.changes.oldest(upTo + 1) };
  }

  /** All that follows a sync on this node is done, such as the relay of node ports: the marks move. */
  confirmed(): void {
    const { taken, wrote } = this.#running ?? {};
    if (taken === undefined || wrote === undefined) return;
    const { hasWritten, without, why } = wrote;
    const now = this.#options.clock.now();
    const isTooMuch = without.size > MAX_BEHIND;
    this.#isWritten = hasWritten && !isTooMuch;
    this.#running = undefined;
    if (this.#isWritten) {
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
    const running = this.#running;
    if (running !== undefined) this.#running = { ...running, taken: { ...running.taken, [of]: '' } };
    this.history.forgetAll();
    this.pending.forgetVersions((object) => object.startsWith(objectName(of, '')));
    this.#marks = { ...this.#marks, [of]: '' };
    this.history.add({ ...this.#marks, at: this.#options.clock.now() });
    this.#onChange();
  }

  /** Returns whether something moved. */
  #move(marks: Marks, isAtOnce: boolean): boolean {
    if (marks.services === this.#marks.services && marks.slices === this.#marks.slices) return false;
    this.#marks = marks;
    this.history.add({ ...marks, at: this.#options.clock.now() }, isAtOnce);
    return true;
  }
}

function tooMany(without: ReadonlyMap<ServiceKey, string>): string {
  const [first] = without;
  return `the kernel refuses ${without.size} Services, such as ${first?.[0]}: ${first?.[1]}`;
}

/** A failure of the environment, or of a rule that Services share, leaves open which changes were written: then none count. */
export function writtenChanges({ outcome, failed }: Pick<ApplyReport, 'outcome' | 'failed'>): WrittenChanges {
  if (outcome === 'complete') return { hasWritten: true, without: new Map(), why: '' };
  const without = new Map<ServiceKey, string>();
  for (const { blame, owner, key, cause } of failed) {
    if (blame !== 'content' || owner === undefined) return notWritten(failed);
    if (!without.has(owner)) without.set(owner, `the kernel refused ${key}: ${firstLine(cause)}`);
  }
  return failed.length > 0 ? { hasWritten: true, without, why: '' } : notWritten(failed);
}

function notWritten(failed: ApplyReport['failed']): WrittenChanges {
  const [first] = failed.filter(({ blame, owner }) => blame === 'environment' || owner === undefined);
  const why = first === undefined ? 'not all was written' : `${first.key}: ${firstLine(first.cause)}`;
  return { hasWritten: false, without: new Map(), why };
}
