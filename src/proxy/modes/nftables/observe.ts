/** Frontends from the elements of a table. Pure. */

import type { Protocol } from '../../../base/address.ts';
import { type Address, addressWidth, type Family } from '../../../base/address.ts';
import type { Latin1Bytes, NftElement, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { protocolOf } from '../nft-table/element-bytes.ts';
import { addressOf } from '../nft-table/print.ts';
import { SETS } from './names.ts';

/** The UDP frontends that the table translates. */
export function udpFrontendsIn(
  family: Family,
  elementsOf: (set: NftSet) => Iterable<Pick<NftElement, 'key'>>,
): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const set of [SETS.services, SETS.nodePorts]) {
    for (const { key } of elementsOf(set)) {
      if (protocolOf(key.charCodeAt(addressLength(set, family))) !== 'UDP') continue;
      const { address, port } = frontendOf(set, key, family);
      found.push({ family, address, port });
    }
  }
  return found;
}

/** Length in bytes of the address at the start of a key; 0 if the key has none. */
function addressLength(set: NftSet, family: Family): number {
  return set.key[0] === 'address' ? addressWidth(family) / 8 : 0;
}

/** The frontend of a key in `services`, `node-ports`, or a set with the same keys. */
export function frontendOf(
  set: NftSet,
  key: Latin1Bytes,
  family: Family,
): { readonly address: Address | undefined; readonly protocol: Protocol | undefined; readonly port: number } {
  const width = addressLength(set, family);
  return {
    address: width === 0 ? undefined : addressOf(key.slice(0, width)),
    protocol: protocolOf(key.charCodeAt(width)),
    port: key.charCodeAt(width + 4) * 256 + key.charCodeAt(width + 5),
  };
}
