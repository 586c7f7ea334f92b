/** The settings of each mode that the configuration, the Node and this machine's addresses ask for (docs/semantics.md 5.1, 6.9, 6.10, 9.1). Pure. */

import { ipvsSettings } from '../../../src/agent/mode-settings.ts';
import { type Address, type Cidr, cidrContains, type Family, familyOf, isLoopback } from '../../../src/base/address.ts';
import type { Config } from '../../../src/config/config.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { NodeView } from '../../../src/proxy/model/objects.ts';
import type { ModeSettings } from '../../inspect/explain/oracle.ts';

/** The part of the configuration that decides where packets go. */
export type CheckedConfig = Pick<
  Config,
  | 'mode'
  | 'ipvs'
  | 'detectLocal'
  | 'masqueradeAll'
  | 'masqueradeBit'
  | 'nodePortAddresses'
  | 'localhostNodePorts'
  | 'bindAddress'
  | 'countsConnections'
  | 'resetGone'
>;

export interface Place {
  readonly config: CheckedConfig;
  readonly node: NodeView | undefined;
  /** Addresses of this machine's interfaces, without those that IPVS mode adds. */
  readonly interfaces: readonly Address[];
  /** undefined: unknown. */
  readonly serviceCidrs: readonly Cidr[] | undefined;
}

export function settingsOf(mode: ModeName, family: Family, place: Place): ModeSettings {
  const { config, node, interfaces, serviceCidrs } = place;
  const ipvs = ipvsSettings({ config: config as Config, node, family, interfaces: interfacesOf(family, interfaces) });
  if (mode === 'ipvs') return { mode, settings: ipvs };
  const { excludeCidrs: _, scheduler: __, nodePortCidrs, ...ofFamily } = ipvs;
  const localhostNodePorts =
    mode === 'iptables' && family === 'IPv4' && config.localhostNodePorts && admitsLoopback(nodePortCidrs);
  const isServed = (address: Address) =>
    (localhostNodePorts || !isLoopback(address)) &&
    (nodePortCidrs === 'all' || nodePortCidrs.some((cidr) => cidrContains(cidr, address)));
  const shared = {
    ...ofFamily,
    nodePortAddresses: nodePortCidrs === 'all' ? 'all' : interfacesOf(family, interfaces).filter(isServed),
    // Only packets that conntrack finds invalid depend on it, and none of them is sent.
    dropInvalid: true,
  } as const;
  if (mode === 'iptables') return { mode, settings: { ...shared, localhostNodePorts } };
  const cidrs = serviceCidrs?.filter((cidr) => familyOf(cidr) === family);
  return { mode, settings: { ...shared, serviceCidrs: cidrs, countsConnections: config.countsConnections } };
}

export function interfacesOf(family: Family, interfaces: readonly Address[]): Address[] {
  return interfaces.filter((address) => familyOf(address) === family);
}

function admitsLoopback(cidrs: 'all' | readonly Cidr[]): boolean {
  return cidrs === 'all' || cidrs.some((cidr) => cidr.startsWith('127.') || cidrContains(cidr, '127.0.0.0' as Address));
}
