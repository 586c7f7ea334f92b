/** IPVS mode for the conformance suite: the mode writes into kernels in memory, and an interpreter walks what it wrote. */
import assert from 'node:assert/strict';
import { type Address, endpointText, type Family, hostCidr } from '../../src/base/address.ts';
import type { Fate } from '../../src/inspect/explain/packet.ts';
import type { IpvsSettings } from '../../src/proxy/modes/ipvs/static-chains.ts';
import { endpointChain } from '../../src/proxy/modes/netfilter/balancer.ts';
import { fatesIn, memoriesOf, serversOf, viewOfSaved } from '../helpers/inspect/explain/views.ts';
import { type IpvsRig, ipvsRig } from '../helpers/proxy/ipvs-rig.ts';
import type { StoryCluster } from './cluster.ts';
import { POD_PORT } from './stories/build.ts';
import type { StoryCase, StoryPacket, StorySettings, StoryState } from './story.ts';
import { type ModeUnderTest, packetOf, type Subject } from './suite.ts';

const LOOPBACK =
  'node ports are served on all addresses of the node except loopback ones: IPVS keeps the address of the sender, and 127.0.0.1 cannot leave the node; the agent relays them (6.17)';

export const IPVS: ModeUnderTest = {
  mode: 'ipvs',
  unserved: { clusterIP: 'rejected', other: 'rejected' },
  differs: {
    'node-port-on-loopback': LOOPBACK,
    'matrix-from-loopback': LOOPBACK,
    'node-port-any-loopback-address': LOOPBACK,
    'invalid-not-forwarded':
      'IPVS translates answers by its own table of connections, whatever conntrack finds: no packet leaves untranslated, and none needs to be dropped',
  },
  open: (family, story) => new IpvsSubject(family, story),
};

/** The settings of a story, in words of IPVS mode. */
export function ipvsSettingsOf({ nodePortAddresses, ...settings }: StorySettings): Partial<IpvsSettings> {
  const { masqueradeAll, localDetector, masqueradeBit, nodeAddresses } = settings;
  return {
    ...(masqueradeAll === undefined ? {} : { masqueradeAll }),
    ...(localDetector === undefined ? {} : { localDetector }),
    ...(masqueradeBit === undefined ? {} : { masqueradeBit }),
    ...(nodeAddresses === undefined ? {} : { nodeAddresses }),
    ...(nodePortAddresses === undefined || nodePortAddresses === 'all'
      ? {}
      : { nodePortCidrs: nodePortAddresses.map(hostCidr) }),
  };
}

class IpvsSubject implements Subject {
  readonly #family: Family;
  readonly #story: StoryCase;
  readonly #made: IpvsRig;

  constructor(family: Family, story: StoryCase) {
    this.#family = family;
    this.#story = story;
    const own = (of: Family) => (of === family ? ipvsSettingsOf(story.settings ?? {}) : {});
    this.#made = ipvsRig({ settings: own, servesExternalIPs: story.servesExternalIPs });
    const { kernel, iptables } = this.#made;
    for (const address of story.nodeHas ?? []) kernel.others.add(address as Address);
    if (story.closed === true) for (const chain of ['INPUT', 'FORWARD']) iptables.policies.set(chain, 'DROP');
  }

  async reach(state: StoryState): Promise<void> {
    const report = await this.#made.rig.become(state).sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  fates(packet: StoryPacket, w: StoryCluster): readonly Fate[] {
    const { kernel, iptables } = this.#made;
    const { protocol = 'TCP', knownTo = [] } = packet;
    const known = knownTo.map((name) => ({ address: w.address(name), port: POD_PORT }));
    const lists = known.map(({ address, port }) => endpointChain('default/web', protocol, endpointText(address, port)));
    const facts = {
      localAddresses: new Set([...w.local, ...(this.#story.nodeHas ?? [])]),
      remembered: new Set([...memoriesOf(kernel, known), ...lists]),
    };
    const view = viewOfSaved(iptables.save(this.#family), this.#family, serversOf(kernel));
    return fatesIn(view, packetOf(packet, w), facts);
  }
}
