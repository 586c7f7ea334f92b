/** Why changes are not in the kernel: Services that it refused, or a write that failed as a whole. Pure. */
import type { ServiceKey } from '../../proxy/model/objects.ts';

/** Why something is not in the kernel; `since`: milliseconds of the clock that never goes backwards. */
export interface Lag {
  readonly why: string;
  readonly since: number;
}

export class Lags {
  #behind: ReadonlyMap<ServiceKey, Lag> = new Map();
  #stuck: Lag | undefined;

  /** Services of which older versions are in the kernel. Another map when one of them changed. */
  get behind(): ReadonlyMap<ServiceKey, Lag> {
    return this.#behind;
  }

  /** Nothing can be written; undefined: all is well. */
  get stuck(): Lag | undefined {
    return this.#stuck;
  }

  /** All was written but for these Services, each with the reason. */
  written(without: ReadonlyMap<ServiceKey, string>, now: number): void {
    this.#stuck = undefined;
    const before = this.#behind;
    if (without.size === 0 && before.size === 0) return;
    const behind = new Map([...without].map(([service, why]) => [service, lagOf(before.get(service), why, now)]));
    const isSame = behind.size === before.size && [...behind].every(([service, lag]) => before.get(service) === lag);
    if (!isSame) this.#behind = behind;
  }

  /** Nothing was written. */
  notWritten(why: string, now: number): void {
    this.#stuck = lagOf(this.#stuck, why, now);
  }
}

/** The same one where nothing is new; since when it was, where only the reason is. */
function lagOf(before: Lag | undefined, why: string, now: number): Lag {
  return before?.why === why ? before : { why, since: before?.since ?? now };
}
