/**
 * kube-proxy that runs beside the agent: it writes all of its rules again soon after each change, and each period, in which it finds that its
 * canary is gone, or its servers (pkg/util/iptables, Monitor; pkg/proxy/ipvs, syncPeriod).
 */
import type { ServicePort } from '../../../src/proxy/model/service-port.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import type { SimMode } from '../history/actions.ts';

/** Milliseconds from a change to its write. */
const LAG = 700;
const PERIOD = 30_000;

export interface RunningOptions {
  readonly time: SimTime;
  readonly mode: SimMode;
  /** Those of the newest objects. */
  readonly ports: () => readonly ServicePort[];
  readonly write: (mode: SimMode, ports: readonly ServicePort[]) => void;
}

export class RunningKubeProxy {
  readonly #options: RunningOptions;
  #isOver = false;
  #isDue = false;

  constructor(options: RunningOptions) {
    this.#options = options;
    this.#again();
  }

  /** An object may have changed. */
  stirred(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#options.time.after(LAG, () => this.#write(), NOBODY);
  }

  /** It leaves what it wrote. */
  end(): void {
    this.#isOver = true;
  }

  #again(): void {
    this.#options.time.after(
      PERIOD,
      () => {
        if (this.#isOver) return;
        this.#write();
        this.#again();
      },
      NOBODY,
    );
  }

  #write(): void {
    this.#isDue = false;
    const { mode, ports, write } = this.#options;
    if (!this.#isOver) write(mode, ports());
  }
}
