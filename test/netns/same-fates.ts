/** The engine beside the kernel: it walks the packets of a story through what was read from the kernel that the real ones pass. */
import type { FamilyView } from '../../src/modes/view.ts';
import type { StoryCluster } from '../conformance/cluster.ts';
import type { PacketFate, StoryCase } from '../conformance/story.ts';
import { assertFates, packetOf } from '../conformance/suite.ts';
import { fatesIn } from '../helpers/views.ts';

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
