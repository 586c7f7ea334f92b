/** What is asked of the API server of a soak (`server.ts`) by its parent, and what it tells. */

export interface ServerOptions {
  readonly services: number;
  readonly perSecond: number;
  readonly seed: number;
}

export type ServerCommand = { readonly kind: 'ready' | 'begin' | 'end' };

export interface ServerAnswer {
  /** Leads to the server from within its namespace. */
  readonly kubeconfig: string;
  /** Writes so far, and those that came too late to be made: the machine had no time for them. */
  readonly changes: number;
  readonly skipped: number;
  /** Services now. */
  readonly services: number;
}

/** The moving Service has these endpoints from now on. */
export interface Moved {
  /** Milliseconds of the monotonic clock, the same for all processes. */
  readonly at: number;
  readonly endpoints: readonly string[];
}
