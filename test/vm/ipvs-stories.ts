/** Declares the tests of conformance stories with real packets through IPVS, for the files that run some of them or all. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { IPVS, ipvsSettingsOf } from '../conformance/ipvs.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { EMULATED, type RealStory, sendStory, storyLab, type TestedMode } from '../netns/story-packets.ts';
import { kernelIn, rigIn, settledSysctls } from './ipvs-under-test.ts';

/** IPVS mode in the node of a lab, over what the story before left. */
export async function ipvsOnNode(lab: Lab): Promise<TestedMode> {
  const [kernel, sysctls] = [await kernelIn(lab, 'node'), await settledSysctls(lab)];
  return {
    open: async ({ settings, servesExternalIPs }, family) => {
      // Connections of the story before would hold its servers for minutes; all else is found there, and replaced.
      const servers = await kernel.servers();
      await kernel.write(
        servers.map((server) => ({ kind: 'remove-server', server })),
        NEVER,
      );
      const own = { settings: () => ipvsSettingsOf(settings ?? {}), servesExternalIPs };
      return rigIn(lab, kernel, { ...own, families: [family], sysctls });
    },
    tool: (family) => (family === 'IPv4' ? 'iptables' : 'ip6tables'),
    patience: EMULATED,
    unserved: IPVS.unserved,
    drains: true,
  };
}

export function ipvsStories(stories: readonly RealStory[]): void {
  describe('stories with real packets, ipvs', () => {
    let lab: Lab;
    let mode: TestedMode;
    before(async () => {
      lab = await storyLab();
      mode = await ipvsOnNode(lab);
    });
    after(() => lab.remove());
    for (const { name, story, family } of stories) it(name, () => sendStory(lab, mode, { story, family }));
  });
}
