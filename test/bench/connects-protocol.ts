/** What is asked of the client (`connects-inside.ts`) and of the sink (`sink-inside.ts`). */

export interface Target {
  /** IPv4. */
  readonly address: string;
  readonly port: number;
}

export interface ConnectCommand {
  /** Connected to in turn. */
  readonly targets: readonly Target[];
  readonly seconds: number;
  /** Connections a second, evenly in time; without it each follows the last at once. */
  readonly perSecond?: number;
  /** End with the first connection that comes to be. */
  readonly untilFirst?: boolean;
  /** Milliseconds until a connection is given up. */
  readonly timeout: number;
}

/** Why a connection came not to be. `unreachable`: ICMP said so. */
export type Failure = 'refused' | 'reset' | 'timed out' | 'unreachable' | 'other';

export interface ConnectAnswer {
  /** Microseconds that each connection took that came to be, in their order. */
  readonly times: readonly number[];
  readonly failures: Readonly<Record<Failure, number>>;
  /** When the first connection stood, in nanoseconds of the monotonic clock. */
  readonly firstAt: number | undefined;
  /** The first of the failures. Nanoseconds of the monotonic clock. */
  readonly first: readonly { readonly at: number; readonly failure: Failure; readonly address: string }[];
}

/** `count`: how often was each address connected to since the last time this was asked? */
export interface SinkCommand {
  readonly kind: 'ready' | 'count';
}

/** Connections by local address. */
export type SinkAnswer = Readonly<Record<string, number>>;
