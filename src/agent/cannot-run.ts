/** The agent cannot work on this machine or with what it was given: one line says why. */
export class CannotRun extends Error {
  readonly code = 'CANNOT_RUN';
}
