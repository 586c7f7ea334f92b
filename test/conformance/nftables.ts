/** nftables mode for the conformance suite: the mode writes into a kernel in memory, and an interpreter walks what it wrote. */
import assert from 'node:assert/strict';
import { endpointText, FAMILIES, type Family } from '../../src/base/address.ts';
import type { Fate } from '../../src/inspect/explain/packet.ts';
import type { NftablesSettings } from '../../src/proxy/modes/nftables/chains.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { memorySet, ownId } from '../../src/proxy/modes/nftables/table-layout.ts';
import { fatesIn, viewOfTable } from '../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { FakeNft } from '../helpers/kernel/fake-nft.ts';
import { defaultSettings, Rig } from '../helpers/proxy/rig.ts';
import type { BackendName, StoryCluster } from './cluster.ts';
import { POD_PORT } from './stories/build.ts';
import type { StoryCase, StoryPacket, StorySettings, StoryState } from './story.ts';
import { type ModeUnderTest, packetOf, type Subject } from './suite.ts';

const LOOPBACK =
  'node ports are served on all addresses of the node except loopback ones, as by kube-proxy in this mode: the mode does not need route_localnet, and the agent relays them (6.17)';
const CLOSED =
  'a table of nftables cannot accept a packet that another table drops: a firewall of the node must admit Services itself';

export const NFTABLES: ModeUnderTest = {
  mode: 'nftables',
  unserved: { clusterIP: 'rejected', other: 'untouched' },
  differs: {
    'node-port-on-loopback': LOOPBACK,
    'matrix-from-loopback': LOOPBACK,
    'node-port-any-loopback-address': LOOPBACK,
    'node-ports-closed-firewall': CLOSED,
    'health-port-beside-chosen-addresses': CLOSED,
    'health-port-not-opened': CLOSED,
    'health-port-closed-firewall': CLOSED,
  },
  open: (family, story) => new NftablesSubject(family, story),
};

/** The settings of a story, in words of nftables mode. */
export function nftablesSettingsOf(
  family: Family,
  { localhostNodePorts: _, ...settings }: StorySettings,
): NftablesSettings {
  const { localhostNodePorts: __, ...standard } = defaultSettings(family);
  return { ...standard, serviceCidrs: [], countsConnections: false, ...settings };
}

class NftablesSubject implements Subject {
  readonly #family: Family;
  readonly #story: StoryCase;
  readonly #kernel = new FakeNft();
  readonly #rig: Rig;

  constructor(family: Family, story: StoryCase) {
    this.#family = family;
    this.#story = story;
    const families = FAMILIES.map((of) => nftablesSettingsOf(of, of === family ? (story.settings ?? {}) : {}));
    const mode = nftablesMode({ families, kernel: this.#kernel, keep: 0 });
    this.#rig = new Rig({ commands: new FakeIptables(), mode, servesExternalIPs: story.servesExternalIPs });
  }

  async reach(state: StoryState): Promise<void> {
    const report = await this.#rig.become(state).sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  fates(packet: StoryPacket, w: StoryCluster): readonly Fate[] {
    const { protocol = 'TCP', knownTo = [] } = packet;
    const id = (name: BackendName) =>
      ownId('default/web', protocol.toLowerCase(), endpointText(w.address(name), POD_PORT));
    const remembered = new Set(knownTo.map((name) => memorySet(id(name)).name));
    const localAddresses = new Set([...w.local, ...(this.#story.nodeHas ?? [])]);
    const table = this.#kernel.tables.get(this.#family) ?? assert.fail('there is no table');
    return fatesIn(viewOfTable(table, this.#family), packetOf(packet, w), { localAddresses, remembered });
  }
}
