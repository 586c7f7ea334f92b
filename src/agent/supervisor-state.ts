/** Notifies the supervisor (systemd, Type=notify-reload) of the agent's state: ready, reloading, alive. */

import { causeOf } from '../base/cause.ts';
import { realClock } from '../base/clock.ts';
import { keepAlive, notifyReloading, notifySupervisor } from '../kernel/process.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';

/** Receiver and message of a notification, as parts of log lines. */
const RELOAD = 'the supervisor of the reload';
const READY = 'the supervisor that the agent is ready';
const WATCHDOG = 'the watchdog of the supervisor';

/** A failed notification causes a warning, and does not stop the agent. */
export class SupervisorState {
  readonly #troubles: TroubleLog;
  #isReady = false;
  /** True after `RELOADING=1`, while the supervisor waits for `READY=1`. */
  #isReloading = false;

  constructor(log: Log) {
    this.#troubles = new TroubleLog({ log, clock: realClock, level: 'warn' });
  }

  /** The first sync is done, so units that need Services may start. Later calls do nothing. */
  async ready(): Promise<void> {
    if (this.#isReady) return;
    this.#isReady = true;
    await this.#notifyReady();
  }

  /** Before the first sync the supervisor waits for `READY=1` anyway, and needs no notification of a reload. */
  async reloadBegins(): Promise<void> {
    if (!this.#isReady) return;
    this.#isReloading = true;
    await this.#notify(RELOAD, notifyReloading());
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
    await this.#notify(READY, notifySupervisor('READY=1', 'STATUS=the rules are in place'));
  }

  async #notify(target: string, notification: Promise<void>): Promise<void> {
    await notification.then(
      () => this.#notified(target),
      (error) => this.#warn(target, error),
    );
  }

  #notified(target: string): void {
    this.#troubles.over({ of: target, text: `could notify ${target} again` });
  }

  #warn(target: string, error: unknown): void {
    const cause = causeOf(error);
    this.#troubles.tell({ of: target, cause, text: `cannot notify ${target}: ${cause}` });
  }
}
