/** The forms that the two sides of floods.test.ts share. */
export type Process = 'agent' | 'controller' | 'fleet';

export const HEALTH_CHECK_PORT = 32_100;

/** One measurement, which ends with SIGUSR2. */
export interface Measurement {
  readonly process: Process;
  /** Meanwhile the node's own address asks with a valid token of this audience, another one each time. */
  readonly audience?: string;
}

/** Valid tokens that are sent while one measurement lasts. */
export const MAX_VALID = 3;

export interface FloodReport {
  /** Kilobytes of anonymous memory before the flood, and the most during it. */
  readonly before: number;
  readonly most: number;
  /** Milliseconds of processor that the longest round of the event loop took; 0: none took long. */
  readonly held: number;
  /** Milliseconds of the slowest answer of /livez to the node itself. */
  readonly slowest: number;
  readonly probes: number;
  readonly failures: readonly string[];
  /** Statuses of the answers to valid tokens. */
  readonly admissions: readonly number[];
  /** Tokens that the API server was asked about. */
  readonly reviews: number;
  /** Growth of slicewire_http_clients_turned_away_total by `ADDRESS REASON`. */
  readonly turnedAway: Readonly<Record<string, number>>;
  /** Lines of the log that name an address. */
  readonly warnings: readonly string[];
}
