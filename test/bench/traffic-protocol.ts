/** What is asked of the two ends of the traffic: `traffic-inside.ts` (the client) and `traffic-sink-inside.ts` (all pods). */

export interface Target {
  /** IPv4. */
  readonly address: string;
  readonly port: number;
}

/**
 * `connects`: one TCP connection after another. `round-trips`: a byte forth and back on one connection, again and again. `stream`: as many
 * bytes as one connection takes. `flows`: one UDP flow after another, a datagram forth and back.
 */
export const TRAFFIC_KINDS = ['connects', 'round-trips', 'stream', 'flows'] as const;
export type TrafficKind = (typeof TRAFFIC_KINDS)[number];

export interface TrafficCommand {
  readonly kind: TrafficKind;
  readonly target: Target;
  readonly seconds: number;
}

export interface TrafficAnswer {
  /** Connections, round trips or flows that came to be, or bytes that the kernel took. */
  readonly count: number;
  readonly seconds: number;
  /** Microseconds of processor time of this process: the kernel's work for its calls is in it. */
  readonly processor: number;
}

/** The sink serves one kind of traffic from now on; it answers with the microseconds of processor time of the process so far. */
export interface TrafficSinkCommand {
  readonly kind: TrafficKind;
}

export interface TrafficSinkAnswer {
  readonly processor: number;
}
