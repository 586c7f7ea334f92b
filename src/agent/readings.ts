/** When the kernel is read whole: as a resync that nobody asks for, and when another program wrote. Bounded by the time that it takes. */
import type { Config } from '../config/config.ts';
import type { Clock } from '../host/clock.ts';

/** Without any request the state is compared with the kernel's this often. */
const RESYNC = 60 * 60 * 1000;
/** The most of the time that goes into reading: a neighbour that writes all the time would have us read all the time. */
const SHARE = 0.01;

/** IPVS has no rule whose absence shows that all was flushed: it is read every syncPeriod, as kube-proxy does. */
export function firstPeriod({ mode, syncPeriod }: Pick<Config, 'mode' | 'syncPeriod'>): number {
  return mode === 'ipvs' ? syncPeriod : RESYNC;
}

export class Readings {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #period: number;
  #begunAt: number;
  /** Milliseconds that the last reading of a sync took. */
  #took = 0;
  /** When the last look that read ended, and how long it took: none, at first. */
  #look = { endedAt: 0, took: 0 };

  constructor(clock: Pick<Clock, 'now'>, config: Pick<Config, 'mode' | 'syncPeriod'>) {
    this.#clock = clock;
    this.#period = firstPeriod(config);
    this.#begunAt = clock.now();
  }

  /** It is to be read, though nobody asks. */
  get isDue(): boolean {
    return this.#clock.now() - this.#begunAt >= Math.max(this.#period, this.#took / SHARE);
  }

  /** A look may read: another program wrote. */
  get mayRead(): boolean {
    return this.#clock.now() - this.#look.endedAt >= this.#look.took / SHARE;
  }

  /** A sync will read. */
  begun(): void {
    this.#begunAt = this.#clock.now();
  }

  /** A sync read for so many milliseconds. */
  took(milliseconds: number): void {
    this.#took = milliseconds;
  }

  /** A look read for so many milliseconds. */
  looked(milliseconds: number): void {
    this.#look = { endedAt: this.#clock.now(), took: milliseconds };
  }
}
