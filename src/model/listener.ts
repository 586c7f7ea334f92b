/** The sockets that programs on this node serve. */
import type { Address } from './address.ts';
import type { Protocol } from './objects.ts';

/** A listening socket. Its address is 0.0.0.0 or :: when it listens on all addresses. */
export interface Listener {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}
