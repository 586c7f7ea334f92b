/** Services whose changes took longest to the last node in the last hour. Pure. */
import type { ServiceKey } from '../proxy/model/objects.ts';

export interface SlowService {
  readonly service: ServiceKey;
  /** From the moment that the fleet saw the change to the moment that the last node had it. */
  readonly milliseconds: number;
  /** When the last node had it, in milliseconds of the clock. */
  readonly at: number;
  /** The last node. */
  readonly node: string;
}

const MINUTE = 60_000;
const MINUTES = 60;
/** Services that are answered, and that are kept of each minute. */
const MOST = 20;

export class SlowestServices {
  /** By minute, the slowest first. */
  readonly #minutes = new Map<number, SlowService[]>();

  add(slow: SlowService): void {
    const minute = Math.floor(slow.at / MINUTE);
    const known = this.#minutes.get(minute);
    if (known === undefined) {
      this.#forget(slow.at);
      this.#minutes.set(minute, [slow]);
      return;
    }
    const last = known.at(-1);
    if (known.length >= MOST && last !== undefined && last.milliseconds >= slow.milliseconds) return;
    const before = known.findIndex(({ service }) => service === slow.service);
    if (before !== -1) {
      if ((known[before]?.milliseconds ?? 0) >= slow.milliseconds) return;
      known.splice(before, 1);
    }
    const place = known.findIndex(({ milliseconds }) => milliseconds < slow.milliseconds);
    known.splice(place === -1 ? known.length : place, 0, slow);
    if (known.length > MOST) known.pop();
  }

  slowest(now: number): readonly SlowService[] {
    this.#forget(now);
    const byService = new Map<ServiceKey, SlowService>();
    for (const slow of [...this.#minutes.values()].flat()) {
      const before = byService.get(slow.service);
      if (before === undefined || before.milliseconds < slow.milliseconds) byService.set(slow.service, slow);
    }
    return [...byService.values()].sort((a, b) => b.milliseconds - a.milliseconds).slice(0, MOST);
  }

  #forget(now: number): void {
    const first = Math.floor(now / MINUTE) - MINUTES + 1;
    for (const minute of this.#minutes.keys()) if (minute < first) this.#minutes.delete(minute);
  }
}
