/**
 * The settings of IPVS mode, and its rules (docs/ipvs.md). The rules refer to sets, so they do not depend on the Services: kube-proxy
 * omits a rule whose set is empty, slicewire always writes it, and no change of a Service writes a rule. Pure.
 */
import type { SchedulerText } from '../../model/ipvs-scheduler.ts';
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import { type FamilySettings, isEverybodyLocal, localMatch } from '../netfilter/local-traffic.ts';
import {
  CANARY,
  type ChainKey,
  chainKey,
  FORWARD,
  IPVS_FILTER,
  LOAD_BALANCER,
  LOCAL_DETOUR,
  MARK_MASQ,
  NODE_PORT,
  OUT_FILTER,
  POSTROUTING,
  PROXY_FIREWALL,
  SERVICES,
  SOURCE_RANGES,
} from '../netfilter/names.ts';
import {
  type Chain,
  comment,
  forwardRules,
  jump,
  MASQUERADE,
  markMatch,
  markRules,
  masqueradeMarked,
  type Rule,
  reject,
  rule,
  type Table,
} from '../netfilter/rules.ts';
import { type SetId, setName } from '../virtual-servers/sets.ts';
import { SOURCE_JUMP, sourceChain } from '../virtual-servers/source-chain.ts';
import type { ServersSettings } from '../virtual-servers/state.ts';

/** The settings of one family on which IPVS mode depends. */
export interface IpvsSettings extends FamilySettings, ServersSettings {
  /** Of Services that name none. */
  readonly scheduler: SchedulerText;
}

const NEW = '-m conntrack --ctstate NEW';
const FROM_NODE = '-m addrtype --src-type LOCAL';
const SOCKET = 'dst,dst';

type SetMatch = (id: SetId, which: string) => string;

export function staticChains(settings: IpvsSettings): Map<ChainKey, Chain> {
  const { family, masqueradeBit } = settings;
  const inSet: SetMatch = (id, which) => `-m set --match-set ${setName(family, id)} ${which}`;
  const chains = new Map<ChainKey, Chain>();
  const add = (table: 'nat' | 'filter' | 'mangle', chain: string, ...rules: Rule[]) => {
    chains.set(chainKey(table, chain), rules);
  };
  add('nat', MARK_MASQ, ...markRules(masqueradeBit));
  const hairpin = comment('Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose');
  add(
    'nat',
    POSTROUTING,
    rule([hairpin, inSet('KUBE-LOOP-BACK', 'dst,dst,src'), MASQUERADE]),
    ...masqueradeMarked(masqueradeBit),
  );
  add('nat', SERVICES, ...servicesRules(settings, inSet));
  add('nat', LOAD_BALANCER, ...loadBalancerRules(inSet));
  add('nat', NODE_PORT, ...nodePortRules(inSet));
  for (const [key, chain] of sourceChain(family)) chains.set(key, chain);
  add('filter', FORWARD, ...forwardRules(masqueradeBit));
  add('filter', NODE_PORT, rule([inSet('KUBE-HEALTH-CHECK-NODE-PORT', 'dst'), jump('ACCEPT')]));
  add('filter', PROXY_FIREWALL, rule([NEW, inSet('KUBE-LOAD-BALANCER-FW', SOCKET), jump(SOURCE_RANGES)]));
  add('filter', SOURCE_RANGES, ...rangeRules(inSet));
  add('filter', IPVS_FILTER, ...accessRules(settings, inSet));
  add('mangle', OUT_FILTER, rule([NEW, inSet('KUBE-IPVS-OUT-DROP', SOCKET), jump('DROP')]));
  for (const table of ['mangle', 'nat', 'filter'] as const) add(table, CANARY);
  return chains;
}

/** nat KUBE-SERVICES: which traffic is masqueraded, and which is balanced by rules (`render.ts`, addDetour). */
function servicesRules(settings: IpvsSettings, inSet: SetMatch): Rule[] {
  const { family, masqueradeAll, localDetector } = settings;
  const rules = [rule([family === 'IPv4' ? '-s 127.0.0.0/8' : '-s ::1/128', jump('RETURN')])];
  // A source outside the ranges is dropped on arrival (filter KUBE-SOURCE-RANGES-FIREWALL) and must not take another way.
  const inRange = (id: SetId) => inSet(id, 'dst,dst,src').replace('--match-set', '! --match-set');
  const outOfRange = [inRange('KUBE-LOAD-BALANCER-SOURCE-CIDR'), inRange('KUBE-LOAD-BALANCER-SOURCE-IP')];
  rules.push(rule([inSet('KUBE-LOAD-BALANCER-FW', SOCKET), ...outOfRange, jump('RETURN')]));
  const detour = inSet('KUBE-IPVS-DETOUR', SOCKET);
  if (localDetector.kind !== 'none') {
    const { source, device } = localMatch(localDetector, true);
    rules.push(rule([source, device, detour, jump(LOCAL_DETOUR)]));
  }
  rules.push(rule([FROM_NODE, detour, jump(MARK_MASQ)]), rule([FROM_NODE, detour, jump(LOCAL_DETOUR)]));
  const words = comment('Kubernetes service cluster ip + port for masquerade purpose');
  const cluster = inSet('KUBE-CLUSTER-IP', SOCKET);
  if (masqueradeAll) rules.push(rule([words, cluster, jump(MARK_MASQ)]));
  else if (!isEverybodyLocal(localDetector)) {
    const { source, device } = localMatch(localDetector, false);
    rules.push(rule([source, device, words, cluster, jump(MARK_MASQ)]));
  }
  rules.push(
    rule([
      comment('Kubernetes service external ip + port for masquerade and filter purpose'),
      inSet('KUBE-EXTERNAL-IP', SOCKET),
      jump(MARK_MASQ),
    ]),
    rule([comment('Kubernetes service lb portal'), inSet('KUBE-LOAD-BALANCER', SOCKET), jump(LOAD_BALANCER)]),
  );
  // No rule of another program may translate traffic to a Service.
  for (const id of ['KUBE-CLUSTER-IP', 'KUBE-EXTERNAL-IP', 'KUBE-EXTERNAL-IP-LOCAL', 'KUBE-LOAD-BALANCER'] as const) {
    rules.push(rule([inSet(id, SOCKET), jump('ACCEPT')]));
  }
  rules.push(rule([inSet('KUBE-IPVS-SERVERS', SOCKET), jump(NODE_PORT)]));
  return rules;
}

function loadBalancerRules(inSet: SetMatch): Rule[] {
  const words = comment('Kubernetes service load balancer ip + port with externalTrafficPolicy=local');
  return [rule([words, inSet('KUBE-LOAD-BALANCER-LOCAL', SOCKET), jump('RETURN')]), rule([jump(MARK_MASQ)])];
}

/** Node ports of policy Cluster are masqueraded. */
function nodePortRules(inSet: SetMatch): Rule[] {
  const rules: Rule[] = [];
  for (const name of ['TCP', 'UDP', 'SCTP'] as const) {
    const [suffix, which] = name === 'SCTP' ? (['-HASH', SOCKET] as const) : (['', 'dst'] as const);
    const match = `-p ${name.toLowerCase()}`;
    const words = (more: string) => comment(`Kubernetes nodeport ${name} port${more} for masquerade purpose`);
    const local = inSet(`KUBE-NODE-PORT-LOCAL-${name}${suffix}` as SetId, which);
    const all = inSet(`KUBE-NODE-PORT-${name}${suffix}` as SetId, which);
    rules.push(rule([match, words(' with externalTrafficPolicy=local'), local, jump('RETURN')]));
    rules.push(rule([match, words(''), all, jump(MARK_MASQ)]));
  }
  return rules;
}

/** The sources that may use a load balancer address with source ranges. */
function rangeRules(inSet: SetMatch): Rule[] {
  return [
    rule([inSet('KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src'), jump('RETURN')]),
    rule([inSet('KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src'), jump('RETURN')]),
    rule([jump('DROP')]),
  ];
}

/** filter INPUT, before IPVS: Services pass, and Service addresses do not reach programs of the node itself (k8s#72236). */
function accessRules({ family, masqueradeBit }: IpvsSettings, inSet: SetMatch): Rule[] {
  const served = inSet('KUBE-IPVS-SERVERS', SOCKET);
  return [
    rule([comment('policy Local, no endpoint here'), NEW, inSet('KUBE-IPVS-DROP', SOCKET), jump('DROP')]),
    // KUBE-FORWARD accepts it in iptables mode. With IPVS it comes through INPUT, where the node's firewall must not drop it.
    rule([served, `-m mark --mark ${markMatch(masqueradeBit)}`, jump('ACCEPT')]),
    rule([served, '-m conntrack --ctstate RELATED,ESTABLISHED', jump('ACCEPT')]),
    rule([served, jump('RETURN')]),
    rule([inSet('KUBE-HEALTH-CHECK-NODE-PORT', 'dst'), jump('RETURN')]),
    rule([NEW, inSet('KUBE-IPVS-IPS', 'dst'), reject(family)]),
  ];
}

// The jumps from the kernel's built-in chains into ours (docs/ipvs.md): kube-proxy's, and two of our own.

type JumpRow = readonly [table: Table, chain: string, target: string, note: string];

const PORTALS = 'kubernetes service portals';
const FIREWALL = 'kube-proxy firewall rules';
const ACCESS = 'kubernetes ipvs access filter';

/** Each jump is inserted at the top, so the last one comes first in its chain. */
const ROWS: readonly JumpRow[] = [
  ['nat', 'OUTPUT', SERVICES, PORTALS],
  ['nat', 'PREROUTING', SERVICES, PORTALS],
  ['nat', 'POSTROUTING', POSTROUTING, 'kubernetes postrouting rules'],
  ['filter', 'FORWARD', FORWARD, 'kubernetes forwarding rules'],
  ['filter', 'INPUT', NODE_PORT, 'kubernetes health check rules'],
  ['filter', 'INPUT', IPVS_FILTER, ACCESS],
  ['filter', 'INPUT', PROXY_FIREWALL, FIREWALL],
  ['filter', 'FORWARD', PROXY_FIREWALL, FIREWALL],
  ['mangle', 'OUTPUT', OUT_FILTER, ACCESS],
];

const toJump = ([table, chain, target, note]: JumpRow): Jump => jumpRule({ table, chain, target, note });

/** The jump of the source chain is written before all others (`source-chain.ts`). */
export const JUMPS: readonly Jump[] = [SOURCE_JUMP, ...ROWS.map(toJump)];
