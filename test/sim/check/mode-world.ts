/** A mode over its kernel in memory, which tells of every commit. */

import { type Address, type Cidr, FAMILIES, type Family, isLoopback } from '../../../src/base/address.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { NftTables } from '../../../src/kernel/nftables-kernel.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { handover } from '../../../src/proxy/modes/handover.ts';
import type { Mode } from '../../../src/proxy/modes/mode.ts';
import { rulesPredecessor } from '../../../src/proxy/modes/netfilter/rules-family.ts';
import { tablesPredecessor } from '../../../src/proxy/modes/nftables/index.ts';
import { rulesOfSaved, serversOf, viewOfTable } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';
import type { ModeSettings } from '../../inspect/explain/oracle.ts';
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
  resetGone: false,
});

/** The kernel that each mode writes, in memory. A mode may take over from another one in them. */
export interface ModeKernels {
  readonly nft: FakeNft;
  readonly iptables: FakeIptables;
  readonly ipvs: FakeIpvs;
  readonly views: (family: Family) => ModeViews;
}

export interface ModeWorld extends ModeKernels {
  readonly rig: Rig;
}

type Settings = (mode: ModeName, family: Family) => object;
const ofConfig: Settings = (mode, family) => usualSettings(mode, family).settings;

/** `settings`: by default those of `config`. */
export function modeWorld(mode: ModeName, onCommit: () => void, settings: Settings = ofConfig): ModeWorld {
  const kernels = modeKernels(onCommit);
  return { ...kernels, rig: new Rig({ commands: kernels.iptables, mode: modeOver(kernels, mode, settings) }) };
}

/** Another mode takes over: a rig that knows no object yet. */
export function takeOver(kernels: ModeKernels, mode: ModeName): Rig {
  const predecessors = predecessorsOf(kernels, mode);
  const next = predecessors.reduce(handover, modeOver(kernels, mode, ofConfig));
  return new Rig({ commands: kernels.iptables, mode: next });
}

function modeKernels(onCommit: () => void): ModeKernels {
  const [nft, iptables, ipvs] = [new FakeNft(), new FakeIptables(), new FakeIpvs()];
  for (const address of INTERFACES.filter((one) => !isLoopback(one))) ipvs.others.add(address);
  nft.options = { onCommit };
  iptables.options = { onCommit };
  const write = ipvs.write.bind(ipvs);
  ipvs.write = async (writes) => {
    const results = [];
    for (const one of writes) {
      results.push(...(await write([one])));
      onCommit();
    }
    return results;
  };
  const views = (family: Family): ModeViews => {
    const table = nft.tables.get(family);
    const rules = rulesOfSaved(iptables.save(family));
    return {
      nftables: table && viewOfTable(table, family),
      iptables: { family, rules },
      ipvs: ipvs.device ? { family, rules, servers: serversOf(ipvs) } : undefined,
    };
  };
  return { nft, iptables, ipvs, views };
}

/** The settings of a mode on the node of these worlds. */
export function usualSettings(mode: ModeName, family: Family): ModeSettings {
  const place = { node: undefined, interfaces: INTERFACES, serviceCidrs: undefined, config: config(mode) };
  return settingsOf(mode, family, place);
}

function modeOver({ nft, iptables, ipvs }: ModeKernels, mode: ModeName, settingsIn: Settings): Mode {
  const settings = (family: Family) => settingsIn(mode, family);
  if (mode === 'iptables') return new Rig({ commands: iptables, settings }).mode;
  if (mode === 'ipvs') return ipvsRig({ kernel: ipvs, iptables, settings }).rig.mode;
  // The rig would take the kernel's notices for itself.
  const { options } = nft;
  const made = nftRig({ kernel: nft, settings }).rig.mode;
  nft.options = options;
  return made;
}

/** As src/agent/predecessors.ts puts them together. */
function predecessorsOf({ nft, iptables, ipvs }: ModeKernels, mode: ModeName): Mode[] {
  const tools = FAMILIES.map((family) => ({ tools: new IptablesTools(iptables, family, 'auto') }));
  const tables: NftTables = {
    hasTable: (family) => nft.tables.has(family),
    keys: () => Promise.resolve([]),
    isDormant: () => false,
    changeTables(changes) {
      for (const { family } of changes) {
        nft.tables.delete(family);
        nft.options.onCommit?.(family);
      }
    },
  };
  const left = FAMILIES.filter((family) => nft.tables.has(family)).map((family) => ({ family, table: 'slicewire' }));
  return [
    ...(mode === 'nftables' ? [rulesPredecessor(tools)] : []),
    ...(mode !== 'ipvs' && ipvs.device ? [ipvsRig({ kernel: ipvs, iptables, isPredecessor: true }).rig.mode] : []),
    ...(mode !== 'nftables' && left.length > 0 ? [tablesPredecessor(tables, left)] : []),
  ];
}
