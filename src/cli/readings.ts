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
  /** Milliseconds that the last one took. */
  #took = 0;

  constructor(clock: Pick<Clock, 'now'>, config: Pick<Config, 'mode' | 'syncPeriod'>) {
    this.#clock = clock;
    this.#period = firstPeriod(config);
    this.#begunAt = clock.now();
  }

  /** It is to be read, though nobody asks. */
  get isDue(): boolean {
    return this.#age >= Math.max(this.#period, this.#took / SHARE);
  }

  /** It may be read: somebody has a reason. */
  get mayRead(): boolean {
    return this.#age >= this.#took / SHARE;
  }

  get #age(): number {
    return this.#clock.now() - this.#begunAt;
  }

  begun(): void {
    this.#begunAt = this.#clock.now();
  }

  took(milliseconds: number): void {
    this.#took = milliseconds;
  }
}
