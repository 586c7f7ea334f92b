/** What the elements of a table that was read say. Pure. */
import type { NftElement } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { SETS } from './names.ts';
import { addressOf } from './print.ts';

const UDP = 17;

/** UDP frontends that are translated. */
export function udpFrontendsIn(
  family: Family,
  elements: Iterable<readonly [set: string, element: NftElement]>,
): UdpFrontend[] {
  const width = family === 'IPv4' ? 4 : 16;
  const found: UdpFrontend[] = [];
  const portAt = (key: string, at: number) => key.charCodeAt(at) * 256 + key.charCodeAt(at + 1);
  for (const [set, { key }] of elements) {
    if (set === SETS.services.name && key.charCodeAt(width) === UDP) {
      found.push({ family, address: addressOf(key.slice(0, width)), port: portAt(key, width + 4) });
    } else if (set === SETS.nodePorts.name && key.charCodeAt(0) === UDP) {
      found.push({ family, address: undefined, port: portAt(key, 4) });
    }
  }
  return found;
}
