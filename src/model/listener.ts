/** What programs on this machine serve. */
import type { Address } from './address.ts';
import type { Protocol } from './objects.ts';

/** A socket that takes what is sent to its port; of all addresses when its own is 0.0.0.0 or ::. */
export interface Listener {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}
