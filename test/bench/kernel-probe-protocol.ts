/** What is asked of the probe inside the namespace (`kernel-probe-inside.ts`), and what it tells. */
import type { Protocol } from '../../src/base/address.ts';

/** An endpoint that is waited for. */
export interface Awaited {
  readonly address: string;
  /** The virtual server to which it will belong: IPVS only. */
  readonly server?: { readonly protocol: Protocol; readonly address: string; readonly port: number };
}

/** Wait for these instead of whatever was waited for; nothing: listen no more. Answered once the kernel is listened to. */
export interface ProbeCommand {
  readonly awaited: readonly Awaited[];
}

export type ProbeTold =
  /** Nanoseconds of the monotonic clock when it was seen in the kernel for the first time. */
  | { readonly address: string; readonly at: number }
  /** The kernel had more to tell than there was room for: addresses may have been missed. */
  | { readonly lost: true };
