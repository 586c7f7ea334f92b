/** The conformance stories with real packets through the real kernel: both variants of iptables, both families. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/demo/lab.ts';
import { FAMILIES } from '../../src/model/address.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { isToldIn } from '../conformance/suite.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { Rig } from '../helpers/rig.ts';
import { storyLab, type ToldMode, tellReally } from './telling.ts';

/**
 * Milliseconds. Between namespaces of one machine a refusal may come while connect() still holds the socket; the kernel
 * then drops it (tcp_v6_err), and the client is refused at its second try, a second later.
 */
const PATIENCE = { silence: 400, answer: 2500 };

for (const backend of ['nft', 'legacy'] as const) {
  describe(`stories with real packets, iptables-${backend}`, () => {
    let lab: Lab;
    before(async () => {
      lab = await storyLab();
    });
    after(() => lab.remove());
    const mode: ToldMode = {
      // What the story before left in the kernel is found there, and replaced.
      open: ({ settings }, family) =>
        new Rig({
          commands: commandsIn(lab, 'node'),
          sysctls: sysctlsIn(lab, 'node'),
          backend,
          settings: (of) => (of === family ? { ...settings } : {}),
        }),
      tool: (family) => `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`,
      patience: PATIENCE,
      unserved: IPTABLES.unserved,
      drains: false,
    };

    for (const family of FAMILIES) {
      for (const story of STORIES) {
        if (!isToldIn(story, family) || IPTABLES.differs[story.title] !== undefined) continue;
        if (story.onlyInterpreted !== undefined) continue;
        it(`${family}, ${story.field}: ${story.title}`, () => tellReally(lab, mode, { story, family }));
      }
    }
  });
}
