/**
 * Packet counters of rules as totals that only grow. The kernel's counters start at 0 whenever a rule is written, such as after a change
 * of the settings or a flush by another program; packets between the last reading and that moment are lost.
 */
import { causeOf } from '../base/cause.ts';
import type { PacketCount } from '../proxy/modes/mode.ts';

export class PacketTotals {
  /** By kind and family: the kernel's counter as read last, and the total. */
  readonly #seen = new Map<string, { last: number; total: number }>();

  /** Why the counters cannot be read at present. */
  #failure: string | undefined;

  /** Read the counters. When that fails, the totals stay, and `onFailure` gets each new cause once. */
  async read(counts: () => Promise<readonly PacketCount[]>, onFailure: (cause: string) => void): Promise<void> {
    try {
      this.take(await counts());
      this.#failure = undefined;
    } catch (error) {
      const cause = causeOf(error);
      if (cause !== this.#failure) onFailure(cause);
      this.#failure = cause;
    }
  }

  take(counts: readonly PacketCount[]): void {
    for (const { what, family, packets } of counts) {
      const seen = this.#seen.get(`${what} ${family}`) ?? { last: 0, total: 0 };
      const grown = packets >= seen.last ? packets - seen.last : packets;
      this.#seen.set(`${what} ${family}`, { last: packets, total: seen.total + grown });
    }
  }

  /** The sum over all families. */
  total(of: PacketCount['what']): number {
    let sum = 0;
    for (const [key, { total }] of this.#seen) if (key.startsWith(`${of} `)) sum += total;
    return sum;
  }
}
