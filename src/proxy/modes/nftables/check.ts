/** The writes that a kernel must accept for nftables mode: one of each kind that the mode makes. Pure. */
import { addressWidth, portBytes } from '../../../base/address.ts';
import type { NftSet, NftWrite } from '../../../kernel/nftables-kernel.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import { NOTHING_SET_ASIDE } from '../mode.ts';
import { numberWord, portWord, protocolByte, protocolWord } from '../nft-table/element-bytes.ts';
import type { NftChain, OwnedElement } from '../nft-table/layout.ts';
import { planTable } from '../nft-table/plan.ts';
import { balancerChain, stickyEndpoint } from './balancers.ts';
import { type NftablesSettings, skeleton } from './chains.ts';
import { LAYOUT, memorySet, permanentSets, SETS } from './table-layout.ts';

const NONE = new Map<string, never>();

/** The skeleton, a balancing chain, a chain with affinity, and elements of every kind. */
export function oneOfEverything(settings: NftablesSettings): readonly NftWrite[] {
  const { family, countsConnections } = settings;
  const [memory, balancer] = [memorySet('check'), 'cluster-ip-of-2'];
  const target = { address: '\0'.repeat(addressWidth(family) / 8), port: portWord(1) };
  const chains = new Map<string, NftChain>([
    ...skeleton(settings),
    [balancer, balancerChain({ entry: 'cluster-ip', isLocal: false, masquerades: false, endpoints: 2 }, settings)],
    [
      'endpoint-check',
      stickyEndpoint(memory.name, 1, { address: target.address, protocol: protocolByte('TCP'), port: portBytes(1) }),
    ],
  ]);
  const sets = new Map<string, NftSet>([...permanentSets(countsConnections), memory].map((set) => [set.name, set]));
  const key = target.address + protocolWord('TCP') + target.port;
  const made = <T>(create: ReadonlyMap<string, T>) => ({ create, update: NONE, remove: NONE });
  const elements: (readonly [NftSet, Delta<string, OwnedElement>])[] = [];
  const element = (set: NftSet, of: Omit<OwnedElement, 'owner'>) =>
    elements.push([set, made(new Map([[of.key, { ...of, owner: undefined }]]))]);
  element(SETS.services, { key, end: '', data: `goto ${balancer}` });
  if (countsConnections) element(SETS.serviceConnections, { key, end: '', data: '', isCounted: true });
  element(SETS.endpoints, { key: key + numberWord(0), end: '', data: target.address + target.port });
  element(SETS.sourceRanges, { key: key + target.address, end: key + target.address, data: '' });
  const plan = planTable(
    {
      family,
      layout: LAYOUT,
      hasTable: false,
      chains: made(chains),
      sets: made(sets),
      elements,
    },
    NOTHING_SET_ASIDE,
  );
  return plan.transactions.flatMap(({ writes }) => writes);
}
