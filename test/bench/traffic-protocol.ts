/** What is asked of the two ends of the traffic: `traffic-inside.ts` (the client) and `traffic-sink-inside.ts` (all pods). */
import type { Target } from './connects-protocol.ts';

export interface TrafficCommand {
  /** `connects`: one connection after another. `stream`: one connection, as many bytes as it takes. */
  readonly kind: 'connects' | 'stream';
  readonly target: Target;
  readonly seconds: number;
}

export interface TrafficAnswer {
  /** Connections that stood, or bytes that the kernel took. */
  readonly count: number;
  readonly seconds: number;
  /** Microseconds of processor time of this process: the kernel's work for its calls is in it. */
  readonly processor: number;
}

/** What becomes of connections from now on; answered with the microseconds of processor time of the process so far. */
export interface TrafficSinkCommand {
  readonly kind: 'close' | 'read';
}

export interface TrafficSinkAnswer {
  readonly processor: number;
}
