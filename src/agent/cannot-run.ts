/** The agent cannot run on this machine or with this input; the message says why, in one line. */
export class CannotRun extends Error {
  readonly code = 'CANNOT_RUN';
}
