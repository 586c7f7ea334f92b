/**
 * Notes endpoints that are gone (`--reset-gone`, docs/traffic.md, k8s#100698). An established connection to such an endpoint hangs until its
 * client has tried again for a quarter of an hour (`tcp_retries2` of ip-sysctl.rst), so it is ended.
 *
 * An endpoint is gone when it was terminating, or was on a Node that does not answer, and is in no slice of any Service. A Pod that lives and
 * lost its label vanishes from its slices without having been terminating, so it is never gone. Pure.
 */
import type { Address } from '../../base/address.ts';
import type { Endpoint, ServiceKey, Slice } from './objects.ts';

/** A former endpoint of TCP. */
export interface GoneEndpoint {
  readonly service: ServiceKey;
  readonly address: Address;
  readonly port: number;
}

export class GoneEndpoints {
  readonly #isSuspect: (nodeName: string) => boolean;
  /** The number of slices that have an address. */
  readonly #holders = new Map<Address, number>();
  /** Ended endpoints whose address another slice still has. */
  readonly #leaving = new Map<Address, readonly GoneEndpoint[]>();
  /** Those that nobody has taken. */
  readonly #gone = new Map<Address, readonly GoneEndpoint[]>();

  /** `slices`: all of them at the beginning. `isSuspect`: whether a Node does not answer. */
  constructor(slices: Iterable<Slice>, isSuspect: (nodeName: string) => boolean) {
    this.#isSuspect = isSuspect;
    for (const slice of slices) for (const address of addressesOf(slice).keys()) this.#hold(address, 1);
  }

  /** Takes the change of a slice; undefined for none. */
  changed(before: Slice | undefined, now: Slice | undefined): void {
    const [former, present] = [addressesOf(before), addressesOf(now)];
    for (const address of present.keys()) {
      if (former.has(address)) continue;
      this.#hold(address, 1);
      // Another Pod may have the address now.
      this.#leaving.delete(address);
      this.#gone.delete(address);
    }
    for (const [address, endpoint] of former) {
      if (present.has(address) || before === undefined) continue;
      if (this.#isEnded(endpoint)) this.#leave(address, before);
      if (this.#hold(address, -1) === 0) this.#vanish(address);
    }
  }

  /** Those that are gone since the last call. */
  take(): readonly GoneEndpoint[] {
    if (this.#gone.size === 0) return [];
    const taken = [...this.#gone.values()].flat();
    this.#gone.clear();
    return taken;
  }

  #isEnded({ terminating, nodeName }: Endpoint): boolean {
    return terminating || (nodeName !== '' && this.#isSuspect(nodeName));
  }

  #leave(address: Address, { service, ports }: Slice): void {
    const ended = ports
      .filter(({ protocol }) => protocol === 'TCP')
      .map(({ port }): GoneEndpoint => ({ service, address, port }));
    if (ended.length > 0) this.#leaving.set(address, [...(this.#leaving.get(address) ?? []), ...ended]);
  }

  /** No slice has the address any more. */
  #vanish(address: Address): void {
    const ended = this.#leaving.get(address);
    this.#leaving.delete(address);
    if (ended !== undefined) this.#gone.set(address, ended);
  }

  /** Counts a slice that has the address, or has it no more. Returns the number of those that have it. */
  #hold(address: Address, by: 1 | -1): number {
    const holders = (this.#holders.get(address) ?? 0) + by;
    if (holders > 0) this.#holders.set(address, holders);
    else this.#holders.delete(address);
    return holders;
  }
}

/** The endpoints of a slice by their address. An address that is there twice has ended only where both entries have. */
function addressesOf(slice: Slice | undefined): ReadonlyMap<Address, Endpoint> {
  const found = new Map<Address, Endpoint>();
  for (const endpoint of slice?.endpoints ?? []) {
    if (found.get(endpoint.address)?.terminating !== false) found.set(endpoint.address, endpoint);
  }
  return found;
}
