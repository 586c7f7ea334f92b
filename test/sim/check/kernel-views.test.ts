/** Which of two modes a packet meets first (the priorities of `ip_vs_ops4` in net/netfilter/ipvs/ip_vs_core.c). */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Fate, WalkStep } from '../../../src/inspect/explain/packet.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import { becomeOfWalked } from './kernel-views.ts';

const NFTABLES = { family: 'IPv4' } as FamilyView;
const IPVS = { family: 'IPv4', servers: {} } as unknown as FamilyView;
const BACKEND = '10.244.1.11:8080';

/** The fate of a packet that nftables mode drops in this chain, and that a virtual server would balance. */
function droppedIn(chain: string) {
  const step: WalkStep = {
    table: 'ip slicewire',
    chain,
    rule: 'vmap @refusals',
    effect: { kind: 'drop' },
    share: 1,
    owner: undefined,
  };
  const fate = { masqueraded: false, probability: 1 };
  const ofTable: Fate = { ...fate, kind: 'dropped', backend: '', way: [step] };
  const ofServer: Fate = { ...fate, kind: 'balanced', backend: BACKEND, way: [] };
  return becomeOfWalked(
    [NFTABLES, IPVS],
    [
      { fates: [ofTable], unknown: [], memories: { lists: [], destinations: [] } },
      { fates: [ofServer], unknown: [], memories: { lists: [], destinations: [] } },
    ],
  );
}

it('a packet that comes in is dropped before IPVS sees it, and one that the node sends after that', () => {
  const [comes, goes] = [droppedIn('filter-input'), droppedIn('filter-output')];
  assert.deepEqual([[...comes.backends], comes.isDelivered], [[], false]);
  assert.deepEqual([[...goes.backends], goes.isDelivered], [[BACKEND], false]);
});
