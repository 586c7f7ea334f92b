/** What the kernel has for a Service, by a view of it (`proxy/modes/view.ts`): rules, elements or virtual servers. The cost follows the Service. Pure. */
import { type Address, type Cidr, cidrContains, type Family, parseAddress, parseCidr } from '../../base/address.ts';
import type { NftElement, NftSet } from '../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { TREES } from '../../proxy/modes/iptables/render.ts';
import { DETOUR_TREE } from '../../proxy/modes/ipvs/render.ts';
import { endpointChain, serviceChains } from '../../proxy/modes/netfilter/balancer.ts';
import type { TreeNames } from '../../proxy/modes/netfilter/dispatch-tree.ts';
import { ownerInComment, type Rule, type Table } from '../../proxy/modes/netfilter/rules.ts';
import { numberWord, portKey, rangeOf, socketKey } from '../../proxy/modes/nft-table/element-bytes.ts';
import { entryText, ruleText } from '../../proxy/modes/nft-table/print.ts';
import { LOCAL, SETS } from '../../proxy/modes/nftables/names.ts';
import type { FamilyView, RulesView, ServersView, TableView } from '../../proxy/modes/view.ts';
import { destinationText, serverKey, serverText } from '../../proxy/modes/virtual-servers/tracked-objects.ts';
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
export function firstLines(places: readonly KernelPlace[], most = MAX_LINES): KernelLines {
  const rules: KernelPlace[] = [];
  let left = most;
  for (const { where, lines } of places) {
    const shown = lines.slice(0, left);
    if (shown.length > 0) rules.push({ where, lines: shown });
    left -= shown.length;
  }
  const all = places.reduce((sum, { lines }) => sum + lines.length, 0);
  return { rules, rulesOmitted: all - (most - left) };
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

// The elements of a Service in the table of nftables mode, and the chains to which they lead. Pure.

const OF_ADDRESS = [SETS.services, SETS.refusals, SETS.guarded, SETS.serviceConnections] as const;
const OF_NODE_PORT = [SETS.nodePorts, SETS.nodePortRefusals, SETS.nodePortConnections] as const;
/** Chains that are followed. */
const MAX_CHAINS = 100;

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

// The rules of a Service: those that lead to it, and its chains. In IPVS mode some Services have them. Pure.

const KINDS = ['SVC', 'SVL', 'EXT', 'FW'] as const;
/** Chains of a tree below its root. */
const DEEPEST = 40;

/** A tree whose rules lead to Services. */
type RuleTree = TreeNames & { readonly table: Table };

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
      const to = target(text);
      if (to?.startsWith('KUBE-SEG-') || to?.startsWith('KUBE-SEP-')) names.add(to);
    }
  }
  // Group chains lead to them; they are named here in case the groups are gone.
  for (const { text } of [...port.cluster, ...port.local]) names.add(endpointChain(port.id, port.protocol, text));
  return names;
}

/** A packet to a frontend. */
interface WantedFrontend {
  readonly service: ServiceKey;
  readonly protocol: string;
  readonly address: Address | undefined;
  readonly port: number;
}

function wantedOf({ service, protocol, frontends, healthCheckNodePort }: ServicePort): WantedFrontend[] {
  const all = frontends.map(({ address, port }) => ({ service, protocol: protocol.toLowerCase(), address, port }));
  if (healthCheckNodePort === 0) return all;
  return [...all, { service, protocol: 'tcp', address: undefined, port: healthCheckNodePort }];
}

type Add = (table: Table, chain: string, rules: readonly Rule[]) => void;

/** The rules that lead the packet to the Service: only branches that it can take are followed. */
function addLeading(
  wanted: WantedFrontend,
  { view, trees }: { readonly view: RulesView; readonly trees: readonly RuleTree[] },
  add: Add,
): void {
  for (const { table, root, prefix } of trees) {
    const follow = (chain: string, depth: number): void => {
      const rules = view.chain(table, chain) ?? [];
      add(
        table,
        chain,
        rules.filter((rule) => isOf(wanted.service, rule) && mayMatch(rule.text, wanted)),
      );
      for (const { text } of rules) {
        const to = target(text);
        if (to?.startsWith(prefix) && depth < DEEPEST && mayMatch(text, wanted)) follow(to, depth + 1);
      }
    };
    follow(root, 0);
  }
}

function isOf(service: ServiceKey, { owner, text }: Rule): boolean {
  return (owner ?? ownerInComment(text)) === service;
}

function target(text: string): string | undefined {
  return / ?-[jg] (\S+)/.exec(text)?.[1];
}

/** False where its destination, protocol or port is another one. */
function mayMatch(text: string, { address, protocol, port }: WantedFrontend): boolean {
  const [, destination] = /(?:^| )-d (\S+)/.exec(text) ?? [];
  if (destination !== undefined && (address === undefined || !contains(destination, address))) return false;
  const [, name] = /(?:^| )-p (\S+)/.exec(text) ?? [];
  if (name !== undefined && name !== protocol) return false;
  const [, first, last = first] = /--dport (\d+)(?::(\d+))?/.exec(text) ?? [];
  return first === undefined || (Number(first) <= port && port <= Number(last));
}

function contains(destination: string, address: Address): boolean {
  const range: Cidr | undefined = parseCidr(destination);
  return range === undefined ? parseAddress(destination) === address : cidrContains(range, address);
}
