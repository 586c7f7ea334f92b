/** iptables mode for the conformance suite: the mode writes into a kernel in memory, and an interpreter walks what it wrote. */
import assert from 'node:assert/strict';
import { endpointText, type Family } from '../../src/base/address.ts';
import type { Fate } from '../../src/inspect/explain/packet.ts';
import { endpointChain } from '../../src/proxy/modes/netfilter/balancer.ts';
import { fatesIn, viewOfSaved } from '../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { Rig } from '../helpers/proxy/rig.ts';
import type { StoryCluster } from './cluster.ts';
import { POD_PORT } from './stories/build.ts';
import type { StoryCase, StoryPacket, StoryState } from './story.ts';
import { type ModeUnderTest, packetOf, type Subject } from './suite.ts';

export const IPTABLES: ModeUnderTest = {
  mode: 'iptables',
  unserved: { clusterIP: 'untouched', other: 'untouched' },
  differs: {},
  open: (family, story) => new IptablesSubject(family, story),
};

class IptablesSubject implements Subject {
  readonly #family: Family;
  readonly #story: StoryCase;
  readonly #kernel = new FakeIptables();
  readonly #rig: Rig;

  constructor(family: Family, story: StoryCase) {
    this.#family = family;
    this.#story = story;
    const { settings, servesExternalIPs } = story;
    const own = (of: Family) => (of === family ? { ...settings } : {});
    this.#rig = new Rig({ commands: this.#kernel, settings: own, servesExternalIPs });
    if (story.closed === true) for (const chain of ['INPUT', 'FORWARD']) this.#kernel.policies.set(chain, 'DROP');
  }

  async reach(state: StoryState): Promise<void> {
    const report = await this.#rig.become(state).sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  fates(packet: StoryPacket, w: StoryCluster): readonly Fate[] {
    const { protocol = 'TCP', knownTo = [] } = packet;
    const backends = knownTo.map((name) => endpointText(w.address(name), POD_PORT));
    const remembered = new Set(backends.map((backend) => endpointChain('default/web', protocol, backend)));
    const localAddresses = new Set([...w.local, ...(this.#story.nodeHas ?? [])]);
    const view = viewOfSaved(this.#kernel.save(this.#family), this.#family);
    return fatesIn(view, packetOf(packet, w), { localAddresses, remembered });
  }
}
