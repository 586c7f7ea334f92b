/** SIGHUP: a daemon reads its configuration again (daemon(7)); any other command has lost its terminal, and ends. */
export class Hangups {
  #onHangup: () => void;

  /** `otherwise` is called while nothing listens. */
  constructor(otherwise: () => void) {
    this.#onHangup = otherwise;
  }

  /** From now on SIGHUP calls `onHangup`. */
  listen(onHangup: () => void): void {
    this.#onHangup = onHangup;
  }

  /** The process received SIGHUP. */
  received(): void {
    this.#onHangup();
  }
}
