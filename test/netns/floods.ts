/** The forms that the two sides of floods.test.ts share. */
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';

export type Process = 'agent' | 'controller' | 'fleet';

export const HEALTH_CHECK_PORT = 32_100;

/** One measurement, which ends with SIGUSR2. */
export interface Measurement {
  readonly process: Process;
  /** Valid tokens of this audience are known from now on: `validToken(1)` to `validToken(VALID_TOKENS)`. */
  readonly audience?: string;
}

/** The argument of floods-inside.ts that has the event loops watched. */
export const WATCHED = 'watched';

export const VALID_TOKENS = 5;

/** A valid token in a measurement with this audience. No server has seen it before. */
export function validToken(n: number, audience: string): string {
  return madeToken(`good-${n}`, audience);
}

export interface FloodClientReport {
  readonly made: number;
  /** Connections that were open at the end. */
  readonly open: number;
}

export interface FloodReport {
  /** Kilobytes of anonymous memory before the flood, and the most during it. */
  readonly before: number;
  readonly most: number;
  /** Milliseconds of processor that the longest round of the event loop took; 0: none took long, or it is not watched. */
  readonly held: number;
  /** Milliseconds of the slowest answer of /livez to the node itself. */
  readonly slowest: number;
  readonly probes: number;
  readonly failures: readonly string[];
  /** Tokens that the API server was asked about. */
  readonly reviews: number;
  /** Growth of slicewire_http_clients_turned_away_total by `ADDRESS REASON`. */
  readonly turnedAway: Readonly<Record<string, number>>;
  /** Lines of the log that name an address. */
  readonly warnings: readonly string[];
}
