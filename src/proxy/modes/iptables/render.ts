/** One ServicePort as rules: its chains and its entries in dispatch trees (docs/semantics.md 6 and 7, docs/iptables.md). Pure. */
import { type Cidr, cidrContains } from '../../../base/address.ts';
import { type Limit, limitNamed } from '../../model/limits.ts';
import { compact } from '../../model/objects.ts';
import { type Backend, type Frontend, isLimitedAt, type ServicePort } from '../../model/service-port.ts';
import { balancer, type ServiceChainKind, serviceChains } from '../netfilter/balancer.ts';
import type { TreeNames } from '../netfilter/dispatch-tree.ts';
import { addressKey, portKey, socketKey } from '../netfilter/key-space.ts';
import { hairpinBackends, isEverybodyLocal, localMatch } from '../netfilter/local-traffic.ts';
import {
  type ChainKey,
  chainKey,
  EXTERNAL_SERVICES,
  HAIRPIN,
  MARK_MASQ,
  NODE_PORT_REJECTS,
  NODE_PORTS,
  PROXY_FIREWALL,
  SERVICES,
} from '../netfilter/names.ts';
import {
  type Chain,
  comment,
  from,
  jump,
  MASQUERADE,
  protocol,
  type Rule,
  reject,
  rule,
  type Table,
  to,
  toPort,
} from '../netfilter/rules.ts';
import type { IptablesSettings } from './static-chains.ts';

/** The dispatch trees. Their roots are kube-proxy's chains where it has one. The last letter of the prefix distinguishes the trees of one table. */
export const TREES = {
  services: { table: 'nat', root: SERVICES, prefix: 'KUBE-DSS' },
  nodePorts: { table: 'nat', root: NODE_PORTS, prefix: 'KUBE-DSN' },
  hairpin: { table: 'nat', root: HAIRPIN, prefix: 'KUBE-DSM' },
  rejects: { table: 'filter', root: SERVICES, prefix: 'KUBE-DSR' },
  externalRejects: { table: 'filter', root: EXTERNAL_SERVICES, prefix: 'KUBE-DSX' },
  nodePortRejects: { table: 'filter', root: NODE_PORT_REJECTS, prefix: 'KUBE-DSP' },
  healthPorts: { table: 'filter', root: NODE_PORTS, prefix: 'KUBE-DSH' },
  firewall: { table: 'filter', root: PROXY_FIREWALL, prefix: 'KUBE-DSF' },
} as const satisfies Readonly<Record<string, TreeNames & { table: Table }>>;
export type TreeName = keyof typeof TREES;

/** An entry of a dispatch tree. */
export interface TreeEntry {
  readonly tree: TreeName;
  readonly key: string;
  readonly id: string;
  readonly rule: Rule;
}

export interface RenderedChains {
  readonly chains: readonly (readonly [ChainKey, Chain])[];
  readonly entries: readonly TreeEntry[];
  /** Addresses of backends that may reach themselves: such connections are masqueraded. */
  readonly hairpin: readonly Backend['address'][];
}

/** The context of all rules of a ServicePort. */
interface RenderContext {
  readonly port: ServicePort;
  readonly settings: IptablesSettings;
  readonly chains: Map<ChainKey, Chain>;
  readonly entries: TreeEntry[];
  /** Names of the chains of the ServicePort. */
  readonly name: (kind: ServiceChainKind) => string;
}

export function renderPort(port: ServicePort, settings: IptablesSettings): RenderedChains {
  const context: RenderContext = {
    port,
    settings,
    chains: new Map(),
    entries: [],
    name: serviceChains(port.id, port.protocol),
  };
  const loadBalancers = port.frontends.filter((frontend) => frontend.role === 'load-balancer');
  const ranges = loadBalancers.length > 0 && port.hasAny ? port.sourceRanges : undefined;
  const guarded = ranges !== undefined;
  for (const frontend of port.frontends) addFrontend(context, frontend, guarded);
  if (guarded) addChain(context, context.name('FW'), firewallRules(context, { loadBalancers, ranges }));
  const isEntered = (frontend: Frontend) =>
    frontend.role === 'load-balancer' ? ranges === undefined || ranges.length > 0 : frontend.role !== 'cluster-ip';
  if (port.hasAny && port.frontends.some(isEntered)) {
    addChain(context, context.name('EXT'), externalRules(context));
  }
  if (isLimited(port)) addChain(context, context.name('LIM'), limitRules(context));
  if (port.cluster.length > 0)
    addBalancer(context, context.name('SVC'), port.cluster, port.internalPolicy === 'Cluster');
  if (port.local.length > 0) addBalancer(context, context.name('SVL'), port.local, port.internalPolicy === 'Local');
  if (port.healthCheckNodePort !== 0) addHealthPort(context);
  const hairpin = new Set(hairpinBackends(port, settings.localDetector).map(({ address }) => address));
  return { chains: [...context.chains], entries: compact(context.entries), hairpin: compact([...hairpin]) };
}

/** `-s IP -d IP` of a connection that was translated: the endpoint reached itself through its Service. */
export function hairpinEntry(address: Backend['address']): Omit<TreeEntry, 'tree'> {
  const text = rule([from(address), to(address), '-m conntrack --ctstate DNAT', MASQUERADE]);
  return { key: addressKey(address), id: '', rule: text };
}

function addChain(context: RenderContext, chain: string, rules: Chain): void {
  context.chains.set(chainKey('nat', chain), compact(rules));
}

function mine(context: RenderContext, ...parts: (string | undefined)[]): Rule {
  return rule(parts, context.port.service);
}

function note(context: RenderContext, text: string): string {
  return comment(`${context.port.id} ${text}`);
}

/** `-d ADDRESS -p PROTO comment -m PROTO --dport PORT` */
function socket(context: RenderContext, frontend: Frontend, text: string): string {
  const destination = frontend.address === undefined ? undefined : to(frontend.address);
  const { protocol: name } = context.port;
  const parts = [destination, protocol(name), text, toPort(name, frontend.port)];
  return parts.filter((part) => part !== undefined).join(' ');
}

function addFrontend(context: RenderContext, frontend: Frontend, guarded: boolean): void {
  if (frontend.role === 'node-port') {
    addNodePort(context, frontend);
    return;
  }
  const { address } = frontend;
  if (address === undefined) return;
  const { port, entries } = context;
  const key = socketKey(address, port.protocol, frontend.port);
  const add = (tree: TreeName, value: Rule) => {
    entries.push({ tree, key, id: `${port.key} ${frontend.role}`, rule: value });
  };
  if (frontend.role === 'cluster-ip') {
    const target = frontend.policy === 'Local' ? context.name('SVL') : context.name('SVC');
    if (frontend.empty === undefined) {
      add('services', mine(context, socket(context, frontend, note(context, 'cluster IP')), jump(target)));
    }
    if (isRefusing(port, frontend)) add('rejects', refusal(context, frontend));
    return;
  }
  const isVip = frontend.role === 'load-balancer';
  if (port.hasAny) {
    const target = isVip && guarded ? context.name('FW') : context.name('EXT');
    const words = isVip ? 'loadbalancer IP' : 'external IP';
    add('services', mine(context, socket(context, frontend, note(context, words)), jump(target)));
  }
  if (isVip && guarded) {
    const words = note(context, `traffic not accepted by ${context.name('FW')}`);
    add('firewall', mine(context, socket(context, frontend, words), jump('DROP')));
  }
  if (isRefusing(port, frontend)) add('externalRejects', refusal(context, frontend));
}

/** Whether the filter refuses or drops what is not translated: all connections, or those beyond a limit. */
function isRefusing(port: ServicePort, frontend: Frontend): boolean {
  return frontend.empty !== undefined || (isLimited(port) && isLimitedAt(port, frontend));
}

function addNodePort(context: RenderContext, frontend: Frontend): void {
  const { port, entries } = context;
  const key = portKey(port.protocol, frontend.port);
  if (port.hasAny) {
    const text = mine(context, socket(context, frontend, comment(port.id)), jump(context.name('EXT')));
    entries.push({ tree: 'nodePorts', key, id: port.key, rule: text });
  }
  if (isRefusing(port, frontend)) {
    entries.push({ tree: 'nodePortRejects', key, id: port.key, rule: refusal(context, frontend) });
  }
}

/** The rule of a frontend without usable endpoints, or with a limit: it drops if only other nodes have endpoints, and refuses otherwise. */
function refusal(context: RenderContext, frontend: Frontend): Rule {
  const dropped = frontend.empty === 'drop';
  const { port, settings } = context;
  // "Port unreachable" goes to one client once a second (icmp_ratelimit), and others would wait.
  const isOverLimit = frontend.empty === undefined;
  const byReset = (settings.refusesByReset === true || isOverLimit) && port.protocol === 'TCP';
  const none = dropped ? 'has no local endpoints' : 'has no endpoints';
  const words = note(context, isOverLimit ? 'is over a limit' : none);
  // An endpoint may have the address and port of a frontend.
  const state = isOverLimit ? '-m conntrack ! --ctstate DNAT' : undefined;
  return mine(context, socket(context, frontend, words), state, dropped ? jump('DROP') : reject(port.family, byReset));
}

function addHealthPort(context: RenderContext): void {
  const { healthCheckNodePort: number, key } = context.port;
  const words = note(context, 'health check node port');
  const text = mine(context, protocol('TCP'), words, toPort('TCP', number), jump('ACCEPT'));
  context.entries.push({ tree: 'healthPorts', key: portKey('TCP', number), id: key, rule: text });
}

/** KUBE-EXT: traffic to an external address or node port. */
function externalRules(context: RenderContext): Rule[] {
  const { port, settings } = context;
  const text = (words: string) => comment(`${words} ${port.id} external destinations`);
  const rules: Rule[] = [];
  const usable = port.frontends.some((frontend) => frontend.role !== 'cluster-ip' && frontend.empty === undefined);
  if (port.externalPolicy === 'Cluster') {
    rules.push(mine(context, text('masquerade traffic for'), jump(MARK_MASQ)));
    if (usable) rules.push(mine(context, jump(context.name('SVC'))));
    return rules;
  }
  // Pods and the node itself reach all endpoints: the policy is only for traffic from outside (docs/semantics.md 4.1).
  if (port.cluster.length > 0) {
    const { source, device } = localMatch(settings.localDetector, true);
    if (settings.localDetector.kind !== 'none') {
      rules.push(mine(context, source, device, text('pod traffic for'), jump(context.name('SVC'))));
    }
    const fromNode = '-m addrtype --src-type LOCAL';
    rules.push(mine(context, text('masquerade LOCAL traffic for'), fromNode, jump(MARK_MASQ)));
    rules.push(mine(context, text('route LOCAL traffic for'), fromNode, jump(context.name('SVC'))));
  }
  if (usable) rules.push(mine(context, jump(context.name('SVL'))));
  return rules;
}

/** KUBE-FW: only the source ranges pass; the filter table drops the rest. */
function firewallRules(
  context: RenderContext,
  { loadBalancers, ranges }: { loadBalancers: readonly Frontend[]; ranges: readonly Cidr[] },
): Rule[] {
  const { port, settings } = context;
  const words = note(context, 'loadbalancer IP');
  const rules = ranges.map((range) => mine(context, from(range), words, jump(context.name('EXT'))));
  const admitsNode = ranges.some((range) => settings.nodeAddresses.some((ip) => cidrContains(range, ip)));
  if (admitsNode) {
    // A packet from the node to a load-balancer address of its own has that address as its source.
    for (const { address } of loadBalancers) {
      if (address !== undefined) rules.push(mine(context, from(address), words, jump(context.name('EXT'))));
    }
  }
  rules.push(mine(context, comment(`other traffic to ${port.id} will be dropped by KUBE-PROXY-FIREWALL`)));
  return rules;
}

/** KUBE-SVC or KUBE-SVL: masquerade if needed, then choose a backend. */
function addBalancer(context: RenderContext, chain: string, backends: readonly Backend[], isInternal: boolean): void {
  const first: Rule[] = isLimited(context.port)
    ? [mine(context, comment(context.port.id), jump(context.name('LIM')))]
    : [];
  const clusterIP = context.port.frontends.find((frontend) => frontend.role === 'cluster-ip');
  if (isInternal && clusterIP !== undefined && clusterIP.empty === undefined) {
    const masquerade = clusterIPMasquerade(context, clusterIP);
    if (masquerade !== undefined) first.push(masquerade);
  }
  for (const [key, rules] of balancer(context.port, { chain, backends, first })) context.chains.set(key, rules);
}

function isLimited({ limits, hasAny }: ServicePort): boolean {
  return hasAny && rateOf(limits) !== undefined;
}

function rateOf(limits: ServicePort['limits']): Limit | undefined {
  return limitNamed(limits, 'new-connections');
}

/** Units of a second in which hashlimit counts (XT_HASHLIMIT_SCALE_v2, linux/netfilter/xt_hashlimit.h). */
const SCALE = 1_000_000;

/**
 * KUBE-LIM: a connection beyond the rate is not translated, and the filter table refuses it. The name has the rate, because a table of
 * hashlimit that a rule of the same name still uses keeps its own (xt_hashlimit.c, htable_find_get).
 */
function limitRules(context: RenderContext): Rule[] {
  const { port } = context;
  const limit = rateOf(port.limits);
  if (limit === undefined) return [];
  const { most, burst } = limit;
  // The rate that iptables-save prints: hashlimit has whole units between two packets.
  const rate = Math.floor(SCALE / Math.floor(SCALE / most));
  // A table that had no packet for so long begins with the whole burst again. A second is the default, and not printed.
  const refill = Math.max(1000, Math.ceil((burst * 1000) / most));
  const match = [
    '-m hashlimit',
    `--hashlimit-above ${rate}/sec`,
    `--hashlimit-burst ${burst}`,
    `--hashlimit-name ${context.name('LIM')}-${most}-${burst}`,
    ...(refill === 1000 ? [] : [`--hashlimit-htable-expire ${refill}`]),
  ].join(' ');
  return [mine(context, note(context, `over ${limit.name}`), match, jump('ACCEPT'))];
}

/** Without masquerading, replies to cluster IP traffic that is not from a pod would bypass this node (docs/semantics.md 7.3). */
function clusterIPMasquerade(context: RenderContext, frontend: Frontend): Rule | undefined {
  const { settings } = context;
  const { source, device } = localMatch(settings.localDetector, false);
  if (!settings.masqueradeAll && isEverybodyLocal(settings.localDetector)) return undefined;
  const match = socket(context, frontend, note(context, 'cluster IP'));
  if (settings.masqueradeAll) return mine(context, match, jump(MARK_MASQ));
  if (device === undefined) return mine(context, source, match, jump(MARK_MASQ));
  // iptables-save prints -d before -i.
  return mine(context, match.replace(/^(-d \S+)/, `$1 ${device}`), jump(MARK_MASQ));
}
