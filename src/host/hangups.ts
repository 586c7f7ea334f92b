/** SIGHUP: what goes on in the background takes it as a wish to read its configuration again (daemon(7)); anything else lost its terminal, and ends. */
export class Hangups {
  #onHangup: () => void;

  /** `otherwise`: called while nothing listens. */
  constructor(otherwise: () => void) {
    this.#onHangup = otherwise;
  }

  /** Call this from now on. */
  listen(onHangup: () => void): void {
    this.#onHangup = onHangup;
  }

  /** The signal came. */
  received(): void {
    this.#onHangup();
  }
}
