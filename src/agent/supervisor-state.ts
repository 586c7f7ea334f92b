/** The state of the agent as its supervisor (systemd, Type=notify-reload) hears it: ready, reloading, alive. */
import { realClock } from '../host/clock.ts';
import { keepAlive, notifyReloading, notifySupervisor } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import { LastingProblems } from '../model/lasting-problem.ts';
import type { Log } from '../telemetry/log.ts';

/** A notification that fails is a warning, and no reason to stop. */
export class SupervisorState {
  readonly #log: Log;
  readonly #problems = new LastingProblems();
  #isReady = false;
  /** `RELOADING=1` was sent; the supervisor waits for `READY=1`. */
  #isReloading = false;

  constructor(log: Log) {
    this.#log = log;
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
    await notifyReloading().catch((error) => this.#warn('cannot notify the supervisor of the reload', error));
  }

  async reloadEnded(): Promise<void> {
    if (!this.#isReloading) return;
    this.#isReloading = false;
    await this.#notifyReady();
  }

  /** Feed the watchdog until the signal aborts. */
  async keepAlive(signal: AbortSignal): Promise<void> {
    await keepAlive(signal, (error) => this.#warn('cannot notify the watchdog of the supervisor', error));
  }

  async #notifyReady(): Promise<void> {
    try {
      await notifySupervisor('READY=1', 'STATUS=the rules are in place');
    } catch (error) {
      this.#warn('cannot notify the supervisor that the agent is ready', error);
    }
  }

  #warn(text: string, error: unknown): void {
    const cause = causeOf(error);
    const level = this.#problems.met(text, cause, realClock.now()) ? 'warn' : 'v2';
    this.#log[level](`${text}: ${cause}`);
  }
}
