/** The conformance stories with real packets through the real kernel: both variants of iptables, nftables, both families. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/demo/lab.ts';
import { NftNetlink } from '../../src/host/nftables-netlink.ts';
import { FAMILIES, type Family } from '../../src/model/address.ts';
import type { Mode } from '../../src/modes/mode.ts';
import { nftablesMode } from '../../src/modes/nftables/index.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { NFTABLES, nftablesSettingsOf } from '../conformance/nftables.ts';
import { STORIES } from '../conformance/stories/index.ts';
import type { Story } from '../conformance/story.ts';
import { isToldIn, type ModeUnderTest } from '../conformance/suite.ts';
import { FakeIptables } from '../helpers/fake-iptables.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { transportsIn } from '../helpers/namespace-sockets.ts';
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

    tellAll(IPTABLES, (story, family) => tellReally(lab, mode, { story, family }));
  });
}

describe('stories with real packets, nftables', () => {
  let lab: Lab;
  let kernel: NftNetlink;
  before(async () => {
    lab = await storyLab();
    kernel = new NftNetlink(transportsIn(lab.namespace('node')));
  });
  after(async () => {
    kernel.close();
    await lab.remove();
  });
  tellAll(NFTABLES, (story, family) =>
    tellReally(
      lab,
      {
        open({ settings = {} }, of) {
          const families = FAMILIES.map((each) => nftablesSettingsOf(each, each === of ? settings : {}));
          return new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }) as Mode });
        },
        tool: (of) => (of === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft'),
        patience: PATIENCE,
        unserved: NFTABLES.unserved,
        drains: false,
      },
      { story, family },
    ),
  );
});

function tellAll(of: ModeUnderTest, tell: (story: Story, family: Family) => Promise<void>): void {
  for (const family of FAMILIES) {
    for (const story of STORIES) {
      if (!isToldIn(story, family) || of.differs[story.title] !== undefined) continue;
      if (story.onlyInterpreted !== undefined) continue;
      it(`${family}, ${story.field}: ${story.title}`, () => tell(story, family));
    }
  }
}
