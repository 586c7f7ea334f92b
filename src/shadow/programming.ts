/**
 * Follows the changes of Services until another proxy has written them. Each change is awaited for a while, in which rules that do not follow it
 * are no difference. Of those that can be, the time until they are written is measured. Pure: all times are of one clock, in milliseconds.
 */
import { Latencies } from '../base/latencies.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';

/** Commits within so many milliseconds are those of one sync, which has one for each family. The last one counts. */
const OF_ONE_SYNC_MS = 100;
/** A change that the other proxy has not written after so long is a difference. */
export const LATE_MS = 30_000;

interface Awaited {
  /** When the first change was received that no commit can have. */
  readonly since: number;
  /** When the last change was received. */
  readonly receivedAt: number;
  readonly isMeasured: boolean;
  /** The commit that may have the change; `unclear` after several of them. */
  readonly writtenAt: number | 'unclear' | undefined;
}

export class Programming {
  /** Milliseconds from a change received to the commit that has it. */
  readonly latencies = new Latencies();
  readonly #awaited = new Map<ServiceKey, Awaited>();
  readonly #onMeasured: (milliseconds: number) => void;
  #unmeasured = 0;

  /** `onMeasured` receives each latency. */
  constructor(onMeasured: (milliseconds: number) => void = () => undefined) {
    this.#onMeasured = onMeasured;
  }

  /** Changes whose time was not measured. */
  get unmeasured(): number {
    return this.#unmeasured;
  }

  /** The Services whose time is measured. */
  *measured(): Generator<ServiceKey> {
    for (const [service, { isMeasured }] of this.#awaited) if (isMeasured) yield service;
  }

  /** The Services whose change a commit may have. */
  *candidates(): Generator<ServiceKey> {
    for (const [service, { writtenAt, isMeasured }] of this.#awaited)
      if (isMeasured && writtenAt !== undefined) yield service;
  }

  /** The Services with a change that may not be written, and since when. */
  *awaited(): Generator<readonly [service: ServiceKey, since: number]> {
    for (const [service, { since }] of this.#awaited) yield [service, since];
  }

  /** The number of Services with a change that no commit can have, and when the oldest of these was received. */
  waiting(): { readonly services: number; readonly oldest: number | undefined } {
    let [services, oldest]: [number, number | undefined] = [0, undefined];
    for (const { since, writtenAt } of this.#awaited.values()) {
      if (writtenAt !== undefined) continue;
      services += 1;
      oldest = Math.min(oldest ?? since, since);
    }
    return { services, oldest };
  }

  /** When the last change of a Service was received that is not known to be written; undefined for none. */
  receivedAt(service: ServiceKey): number | undefined {
    return this.#awaited.get(service)?.receivedAt;
  }

  /** Since when a change of a Service is not known to be written; undefined for none. */
  since(service: ServiceKey): number | undefined {
    return this.#awaited.get(service)?.since;
  }

  /** Whether the other proxy may still be about to write a change of the Service. */
  isAwaited(service: ServiceKey, now: number): boolean {
    const since = this.since(service);
    return since !== undefined && now - since < LATE_MS;
  }

  /** A change was received. One before it that was measured counts as unmeasured. */
  changed(service: ServiceKey, receivedAt: number, isMeasured: boolean): void {
    // Changes one after another must not hide that none of them is written.
    const before = this.#awaited.get(service);
    const since = before?.writtenAt === undefined ? (before?.since ?? receivedAt) : receivedAt;
    this.forget(service);
    if (!isMeasured) this.#unmeasured += 1;
    this.#awaited.set(service, { since, receivedAt, isMeasured, writtenAt: undefined });
  }

  /** The other proxy committed, and the commit may have the changes of the Services that `mayHave` admits. */
  committed(at: number, mayHave: (service: ServiceKey) => boolean): void {
    for (const [service, awaited] of this.#awaited) {
      const { receivedAt, writtenAt } = awaited;
      if (receivedAt <= at && mayHave(service))
        this.#awaited.set(service, { ...awaited, writtenAt: isOfOneSync(writtenAt, at) ? at : 'unclear' });
    }
  }

  /** The last commit had the change. The change is not awaited any more. */
  written(service: ServiceKey): void {
    const { receivedAt, writtenAt, isMeasured } = this.#awaited.get(service) ?? {};
    if (receivedAt !== undefined && typeof writtenAt === 'number' && isMeasured === true) {
      this.#awaited.delete(service);
      this.latencies.add(writtenAt, writtenAt - receivedAt);
      this.#onMeasured(writtenAt - receivedAt);
    } else this.forget(service);
  }

  /** The commit did not have the change: a later one will. */
  notWritten(service: ServiceKey): void {
    const awaited = this.#awaited.get(service);
    if (awaited !== undefined) this.#awaited.set(service, { ...awaited, writtenAt: undefined });
  }

  /** The time of the change is not measured. It is awaited all the same. */
  leaveOut(service: ServiceKey): void {
    const awaited = this.#awaited.get(service);
    if (awaited?.isMeasured !== true) return;
    this.#unmeasured += 1;
    this.#awaited.set(service, { ...awaited, isMeasured: false });
  }

  /** The change is not awaited any more: it is written at an unknown time, is late, or its Service is gone. */
  forget(service: ServiceKey): void {
    this.leaveOut(service);
    this.#awaited.delete(service);
  }

  /** Other parts follow the changes from now on. */
  forgetAll(): void {
    for (const service of [...this.#awaited.keys()]) this.forget(service);
  }
}

function isOfOneSync(before: Awaited['writtenAt'], at: number): boolean {
  return before === undefined || (before !== 'unclear' && at - before < OF_ONE_SYNC_MS);
}
