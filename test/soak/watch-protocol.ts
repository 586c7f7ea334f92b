/** What is asked of the watch over the agent (`watch-inside.ts`) by its parent. */

export interface WatchCommand {
  readonly kind: 'scrape' | 'count' | 'mode';
}

export interface WatchAnswer {
  /** Of /metrics; undefined: not asked for, or no answer. */
  readonly metrics: string | undefined;
  /** Of /proxyMode; undefined in the same way. */
  readonly mode: string | undefined;
  /** Entries of the namespace's connection table. */
  readonly connections: number;
  /** Milliseconds: the longest time without a 200 of /healthz, after the first; and the sum of such times. */
  readonly longestUnhealthy: number;
  readonly unhealthy: number;
}
