/** What of this machine and its configuration decides about packets, beside the rules: from the settings that a mode was made with. */

import { type Address, addressBytes, type Cidr, type Family, familyOf, isLoopback } from '../../base/address.ts';
import type { FamilyFacts } from '../../inspect/explain/facts.ts';
import type { RecordedParts } from '../../inspect/history/shapes.ts';
import type { IsNodeAddress } from '../../proxy/model/flow-leftovers.ts';
import { ipvsNodePortFilter, nodePortFilter } from '../mode-settings.ts';

export type PacketFacts = Omit<FamilyFacts, 'family' | 'stands' | 'desired'>;

/** `interfaces`: the addresses of this machine's interfaces, of any family. undefined: the mode does not serve the family. */
export function packetFacts(
  settings: RecordedParts['settings'],
  family: Family,
  interfaces: readonly Address[],
): PacketFacts | undefined {
  const of = ofMode(settings, family, interfaces);
  if (of === undefined) return undefined;
  const { shared, takes, localhostNodePorts, serviceCidrs } = of;
  const { masqueradeAll, localDetector, nodeAddresses } = shared;
  const own = interfaces.filter((address) => familyOf(address) === family);
  // The primary one first.
  const ordered = [...nodeAddresses.filter((address) => own.includes(address)), ...own];
  const taking = ordered.filter((address) => !isLoopback(address) && takes(addressBytes(address)));
  return {
    masqueradeAll,
    localDetector,
    nodeAddresses,
    localAddresses: new Set(own),
    nodePortAddresses: [...new Set(taking)],
    localhostNodePorts,
    serviceCidrs,
  };
}

interface ModeFacts {
  readonly shared: Pick<FamilyFacts, 'masqueradeAll' | 'localDetector' | 'nodeAddresses'>;
  readonly takes: IsNodeAddress;
  readonly localhostNodePorts: boolean;
  readonly serviceCidrs: readonly Cidr[];
}

function ofMode(
  settings: RecordedParts['settings'],
  family: Family,
  interfaces: readonly Address[],
): ModeFacts | undefined {
  const isOf = (one: { readonly family: Family }) => one.family === family;
  if (settings.mode === 'ipvs') {
    const shared = settings.families.find(isOf);
    if (shared === undefined) return undefined;
    return { shared, takes: ipvsNodePortFilter(shared, interfaces), localhostNodePorts: false, serviceCidrs: [] };
  }
  if (settings.mode === 'iptables') {
    const shared = settings.families.find(isOf);
    if (shared === undefined) return undefined;
    const { localhostNodePorts } = shared;
    return { shared, takes: nodePortFilter(shared, interfaces), localhostNodePorts, serviceCidrs: [] };
  }
  const shared = settings.families.find(isOf);
  if (shared === undefined) return undefined;
  const serviceCidrs = shared.serviceCidrs ?? [];
  return { shared, takes: nodePortFilter(shared, interfaces), localhostNodePorts: false, serviceCidrs };
}
