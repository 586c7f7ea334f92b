/** The forms that the two sides of floods.test.ts share. */
export type Process = 'agent' | 'controller' | 'fleet';

export const HEALTH_CHECK_PORT = 32_100;

export interface FloodReport {
  /** Kilobytes of anonymous memory before the flood, and the most during it. */
  readonly before: number;
  readonly most: number;
  /** Milliseconds of the slowest answer of /livez to the node itself. */
  readonly slowest: number;
  readonly probes: number;
  readonly failures: readonly string[];
  /** Lines of the log that name an address. */
  readonly warnings: readonly string[];
}
