/** A mode over its kernel in memory, which tells of every commit. */

import { type Address, type Cidr, type Family, isLoopback } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { rulesOfSaved, serversOf, viewOfTable } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';
import type { ModeViews } from './kernel-views.ts';
import { sendersOf } from './packets.ts';
import { type CheckedConfig, settingsOf } from './settings.ts';

export const MODES: readonly ModeName[] = ['iptables', 'nftables', 'ipvs'];
export const INTERFACES = ['127.0.0.1', '192.168.77.2', '::1', 'fd00:77::2'] as Address[];
const PRIMARY = { IPv4: '192.168.77.2' as Address, IPv6: 'fd00:77::2' as Address };

export const SENDERS = sendersOf(PRIMARY);

export const config = (mode: ModeName): CheckedConfig => ({
  mode,
  ipvs: { scheduler: 'rr', excludeCidrs: [], strictArp: false, tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
  detectLocal: { kind: 'cluster-cidr', cidrs: ['10.244.0.0/16', 'fd00:244::/32'] as Cidr[] },
  masqueradeAll: false,
  masqueradeBit: 14,
  nodePortAddresses: { primary: false, cidrs: [] },
  localhostNodePorts: true,
  bindAddress: undefined,
  countsConnections: false,
});

export interface ModeWorld {
  readonly rig: Rig;
  readonly nft: FakeNft;
  readonly iptables: FakeIptables;
  readonly ipvs: FakeIpvs;
  readonly views: (family: Family) => ModeViews;
}

/** `settings`: by default those of `config`. */
export function modeWorld(
  mode: ModeName,
  onCommit: () => void,
  settings: (family: Family) => object = (family) =>
    settingsOf(mode, family, { ...PLACE, config: config(mode) }).settings,
): ModeWorld {
  const [nft, iptables, ipvs] = [new FakeNft(), new FakeIptables(), new FakeIpvs()];
  for (const address of INTERFACES.filter((one) => !isLoopback(one))) ipvs.others.add(address);
  const views = (family: Family): ModeViews => {
    const table = nft.tables.get(family);
    const rules = rulesOfSaved(iptables.save(family));
    return {
      nftables: table && viewOfTable(table, family),
      iptables: { family, rules },
      ipvs: ipvs.device ? { family, rules, servers: serversOf(ipvs) } : undefined,
    };
  };
  const rig = rigOf(mode, { settings, nft, iptables, ipvs });
  nft.options = { ...nft.options, onCommit };
  iptables.options = { ...iptables.options, onCommit };
  const write = ipvs.write.bind(ipvs);
  ipvs.write = async (writes) => {
    const results = [];
    for (const one of writes) {
      results.push(...(await write([one])));
      onCommit();
    }
    return results;
  };
  return { rig, nft, iptables, ipvs, views };
}

const PLACE = { node: undefined, interfaces: INTERFACES, serviceCidrs: undefined };

interface RigInput {
  readonly settings: (family: Family) => object;
  readonly nft: FakeNft;
  readonly iptables: FakeIptables;
  readonly ipvs: FakeIpvs;
}

function rigOf(mode: ModeName, { settings, nft, iptables, ipvs }: RigInput): Rig {
  if (mode === 'nftables') return nftRig({ kernel: nft, settings }).rig;
  if (mode === 'ipvs') return ipvsRig({ kernel: ipvs, iptables, settings }).rig;
  return new Rig({ commands: iptables, settings });
}
