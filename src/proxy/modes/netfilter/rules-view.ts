/** Chains and jumps as a view (`proxy/modes/view.ts`), and what a rule names: its Service and its frontend. Pure. */

import { type Address, type Family, type Protocol, parseAddress } from '../../../base/address.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { RulesView } from '../view.ts';
import type { Jump } from './jumps.ts';
import { BUILT_IN, type ChainKey, chainKey } from './names.ts';
import { type Chain, ownerInComment, type Rule } from './rules.ts';

interface ViewedRules {
  readonly chains: ReadonlyMap<ChainKey, Chain>;
  /** In the order of the kernel within each built-in chain. */
  readonly jumps: Iterable<Jump>;
  /** Policies other than ACCEPT, by `table CHAIN`. */
  readonly policies: ReadonlyMap<string, string>;
}

/** The jumps are grouped when a built-in chain is first asked for. */
export function rulesView({ chains, jumps, policies }: ViewedRules): RulesView {
  let byChain: Map<ChainKey, Rule[]> | undefined;
  return {
    chain(table, name) {
      const key = chainKey(table, name);
      if (!BUILT_IN.has(name)) return chains.get(key);
      byChain ??= grouped(jumps);
      return byChain.get(key) ?? [];
    },
    policy: (chain) => (policies.get(`filter ${chain}`) === 'DROP' ? 'drop' : 'accept'),
  };
}

function grouped(jumps: Iterable<Jump>): Map<ChainKey, Rule[]> {
  const byChain = new Map<ChainKey, Rule[]>();
  for (const { table, chain, text } of jumps) {
    const key = chainKey(table, chain);
    const rules = byChain.get(key) ?? [];
    rules.push({ text, owner: undefined });
    byChain.set(key, rules);
  }
  return byChain;
}

/** The Service of the rules that only the first of two versions of a chain has; undefined when these have several Services, or none. */
export function ownerOfChange(chain: Chain, other: Chain): string | undefined {
  const texts = new Set(other.map(({ text }) => text));
  const owners = new Set(chain.filter(({ text }) => !texts.has(text)).map(ownerOfRule));
  const [owner] = owners;
  return owners.size === 1 ? owner : undefined;
}

export function ownerOfRule({ owner, text }: Rule): string | undefined {
  return owner ?? ownerInComment(text);
}

/** The frontend of a rule that leads to the chain of a Service, in kube-proxy's form and ours. */
export interface RuleFrontend {
  /** Undefined for a node port. */
  readonly address: Address | undefined;
  readonly protocol: Protocol;
  readonly port: number;
}

const FRONTEND = /^(?:-d (\S+)\/(?:32|128) )?-p (tcp|udp|sctp) .*--dport (\d+) .*-[jg] KUBE-(?:SVC|SVL|EXT|FW|XLB)-/;
const PROTOCOLS: Readonly<Record<string, Protocol>> = { tcp: 'TCP', udp: 'UDP', sctp: 'SCTP' };

/** Returns undefined for any other rule. */
export function frontendOfRule(text: string): RuleFrontend | undefined {
  const match = FRONTEND.exec(text);
  if (match === null) return undefined;
  const [, to, name = '', port] = match;
  const [address, protocol] = [to === undefined ? undefined : parseAddress(to), PROTOCOLS[name]];
  if (protocol === undefined || (to !== undefined && address === undefined)) return undefined;
  return { address, protocol, port: Number(port) };
}

/** The UDP frontends that the chains translate, ours or those of an earlier proxy. */
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
