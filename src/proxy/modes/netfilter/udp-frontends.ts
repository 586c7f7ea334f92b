/** The UDP frontends that the read chains translate, ours or those of an earlier proxy. */
import type { Family } from '../../../base/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { ChainKey } from './names.ts';
import { frontendOfRule } from './rule-frontends.ts';
import type { Chain } from './rules.ts';

export function udpFrontendsIn(family: Family, chains: ReadonlyMap<ChainKey, Chain>): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const rules of chains.values()) {
    for (const { text } of rules) {
      const frontend = text.includes('-p udp ') ? frontendOfRule(text) : undefined;
      if (frontend !== undefined) found.push({ family, address: frontend.address, port: frontend.port });
    }
  }
  return found;
}
