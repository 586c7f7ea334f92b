/** What the elements of a table say. Pure. */
import type { Bytes, NftElement, NftSet } from '../../host/nftables-kernel.ts';
import { type Address, addressWidth, type Family } from '../../model/address.ts';
import type { Protocol } from '../../model/objects.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { protocolOf } from '../nft-table/bytes.ts';
import { addressOf } from '../nft-table/print.ts';
import { SETS } from './names.ts';

/** UDP frontends that are translated. */
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

/** Bytes of the address with which a key of the set begins. */
function addressLength(set: NftSet, family: Family): number {
  return set.key[0] === 'address' ? addressWidth(family) / 8 : 0;
}

/** The frontend whose key this is, in `services`, `node-ports`, or beside them. */
export function frontendOf(
  set: NftSet,
  key: Bytes,
  family: Family,
): { readonly address: Address | undefined; readonly protocol: Protocol | undefined; readonly port: number } {
  const width = addressLength(set, family);
  return {
    address: width === 0 ? undefined : addressOf(key.slice(0, width)),
    protocol: protocolOf(key.charCodeAt(width)),
    port: key.charCodeAt(width + 4) * 256 + key.charCodeAt(width + 5),
  };
}
