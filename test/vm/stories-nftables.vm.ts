/** The conformance stories with real packets through nftables mode, both families, on this kernel. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/lab/lab.ts';
import { NFTABLES } from '../conformance/nftables.ts';
import { nftablesUnderTest } from '../netns/nftables-under-test.ts';
import { EMULATED, realStories, storyLab, tellReally } from '../netns/story-packets.ts';

describe('stories with real packets, nftables', () => {
  let lab: Lab;
  let mode: ReturnType<typeof nftablesUnderTest>;
  before(async () => {
    lab = await storyLab();
    mode = nftablesUnderTest(lab, EMULATED);
  });
  after(async () => {
    mode.close();
    await lab.remove();
  });
  for (const { name, story, family } of realStories(NFTABLES)) it(name, () => tellReally(lab, mode, { story, family }));
});
