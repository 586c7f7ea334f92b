/** What is asked of the benchmark's API server (`server.ts`) by its parent (`server-process.ts`). */

export type ServerCommand =
  /** Said once all objects are there and the server listens. */
  | { readonly kind: 'ready' }
  /** Replace the last endpoint of the n-th Service. */
  | { readonly kind: 'put'; readonly n: number; readonly turn: number }
  | ({ readonly kind: 'churn' } & Churn);

export interface Churn {
  readonly perSecond: number;
  readonly seconds: number;
  /** Of the first round (`churnStep`): none that was used before. */
  readonly turn: number;
}

/** A slice that was changed. */
export interface SliceChange {
  readonly n: number;
  /** The new address: its last endpoint's. */
  readonly address: string;
  /** Nanoseconds of the monotonic clock, the same for all processes, just before it was sent to the watches. */
  readonly at: number;
}

/** What a client needs to know of the server, and what the command changed. */
export interface ServerAnswer {
  readonly kubeconfig: string;
  readonly changes: readonly SliceChange[];
}
