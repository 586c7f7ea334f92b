/**
 * The settings of iptables mode, and all rules that depend on these alone: the chains without a tree (docs/semantics.md 6.11, 7.1, 8.1),
 * the rules after the dispatch trees, and the jumps from the kernel's chains. Pure.
 */

import type { Address } from '../../../base/address.ts';
import type { PacketCount } from '../mode.ts';
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import type { FamilySettings } from '../netfilter/local-traffic.ts';
import {
  CANARY,
  type ChainKey,
  chainKey,
  EXTERNAL_SERVICES,
  FIREWALL,
  FORWARD,
  HAIRPIN,
  MARK_MASQ,
  NODE_PORT_REJECTS,
  NODE_PORTS,
  POSTROUTING,
  PROXY_FIREWALL,
  SERVICES,
  splitChainKey,
} from '../netfilter/names.ts';
import {
  type Chain,
  comment,
  forwardRules,
  jump,
  markMatch,
  markRules,
  masqueradeMarked,
  type Rule,
  rule,
  type Table,
  to,
} from '../netfilter/rules.ts';

export interface IptablesSettings extends FamilySettings {
  /** `all` includes every address of the node. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Node ports on 127.0.0.0/8. IPv4 only; needs the sysctl route_localnet and the guard in KUBE-FIREWALL. */
  readonly localhostNodePorts: boolean;
  /** Drop packets that conntrack calls invalid, unless the sysctl nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
}

/** An invalid packet would leave the node untranslated, and the client would reset the connection (k8s#74839). */
const DROPS_INVALID = rule(['-m conntrack --ctstate INVALID', jump('DROP')]);

/**
 * This rule only counts: the first packet of each connection that was sent to 127.0.0.0/8 and goes to an endpoint. It comes after
 * the rule that returns unmarked packets. kube-proxy counts with nfacct, which not every kernel has, and one additional rule
 * for each node port (k8s#125015).
 */
const COUNTS_LOCALHOST = rule(['-m conntrack --ctstate DNAT --ctorigdst 127.0.0.0/8']);

/** The chains without a tree. */
export function staticChains({ masqueradeBit, ...settings }: IptablesSettings): Map<ChainKey, Chain> {
  const chains = new Map<ChainKey, Chain>();
  const add = (table: 'nat' | 'filter' | 'mangle', chain: string, ...rules: Rule[]) => {
    chains.set(chainKey(table, chain), rules);
  };
  add('nat', MARK_MASQ, ...markRules(masqueradeBit));
  // An endpoint that reaches itself would answer itself directly, so its source address is masqueraded.
  const hairpin = rule([`-m mark ! --mark ${markMatch(masqueradeBit)} -m conntrack --ctstate DNAT`, jump(HAIRPIN)]);
  const masquerade = masqueradeMarked(masqueradeBit);
  // After the rule that returns unmarked packets.
  if (settings.localhostNodePorts) masquerade.splice(1, 0, COUNTS_LOCALHOST);
  add('nat', POSTROUTING, hairpin, ...masquerade);
  const invalid = settings.dropInvalid ? [DROPS_INVALID] : [];
  add('filter', FORWARD, ...invalid, ...forwardRules(masqueradeBit));
  if (settings.localhostNodePorts) add('filter', FIREWALL, localnetGuard());
  for (const table of ['mangle', 'nat', 'filter'] as const) add(table, CANARY);
  return chains;
}

/** The position of a rule whose packets are counted for metrics. */
export interface CountedRule {
  readonly what: PacketCount['what'];
  readonly table: string;
  readonly chain: string;
  readonly index: number;
  /** Number of rules of the chain. Another number means that another program changed the chain. */
  readonly of: number;
}

/** The counted rules that these settings install. */
export function countedIn(settings: IptablesSettings): CountedRule[] {
  const chains = staticChains(settings);
  const position = (what: PacketCount['what'], key: ChainKey, counted: Rule): CountedRule[] => {
    const rules = chains.get(key) ?? [];
    const index = rules.indexOf(counted);
    return index < 0 ? [] : [{ what, ...splitChainKey(key), index, of: rules.length }];
  };
  return [
    ...position('invalid-dropped', chainKey('filter', FORWARD), DROPS_INVALID),
    ...position('localhost-node-ports', chainKey('nat', POSTROUTING), COUNTS_LOCALHOST),
  ];
}

// Node ports on 127.0.0.1 need the setting route_localnet. It lets neighbours on the network reach programs that listen on
// 127.0.0.1 (CVE-2020-8558). The guard against that is exactly the kubelet's rule, in a chain shared with the kubelet.

/** Allows routing of packets with a loopback address. */
export const ROUTE_LOCALNET = 'net/ipv4/conf/all/route_localnet';

/** The jumps into the chain shared with the kubelet; cleanup keeps them. */
export const FIREWALL_JUMPS: readonly Jump[] = ['INPUT', 'OUTPUT'].map((chain) =>
  jumpRule({ table: 'filter', chain, target: FIREWALL }),
);

function localnetGuard(): Rule {
  const match = '! -s 127.0.0.0/8 -d 127.0.0.0/8';
  const state = '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT';
  return rule([match, comment('block incoming localnet connections'), state, jump('DROP')]);
}

const LAST = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain';

/** The end of nat KUBE-SERVICES: the jump to the node ports (docs/semantics.md 6.9). */
export function nodePortJumps(settings: IptablesSettings): Rule[] {
  return toNodePorts(settings, { words: comment(LAST), target: jump(NODE_PORTS) });
}

/** The end of filter KUBE-EXTERNAL-SERVICES: refused node ports, only on the addresses that take node ports. */
export function nodePortRejectJumps(settings: IptablesSettings): Rule[] {
  return toNodePorts(settings, { words: undefined, target: jump(NODE_PORT_REJECTS) });
}

/**
 * The end of filter KUBE-SERVICES: packets of the node itself to an external address without endpoints. OUTPUT does not call
 * KUBE-EXTERNAL-SERVICES, so with kube-proxy such packets leave the node (docs/semantics.md 6.4).
 */
export function externalFromNode(): Rule {
  return rule(['-m addrtype --src-type LOCAL', jump(EXTERNAL_SERVICES)]);
}

interface StaticJump {
  readonly words: string | undefined;
  readonly target: string;
}

function toNodePorts(
  { family, nodePortAddresses, localhostNodePorts }: IptablesSettings,
  { words, target }: StaticJump,
): Rule[] {
  if (nodePortAddresses !== 'all') return nodePortAddresses.map((address) => rule([to(address), words, target]));
  const exceptLoopback = family === 'IPv6' ? '! -d ::1/128' : '! -d 127.0.0.0/8';
  const guard = localhostNodePorts ? undefined : exceptLoopback;
  return [rule([guard, words, '-m addrtype --dst-type LOCAL', target])];
}

// The jumps from the kernel's chains into ours: kube-proxy's (iptablesJumpChains in its pkg/proxy/iptables), so a live node keeps them.

const NEW = '-m conntrack --ctstate NEW';
const PORTALS = 'kubernetes service portals';
const EXTERNAL_PORTALS = 'kubernetes externally-visible service portals';
const LB_FIREWALL = 'kubernetes load balancer firewall';

type JumpRow = readonly [table: Table, chain: string, target: string, condition: string, note: string];

/** In kube-proxy's order. Each jump is inserted at the top, so the last one comes first in its chain. */
const ROWS: readonly JumpRow[] = [
  ['filter', 'INPUT', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS],
  ['filter', 'FORWARD', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS],
  ['filter', 'INPUT', NODE_PORTS, '', 'kubernetes health check service ports'],
  ['filter', 'FORWARD', SERVICES, NEW, PORTALS],
  ['filter', 'OUTPUT', SERVICES, NEW, PORTALS],
  ['filter', 'FORWARD', FORWARD, '', 'kubernetes forwarding rules'],
  ['filter', 'INPUT', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['filter', 'OUTPUT', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['filter', 'FORWARD', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['nat', 'OUTPUT', SERVICES, '', PORTALS],
  ['nat', 'PREROUTING', SERVICES, '', PORTALS],
  ['nat', 'POSTROUTING', POSTROUTING, '', 'kubernetes postrouting rules'],
];

export const JUMPS: readonly Jump[] = ROWS.map(([table, chain, target, condition, note]) =>
  jumpRule({ table, chain, target, condition, note }),
);
