/** How the sets of the table belong together, for `nft-table/`. */

import { addressWidth, type Family } from '../../../base/address.ts';
import type { NftSet } from '../../../kernel/nftables-kernel.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { isKnownSet, SETS, setNamed } from './names.ts';

export const LAYOUT: TableLayout = {
  sets: Object.values<NftSet>(SETS),
  setNamed: (name) => (isKnownSet(name) ? setNamed(name) : undefined),
  // Packets of an endpoint to itself are masqueraded some time after they were translated.
  lasting: [SETS.hairpin],
  neededFirst: [SETS.hairpin, SETS.nodePortAddresses],
  afterFrontend: new Map<NftSet, (family: Family) => number>([
    [SETS.services, () => 0],
    [SETS.serviceConnections, () => 0],
    [SETS.nodePortConnections, () => 0],
    [SETS.refusals, () => 0],
    [SETS.guarded, () => 0],
    [SETS.endpoints, () => 4],
    [SETS.sourceRanges, (family) => addressWidth(family) / 8],
    [SETS.nodePorts, () => 0],
    [SETS.nodePortRefusals, () => 0],
    [SETS.nodePortEndpoints, () => 4],
  ]),
};
