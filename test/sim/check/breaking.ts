/** Breaks on purpose what a mode has in a kernel in memory. IPv4 alone. */

import assert from 'node:assert/strict';
import { type Address, addressBytes } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { CheckedWorld } from './worlds.ts';

/** All Services lose their endpoints. */
export function breakIt({ nft, iptables, ipvs }: CheckedWorld, mode: ModeName): void {
  if (mode === 'nftables') nft.tables.get('IPv4')?.sets.get('services')?.elements.clear();
  for (const [name, chain] of iptables.kernels.IPv4.get('nat') ?? [])
    if (name.startsWith('KUBE-SVC-')) chain.length = 0;
  for (const { destinations } of ipvs.virtual.values()) destinations.clear();
}

/** Every packet that went to one endpoint goes to another. */
export function redirect({ nft, iptables, ipvs }: CheckedWorld, mode: ModeName, from: string, to: string): void {
  if (mode === 'nftables') {
    for (const { elements } of nft.tables.get('IPv4')?.sets.values() ?? assert.fail()) {
      for (const [key, element] of elements) {
        const data = element.data.replace(addressBytes(from as Address), addressBytes(to as Address));
        elements.set(key, { ...element, data });
      }
    }
  }
  for (const chain of iptables.kernels.IPv4.get('nat')?.values() ?? []) {
    for (const [i, rule] of chain.entries())
      chain[i] = rule.replace(`--to-destination ${from}:`, `--to-destination ${to}:`);
  }
  for (const { destinations } of ipvs.virtual.values()) {
    for (const [key, one] of destinations) {
      if (one.address === from) destinations.set(key, { ...one, address: to as Address });
    }
  }
}
