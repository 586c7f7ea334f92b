/** Follows the changes of Services until another proxy has written them, and measures how long that takes. Pure. */
import { Latencies } from '../base/latencies.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';

/** Services that are followed at once. A change beyond them is not measured. */
export const MAX_FOLLOWED = 10_000;

interface Followed {
  readonly receivedAt: number;
  /** The commit that may have the change. */
  readonly writtenAt: number | undefined;
}

export class Programming {
  /** Milliseconds from a change received to the commit that has it. */
  readonly latencies = new Latencies();
  readonly #followed = new Map<ServiceKey, Followed>();
  readonly #onMeasured: (milliseconds: number) => void;
  #unmeasured = 0;

  /** `onMeasured` receives each latency. All times are of one clock, in milliseconds. */
  constructor(onMeasured: (milliseconds: number) => void = () => undefined) {
    this.#onMeasured = onMeasured;
  }

  /** Changes whose Service changed again before they were written, those beyond the limit, and those that were left out. */
  get unmeasured(): number {
    return this.#unmeasured;
  }

  get services(): ReadonlySet<ServiceKey> {
    return new Set(this.#followed.keys());
  }

  /** When the oldest of the changes was received; undefined for none. */
  get oldest(): number | undefined {
    let oldest: number | undefined;
    for (const { receivedAt } of this.#followed.values()) oldest = Math.min(oldest ?? receivedAt, receivedAt);
    return oldest;
  }

  /** When the change of a Service was received that is not written; undefined for none. */
  receivedAt(service: ServiceKey): number | undefined {
    return this.#followed.get(service)?.receivedAt;
  }

  /** A change that other rules must follow was received. */
  changed(service: ServiceKey, receivedAt: number): void {
    if (this.#followed.delete(service) || this.#followed.size >= MAX_FOLLOWED) this.#unmeasured += 1;
    if (this.#followed.size < MAX_FOLLOWED) this.#followed.set(service, { receivedAt, writtenAt: undefined });
  }

  /** The other proxy committed, and the commit may have the changes of the Services that `mayHave` admits. */
  committed(at: number, mayHave: (service: ServiceKey) => boolean): void {
    for (const [service, { receivedAt, writtenAt }] of this.#followed) {
      if (writtenAt === undefined && receivedAt <= at && mayHave(service))
        this.#followed.set(service, { receivedAt, writtenAt: at });
    }
  }

  /** The Services whose change a commit may have. */
  *candidates(): Generator<ServiceKey> {
    for (const [service, { writtenAt }] of this.#followed) if (writtenAt !== undefined) yield service;
  }

  /** The rules of a Service do what its objects ask for: the commit had the change. */
  written(service: ServiceKey): void {
    const { receivedAt, writtenAt } = this.#followed.get(service) ?? {};
    if (receivedAt === undefined || writtenAt === undefined) return;
    this.#followed.delete(service);
    this.latencies.add(writtenAt, writtenAt - receivedAt);
    this.#onMeasured(writtenAt - receivedAt);
  }

  /** The commit did not have the change: a later one will. */
  notWritten(service: ServiceKey): void {
    const followed = this.#followed.get(service);
    if (followed !== undefined) this.#followed.set(service, { ...followed, writtenAt: undefined });
  }

  /** Whether the commit had the change is not looked for. */
  leaveOut(service: ServiceKey): void {
    if (this.#followed.delete(service)) this.#unmeasured += 1;
  }

  /** A change is not followed any more, because its Service counts as different. */
  giveUp(service: ServiceKey): void {
    this.#followed.delete(service);
  }
}
