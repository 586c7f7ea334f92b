/** The state of the agent as its supervisor (systemd, Type=notify-reload) hears it: ready, reloading, alive. */

import { causeOf } from '../base/cause.ts';
import { realClock } from '../base/clock.ts';
import { keepAlive, notifyReloading, notifySupervisor } from '../kernel/process.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';

/** The supervisor and its message, as parts of lines of the log. */
const RELOAD = 'the supervisor of the reload';
const READY = 'the supervisor that the agent is ready';
const WATCHDOG = 'the watchdog of the supervisor';

/** A notification that fails is a warning, and no reason to stop. */
export class SupervisorState {
  readonly #troubles: TroubleLog;
  #isReady = false;
  /** `RELOADING=1` was sent; the supervisor waits for `READY=1`. */
  #isReloading = false;

  constructor(log: Log) {
    this.#troubles = new TroubleLog({ log, clock: realClock, level: 'warn' });
  }

  /** The first sync is done: units that need Services may start. Later calls do nothing. */
  async ready(): Promise<void> {
    if (this.#isReady) return;
    this.#isReady = true;
    await this.#notifyReady();
  }

  /** Until the first sync the supervisor waits for `READY=1` anyway, and hears of no reload. */
  async reloadBegins(): Promise<void> {
    if (!this.#isReady) return;
    this.#isReloading = true;
    await this.#told(RELOAD, notifyReloading());
  }

  async reloadEnded(): Promise<void> {
    if (!this.#isReloading) return;
    this.#isReloading = false;
    await this.#notifyReady();
  }

  /** Feed the watchdog until the signal aborts. */
  async keepAlive(signal: AbortSignal): Promise<void> {
    await keepAlive(
      signal,
      (error) => this.#warn(WATCHDOG, error),
      () => this.#notified(WATCHDOG),
    );
  }

  async #notifyReady(): Promise<void> {
    await this.#told(READY, notifySupervisor('READY=1', 'STATUS=the rules are in place'));
  }

  async #told(whom: string, notification: Promise<void>): Promise<void> {
    await notification.then(
      () => this.#notified(whom),
      (error) => this.#warn(whom, error),
    );
  }

  #notified(whom: string): void {
    this.#troubles.over({ of: whom, text: `could notify ${whom} again` });
  }

  #warn(whom: string, error: unknown): void {
    const cause = causeOf(error);
    this.#troubles.tell({ of: whom, cause, text: `cannot notify ${whom}: ${cause}` });
  }
}
