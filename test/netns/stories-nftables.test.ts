/** The conformance stories with real packets through the real kernel: both variants of iptables, nftables, both families. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/lab/lab.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { NFTABLES } from '../conformance/nftables.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { Rig } from '../helpers/rig.ts';
import { nftablesUnderTest } from './nftables-under-test.ts';
import { realStories, storyLab, type TestedMode, tellReally } from './story-packets.ts';

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
    const mode: TestedMode = {
      // What the story before left in the kernel is found there, and replaced.
      open: ({ settings, servesExternalIPs }, family) =>
        new Rig({
          commands: commandsIn(lab, 'node'),
          sysctls: sysctlsIn(lab, 'node'),
          backend,
          settings: (of) => (of === family ? { ...settings } : {}),
          servesExternalIPs,
        }),
      tool: (family) => `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`,
      patience: PATIENCE,
      unserved: IPTABLES.unserved,
      drains: false,
    };

    for (const { name, story, family } of realStories(IPTABLES)) {
      it(name, () => tellReally(lab, mode, { story, family }));
    }
  });
}

describe('stories with real packets, nftables', () => {
  let lab: Lab;
  let mode: ReturnType<typeof nftablesUnderTest>;
  before(async () => {
    lab = await storyLab();
    mode = nftablesUnderTest(lab, PATIENCE);
  });
  after(async () => {
    mode.close();
    await lab.remove();
  });
  for (const { name, story, family } of realStories(NFTABLES)) it(name, () => tellReally(lab, mode, { story, family }));
});
