/** Settings of IPVS mode where a test asks for nothing else. Imports nothing that takes time to load. */
import type { Family } from '../../../src/base/address.ts';
import type { IpvsSettings } from '../../../src/proxy/modes/ipvs/static-chains.ts';
import type { IpvsNodeSettings } from '../../../src/proxy/modes/virtual-servers/node-parts.ts';

export function defaultIpvsSettings(family: Family): IpvsSettings {
  return {
    family,
    masqueradeBit: 14,
    masqueradeAll: false,
    localDetector: { kind: 'none' },
    scheduler: 'rr',
    excludeCidrs: [],
    nodePortCidrs: 'all',
    nodeAddresses: [],
  };
}

export const DEFAULT_NODE_SETTINGS: IpvsNodeSettings = {
  tcpTimeout: 0,
  tcpFinTimeout: 0,
  udpTimeout: 0,
};
