/** The rules of a Service: those that lead to it, and its chains. In IPVS mode some Services have them. Pure. */

import { type Address, type Cidr, cidrContains, parseAddress, parseCidr } from '../../base/address.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { ServicePort } from '../../proxy/model/service-port.ts';
import { endpointChain, serviceChains } from '../../proxy/modes/netfilter/balancer.ts';
import type { TreeNames } from '../../proxy/modes/netfilter/dispatch-tree.ts';
import { ownerInComment, type Rule, type Table } from '../../proxy/modes/netfilter/rules.ts';
import type { RulesView } from '../../proxy/modes/view.ts';
import type { KernelPlace } from '../wire/service.ts';

const KINDS = ['SVC', 'SVL', 'EXT', 'FW'] as const;
/** Chains of a tree below its root. */
const DEEPEST = 40;

/** A tree whose rules lead to Services. */
export type RuleTree = TreeNames & { readonly table: Table };

export function ruleLines(ports: readonly ServicePort[], view: RulesView, trees: readonly RuleTree[]): KernelPlace[] {
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
