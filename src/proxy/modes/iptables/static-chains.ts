/** Chains whose rules depend only on the settings (docs/semantics.md 6.11, 7.1, 8.1), and the rules after dispatch trees. Pure. */
import { type CountedRule, countedRules } from '../netfilter/counted-rules.ts';
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import { localnetGuard } from '../netfilter/local-traffic.ts';
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
} from '../netfilter/names.ts';
import { type Chain, comment, jump, type Rule, rule, type Table, to } from '../netfilter/rules.ts';
import { forwardRules, markMatch, markRules, masqueradeMarked } from '../netfilter/static-chains.ts';
import type { IptablesSettings } from './settings.ts';

/** An invalid packet would leave the node untranslated, and the client would reset the connection (k8s#74839). */
const DROPS_INVALID = rule(['-m conntrack --ctstate INVALID', jump('DROP')]);

/**
 * Only counts: the first packet of each connection that was sent to 127.0.0.0/8 and goes to an endpoint. It comes after
 * the rule that returns unmarked packets. kube-proxy counts with nfacct, which not every kernel has, and one additional rule
 * for each node port (k8s#125015).
 */
const COUNTS_LOCALHOST = rule(['-m conntrack --ctstate DNAT --ctorigdst 127.0.0.0/8']);

/** The rules whose packets are counted for metrics. */
export function countedIn(settings: IptablesSettings): CountedRule[] {
  return countedRules(staticChains(settings), [
    ['invalid-dropped', chainKey('filter', FORWARD), DROPS_INVALID],
    ['localhost-node-ports', chainKey('nat', POSTROUTING), COUNTS_LOCALHOST],
  ]);
}

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
