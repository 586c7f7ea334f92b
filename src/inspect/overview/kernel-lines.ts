/**
 * The rules, elements or virtual servers of a Service in a view of the kernel (`proxy/modes/view.ts`). The cost grows with the Service,
 * not with their number. Pure.
 */
import { type Address, cidrContains, type Family, type Protocol } from '../../base/address.ts';
import type { NftElement, NftSet } from '../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { TREES } from '../../proxy/modes/iptables/render.ts';
import { DETOUR_TREE } from '../../proxy/modes/ipvs/render.ts';
import { endpointChain, serviceChains } from '../../proxy/modes/netfilter/balancer.ts';
import type { TreeNames } from '../../proxy/modes/netfilter/dispatch-tree.ts';
import type { Rule, Table } from '../../proxy/modes/netfilter/rules.ts';
import { ownerOfRule } from '../../proxy/modes/netfilter/rules-view.ts';
import { numberWord, portKey, rangeOf, socketKey } from '../../proxy/modes/nft-table/element-bytes.ts';
import { entryText, ruleText } from '../../proxy/modes/nft-table/print.ts';
import { LOCAL, SETS } from '../../proxy/modes/nftables/table-layout.ts';
import type { FamilyView, RulesView, ServersView, TableView } from '../../proxy/modes/view.ts';
import { destinationText, serverKey, serverText } from '../../proxy/modes/virtual-servers/tracked-objects.ts';
import { type ParsedRule, parseRule } from '../explain/rule.ts';
import type { KernelPlace, ServiceAnswer } from '../wire/services.ts';

export type KernelLines = Pick<ServiceAnswer, 'rules' | 'rulesOmitted'>;

/** Lines of an answer. */
const MAX_LINES = 300;

interface KernelFacts {
  readonly view: FamilyView;
  /** Addresses of this node that serve node ports. */
  readonly nodePortAddresses: readonly Address[];
}

/** `ports`: all ServicePorts of one Service; those of another family than the view's are left out. */
export function kernelPlaces(all: readonly ServicePort[], { view, nodePortAddresses }: KernelFacts): KernelPlace[] {
  const ports = all.filter(({ family }) => family === view.family);
  if (view.table !== undefined) return elementLines(ports, view.table, view.family);
  const { rules, servers } = view;
  const ofServers = servers === undefined ? [] : serverLines(ports, servers, nodePortAddresses);
  if (rules === undefined) return ofServers;
  if (servers === undefined) return ruleLines(ports, rules, Object.values(TREES));
  return [...ofServers, ...ruleLines(expanded(ports, nodePortAddresses), rules, [DETOUR_TREE])];
}

/** The first lines. */
export function firstLines(places: readonly KernelPlace[], limit = MAX_LINES): KernelLines {
  const rules: KernelPlace[] = [];
  let left = limit;
  for (const { where, lines } of places) {
    const shown = lines.slice(0, left);
    if (shown.length > 0) rules.push({ where, lines: shown });
    left -= shown.length;
  }
  const all = places.reduce((sum, { lines }) => sum + lines.length, 0);
  return { rules, rulesOmitted: all - (limit - left) };
}

/** Node ports as frontends of each address, as IPVS mode has them. */
function expanded(ports: readonly ServicePort[], nodePortAddresses: readonly Address[]): ServicePort[] {
  return ports.map((port) => ({
    ...port,
    frontends: port.frontends.flatMap((frontend) =>
      frontend.address === undefined ? nodePortAddresses.map((address) => ({ ...frontend, address })) : frontend,
    ),
  }));
}

/** Servers of IPVS, as arguments of ipvsadm(8). */
function serverLines(
  ports: readonly ServicePort[],
  view: ServersView,
  nodePortAddresses: readonly Address[],
): KernelPlace[] {
  return ports.flatMap(({ frontends, protocol }) =>
    frontends.flatMap(({ address, port }) => {
      const addresses = address === undefined ? nodePortAddresses : [address];
      return addresses.flatMap((at) => {
        const found = view.server({ protocol, address: at, port });
        if (found === undefined) return [];
        const { server, destinations, owner } = found;
        const lines = destinations.map((destination) => destinationText({ server, destination, owner }));
        return [{ where: `virtual server ${serverKey(server)}`, lines: [serverText({ server, owner }), ...lines] }];
      });
    }),
  );
}

const OF_ADDRESS = [SETS.services, SETS.refusals, SETS.guarded, SETS.serviceConnections] as const;
const OF_NODE_PORT = [SETS.nodePorts, SETS.nodePortRefusals, SETS.nodePortConnections] as const;
/** Chains that are followed. */
const MAX_CHAINS = 100;

/** Elements in the table of nftables mode, and the chains to which they lead. */
function elementLines(ports: readonly ServicePort[], view: TableView, family: Family): KernelPlace[] {
  const found = new Map<NftSet, NftElement[]>();
  const add = (set: NftSet, key: string): boolean => {
    const element = view.element(set.name, key);
    if (element === undefined) return false;
    const elements = found.get(set) ?? [];
    elements.push(element);
    found.set(set, elements);
    return true;
  };
  for (const port of ports) for (const frontend of port.frontends) addFrontend(port, frontend, add);
  const places = [...found].map(([set, elements]) => ({
    where: `${set.data === undefined ? 'set' : 'map'} ${set.name}`,
    lines: elements.map((element) => entryText(set, element, family)),
  }));
  const verdicts = [...found].filter(([{ data }]) => data === 'verdict').flatMap(([, elements]) => elements);
  return [
    ...places,
    ...chainLines(
      verdicts.flatMap(({ data }) => chainOf(data)),
      view,
    ),
  ];
}

function addFrontend(
  port: ServicePort,
  { address, port: number }: Frontend,
  add: (set: NftSet, key: string) => boolean,
) {
  const { protocol, sourceRanges = [] } = port;
  const key = address === undefined ? portKey(protocol, number) : socketKey(address, protocol, number);
  for (const set of address === undefined ? OF_NODE_PORT : OF_ADDRESS) add(set, key);
  const endpoints = address === undefined ? SETS.nodePortEndpoints : SETS.endpoints;
  for (const first of [0, LOCAL]) {
    // Their numbers have no gaps.
    for (let i = 0; add(endpoints, key + numberWord(first + i)); i++);
  }
  if (address === undefined) return;
  for (const range of sourceRanges) add(SETS.sourceRanges, key + rangeOf(range).first);
}

/** `goto CHAIN` */
function chainOf(verdict: string): string[] {
  return verdict.startsWith('goto ') ? [verdict.slice('goto '.length)] : [];
}

/** The chains, and those to which they lead. */
function chainLines(first: readonly string[], view: TableView): KernelPlace[] {
  const names = new Set(first);
  const places: KernelPlace[] = [];
  for (const name of names) {
    const rules = view.chain(name);
    if (rules === undefined) continue;
    places.push({ where: `chain ${name}`, lines: rules.map(ruleText) });
    for (const { expressions } of rules) {
      for (const expression of expressions) {
        if (expression.do !== 'verdict' || !('chain' in expression.verdict)) continue;
        if (names.size < MAX_CHAINS) names.add(expression.verdict.chain);
      }
    }
  }
  return places;
}

const KINDS = ['SVC', 'SVL', 'EXT', 'FW'] as const;
/** Chains of a tree below its root. */
const MAX_DEPTH = 40;

/** A tree whose rules lead to Services. */
type RuleTree = TreeNames & { readonly table: Table };

/** Rules of iptables that lead to the Service, and its chains. In IPVS mode some Services have them. */
function ruleLines(ports: readonly ServicePort[], view: RulesView, trees: readonly RuleTree[]): KernelPlace[] {
  const places = new Map<string, string[]>();
  const add = (table: Table, chain: string, rules: readonly Rule[]) => {
    if (rules.length === 0) return;
    const where = `${table} chain ${chain}`;
    const lines = places.get(where) ?? [];
    places.set(where, lines);
    for (const { text } of rules) if (!lines.includes(text)) lines.push(text);
  };
  for (const port of ports) for (const wanted of wantedOf(port)) addLeading(wanted, { view, trees }, add);
  for (const port of ports) for (const chain of chainsOf(port, view)) add('nat', chain, view.chain('nat', chain) ?? []);
  return [...places].map(([where, lines]) => ({ where, lines }));
}

/** Its own chains, in the order in which a packet meets them. */
function chainsOf(port: ServicePort, view: RulesView): ReadonlySet<string> {
  const nameOf = serviceChains(port.id, port.protocol);
  const names = new Set<string>(KINDS.map(nameOf));
  for (const name of names) {
    for (const { text } of view.chain('nat', name) ?? []) {
      const { target } = parseRule(text);
      if (target.startsWith('KUBE-SEG-') || target.startsWith('KUBE-SEP-')) names.add(target);
    }
  }
  // Group chains lead to them; they are named here in case the groups are gone.
  for (const { text } of [...port.cluster, ...port.local]) names.add(endpointChain(port.id, port.protocol, text));
  return names;
}

/** A packet to a frontend. */
interface WantedFrontend {
  readonly service: ServiceKey;
  readonly protocol: Protocol;
  readonly address: Address | undefined;
  readonly port: number;
}

function wantedOf({ service, protocol, frontends, healthCheckNodePort }: ServicePort): WantedFrontend[] {
  const all = frontends.map(({ address, port }) => ({ service, protocol, address, port }));
  if (healthCheckNodePort === 0) return all;
  return [...all, { service, protocol: 'TCP', address: undefined, port: healthCheckNodePort }];
}

type Add = (table: Table, chain: string, rules: readonly Rule[]) => void;

/** The rules that lead the packet to the Service. Only branches that it can take are followed. */
function addLeading(
  wanted: WantedFrontend,
  { view, trees }: { readonly view: RulesView; readonly trees: readonly RuleTree[] },
  add: Add,
): void {
  for (const { table, root, prefix } of trees) {
    const follow = (chain: string, depth: number): void => {
      const rules = view.chain(table, chain) ?? [];
      const met = rules
        .map((rule) => ({ rule, parsed: parseRule(rule.text) }))
        .filter(({ parsed }) => mayMatch(parsed, wanted));
      const own = met.map(({ rule }) => rule).filter((rule) => ownerOfRule(rule) === wanted.service);
      add(table, chain, own);
      for (const { parsed } of met) {
        if (parsed.target.startsWith(prefix) && depth < MAX_DEPTH) follow(parsed.target, depth + 1);
      }
    };
    follow(root, 0);
  }
}

/** False where its destination, protocol or port is another one. */
function mayMatch({ matches }: ParsedRule, { address, protocol, port }: WantedFrontend): boolean {
  return matches.every((match) => {
    switch (match.of) {
      case 'destination':
        if (address === undefined) return match.inverted;
        return cidrContains(match.net.cidr, address) !== match.inverted;
      case 'protocol':
        return (match.value === protocol) !== match.inverted;
      case 'port':
        return (match.first <= port && port <= match.last) !== match.inverted;
      default:
        return true;
    }
  });
}
