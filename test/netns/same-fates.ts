/** The engine beside the kernel: it walks the packets of a story through what was read from the kernel that the real ones pass. */
import assert from 'node:assert/strict';
import type { Family } from '../../src/base/address.ts';
import type { FamilyView } from '../../src/proxy/modes/view.ts';
import type { StoryCluster } from '../conformance/cluster.ts';
import type { PacketFate, StoryCase } from '../conformance/story.ts';
import { assertFates, packetOf } from '../conformance/suite.ts';
import { fatesIn } from '../helpers/inspect/explain/views.ts';
import { NEVER, type Rig } from '../helpers/proxy/rig.ts';

/**
 * What the mode of a rig has in the kernel, read now as the agent reads it. `verify` finds nothing there, whoever loaded it; in the
 * emulated machine of IPVS mode a second reading of every state would take minutes.
 */
export async function viewOf(rig: Rig, family: Family): Promise<FamilyView> {
  if (rig.mode.name !== 'ipvs') {
    const { differences } = await rig.mode.inspection.compare(NEVER);
    assert.deepEqual(
      differences.filter(({ because }) => because !== 'waits for connections to end'),
      [],
    );
  }
  const views = await rig.mode.inspection.read(NEVER);
  return views.find((view) => view.family === family) ?? assert.fail(`nothing was read of ${family}`);
}

/** Throws an AssertionError when the engine tells another fate than the one that is meant, which real packets must meet as well. */
export function assertSameFates(
  view: FamilyView,
  { story, meant, w }: { readonly story: StoryCase; readonly meant: readonly PacketFate[]; readonly w: StoryCluster },
): void {
  const localAddresses = new Set([...w.local, ...(story.nodeHas ?? [])]);
  for (const fate of meant) {
    assertFates(fatesIn(view, packetOf(fate.packet, w), { localAddresses, remembered: new Set() }), fate, w);
  }
}
