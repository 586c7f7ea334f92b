/** The UDP frontends that the read chains translate, ours or those of an earlier proxy. */
import { type Address, type Family, parseAddress } from '../../model/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { ChainKey } from './names.ts';
import type { Chain } from './rules.ts';

/** A rule that sends an address and port, or a node port, to the chain of a Service, in kube-proxy's form and ours. */
const UDP_FRONTEND = /^(?:-d (\S+)\/(?:32|128) )?-p udp .*--dport (\d+) .*-[jg] KUBE-(?:SVC|SVL|EXT|FW|XLB)-/;

export function udpFrontendsIn(family: Family, chains: ReadonlyMap<ChainKey, Chain>): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const rules of chains.values()) {
    for (const { text } of rules) {
      const match = text.includes('-p udp ') ? UDP_FRONTEND.exec(text) : null;
      if (match === null) continue;
      const address: Address | undefined = match[1] === undefined ? undefined : parseAddress(match[1]);
      if (match[1] === undefined || address !== undefined) found.push({ family, address, port: Number(match[2]) });
    }
  }
  return found;
}
