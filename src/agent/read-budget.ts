/** Decides when all rules are read from the kernel: for a periodic resync, and after another program wrote. Limited to a share of the time. */

import type { Clock } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import { MODES } from '../proxy/model/modes.ts';

/** Milliseconds between two resyncs, which compare all rules with the kernel's. */
const RESYNC_MS = 60 * 60 * 1000;
/** Largest share of the time that goes into reading: a program that writes all the time would make the agent read all the time. */
const SHARE = 0.01;

/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does. */
export function firstPeriod({ mode, syncPeriod }: Pick<Config, 'mode' | 'syncPeriod'>): number {
  return MODES[mode].hasCanary ? RESYNC_MS : syncPeriod;
}

export class ReadBudget {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #period: number;
  #begunAt: number;
  /** Milliseconds that a reading of a sync takes: the shorter of the last two, because one may wait for a lock or a busy machine. */
  #took = 0;
  /** Milliseconds of the last reading of any kind. */
  #last = Number.POSITIVE_INFINITY;
  /** When the last check that read the rules ended, and how long one takes, as above. */
  #check = { endedAt: 0, took: 0 };

  constructor(clock: Pick<Clock, 'now'>, config: Pick<Config, 'mode' | 'syncPeriod'>) {
    this.#clock = clock;
    this.#period = firstPeriod(config);
    this.#begunAt = clock.now();
  }

  /** A resync is due. */
  get isDue(): boolean {
    return this.#clock.now() - this.#begunAt >= Math.max(this.#period, this.#took / SHARE);
  }

  /** A check may read the rules now, because another program wrote. */
  get mayRead(): boolean {
    return this.#clock.now() >= this.mayReadAt;
  }

  /** The time from which a check may read the rules. */
  get mayReadAt(): number {
    return this.#check.endedAt + this.#check.took / SHARE;
  }

  /** The next sync reads the kernel. */
  begun(): void {
    this.#begunAt = this.#clock.now();
  }

  /** A sync spent these milliseconds reading. */
  took(milliseconds: number): void {
    this.#took = this.#usual(milliseconds);
  }

  /** A check spent these milliseconds reading. */
  checkTook(milliseconds: number): void {
    this.#check = { endedAt: this.#clock.now(), took: this.#usual(milliseconds) };
  }

  #usual(milliseconds: number): number {
    const usual = Math.min(this.#last, milliseconds);
    this.#last = milliseconds;
    return usual;
  }
}
