/** Facts of a simulated machine: its families, its addresses, and the ports that its programs serve. */
import type { Machine } from '../../../src/agent/platform.ts';
import { type Address, FAMILIES, type Family, familyOf } from '../../../src/base/address.ts';
import type { ListeningSocket } from '../../../src/kernel/listeners.ts';
import { FactUnknown } from '../../../src/kernel/node-facts.ts';
import type { SimProcess } from '../engine/process.ts';
import { NODE_ADDRESSES } from '../history/objects.ts';
import { fileFailure, socketFailure } from './failures.ts';

/** Things of the kernel that the machine's facts are about. */
export interface MachineParts {
  readonly legacyTables: (family: Family) => readonly string[];
  readonly setNames: () => readonly string[];
  readonly hasServiceDevice: () => boolean;
  readonly hasServiceAddress: (family: Family) => boolean;
}

export class SimMachine {
  readonly families = new Set<Family>(FAMILIES);
  /** Of its devices, without kube-ipvs0 and link-local ones. */
  readonly addresses = new Set<Address>(['127.0.0.1', '::1', ...NODE_ADDRESSES] as Address[]);
  listeners: readonly ListeningSocket[] = [];
  hasIpvs = true;
  mayChangeNetwork = true;
  readonly #parts: MachineParts;

  constructor(parts: MachineParts) {
    this.#parts = parts;
  }

  addressesOf(family: Family): readonly Address[] {
    return [...this.addresses].filter((address) => familyOf(address) === family);
  }

  facts(process: SimProcess): Machine {
    const file = <T>(path: string, effect: () => T) =>
      process.call<T>({
        what: `read ${path}`,
        effect,
        fail: (variant) => {
          throw fileFailure(path, 'open', variant);
        },
      });
    // As kernel/node-facts.ts.
    const fact = <T>(path: string, effect: () => T) =>
      process.call<T>({
        what: `read ${path}`,
        effect,
        mayOutlive: true,
        fail: (variant) => {
          throw new FactUnknown(path, fileFailure(path, 'open', variant).message);
        },
      });
    const bySocket = <T>(what: string, effect: () => T) =>
      process.call({
        what,
        effect,
        fail: (variant) => {
          throw socketFailure(variant);
        },
      });
    return {
      cores: 4,
      kernelRelease: '6.1.0',
      mayChangeNetwork: () => file('/proc/self/status', () => this.mayChangeNetwork),
      families: () => fact('/proc/net/if_inet6', () => FAMILIES.filter((each) => this.families.has(each))),
      legacyTables: (family) => fact(`the legacy tables of ${family}`, () => this.#parts.legacyTables(family)),
      addresses: (family) =>
        process.call({
          what: `addresses of ${family}`,
          effect: () => this.addressesOf(family),
          // Where that of the other family fails, nobody waits for it.
          mayOutlive: true,
          fail: (variant) => {
            throw socketFailure(variant);
          },
        }),
      listeners: () => file('/proc/net/tcp', () => this.listeners),
      hasIpvs: () => fact('/proc/net/ip_vs', () => this.hasIpvs),
      setNames: () => bySocket('list the names of sets', this.#parts.setNames),
      hasServiceDevice: () => bySocket('look for kube-ipvs0', this.#parts.hasServiceDevice),
      hasServiceAddress: (families) =>
        bySocket('look for addresses on kube-ipvs0', () => families.some(this.#parts.hasServiceAddress)),
    };
  }
}
