/** The frontend of a rule that leads to the chain of a Service, in kube-proxy's form and ours. Pure. */
import { type Address, type Family, type Protocol, parseAddress } from '../../../base/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { ChainKey } from './names.ts';
import type { Chain } from './rules.ts';

export interface RuleFrontend {
  /** undefined: a node port. */
  readonly address: Address | undefined;
  readonly protocol: Protocol;
  readonly port: number;
}

const FRONTEND = /^(?:-d (\S+)\/(?:32|128) )?-p (tcp|udp|sctp) .*--dport (\d+) .*-[jg] KUBE-(?:SVC|SVL|EXT|FW|XLB)-/;
const PROTOCOLS: Readonly<Record<string, Protocol>> = { tcp: 'TCP', udp: 'UDP', sctp: 'SCTP' };

/** undefined for any other rule. */
export function frontendOfRule(text: string): RuleFrontend | undefined {
  const match = FRONTEND.exec(text);
  if (match === null) return undefined;
  const [, to, name = '', port] = match;
  const [address, protocol] = [to === undefined ? undefined : parseAddress(to), PROTOCOLS[name]];
  if (protocol === undefined || (to !== undefined && address === undefined)) return undefined;
  return { address, protocol, port: Number(port) };
}

// The UDP frontends that the read chains translate, ours or those of an earlier proxy.

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
