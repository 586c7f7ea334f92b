/** A question about packets, and the names of the table that traces them and of its chains. */
import type { Address, Family, Protocol } from '../base/address.ts';

export const TRACE_TABLE = 'slicewire-trace';
/** Chains that begin a trace: before conntrack and before every table of others that could drop the packet unseen. */
export const BEGINNINGS = { prerouting: 'coming', output: 'sending' } as const;
/** Chains that see what became of the packet: behind every other table. */
export const ENDS = { input: 'arriving', postrouting: 'leaving' } as const;

/** Numbers of IANA. */
export const NUMBERS: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** Packets to one destination. */
export interface TraceQuestion {
  readonly family: Family;
  /** undefined for any */
  readonly source: Address | undefined;
  /** The place where they enter this network namespace: its own programs, or a device; undefined for both. */
  readonly origin?: 'node' | 'network' | undefined;
  readonly destination: Address;
  readonly protocol: Protocol;
  readonly port: number;
}
