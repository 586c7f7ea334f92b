/** nftables mode in the node of a lab, for stories with real packets. */

import { FAMILIES, type Family } from '../../src/base/address.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import type { NftablesSettings } from '../../src/proxy/modes/nftables/chains.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { NFTABLES, nftablesSettingsOf } from '../conformance/nftables.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { Rig } from '../helpers/proxy/rig.ts';
import type { Patience, TestedMode } from './story-packets.ts';

/** Over what the story before left in the kernel. */
export function nftablesUnderTest(
  lab: Lab,
  patience: Patience,
  beside: (family: Family) => Partial<NftablesSettings> = () => ({}),
): TestedMode & { close(): void } {
  const kernel = new NftNetlink(transportsIn(lab.namespace('node')));
  return {
    open({ settings = {}, servesExternalIPs }, family) {
      const families = FAMILIES.map((each) => ({
        ...nftablesSettingsOf(each, each === family ? settings : {}),
        ...beside(each),
      }));
      const mode = nftablesMode({ families, kernel });
      return new Rig({ commands: new FakeIptables(), mode, servesExternalIPs });
    },
    tool: (family) => (family === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft'),
    patience,
    unserved: NFTABLES.unserved,
    drains: false,
    close: () => kernel.close(),
  };
}
