/**
 * Counters of rules as metrics that only grow: the kernel's begin anew whenever the rule is written, as when the settings change
 * or another program flushed it. What was counted between the last look and that moment is lost.
 */
import type { PacketCount } from '../modes/mode.ts';

export class PacketTotals {
  /** By what is counted and family: the kernel's counter when it was read last, and all that it counted. */
  readonly #seen = new Map<string, { last: number; total: number }>();

  take(counts: readonly PacketCount[]): void {
    for (const { what, family, packets } of counts) {
      const seen = this.#seen.get(`${what} ${family}`) ?? { last: 0, total: 0 };
      const grown = packets >= seen.last ? packets - seen.last : packets;
      this.#seen.set(`${what} ${family}`, { last: packets, total: seen.total + grown });
    }
  }

  /** Of all families. */
  total(of: PacketCount['what']): number {
    let sum = 0;
    for (const [key, { total }] of this.#seen) if (key.startsWith(`${of} `)) sum += total;
    return sum;
  }
}
