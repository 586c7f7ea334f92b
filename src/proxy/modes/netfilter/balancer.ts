/**
 * The chains that choose one endpoint of a ServicePort and translate the packet to it. iptables mode has them for every ServicePort,
 * IPVS mode for the external addresses of policy Local (docs/ipvs.md). They have kube-proxy's names, so that people and tools find them,
 * and so that a client keeps its endpoint when the mode changes. Pure.
 */
import type { Family, Protocol } from '../../../base/address.ts';
import { mixedHash } from '../../../base/hash.ts';
import { compact } from '../../model/objects.ts';
import { type Backend, type ServicePort, totalWeight } from '../../model/service-port.ts';
import { shortHash } from './key-space.ts';
import { type ChainKey, chainKey } from './names.ts';
import { type Chain, comment, jump, oneIn, protocol, type Rule, rule, shareOf } from './rules.ts';

export type ServiceChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'LIM';

/** `KUBE-SVC-…`, `KUBE-EXT-…` and so on for a Service port: their names share a hash, which is computed once. */
export function serviceChains(id: string, protocol: Protocol): (kind: ServiceChainKind) => string {
  const hash = shortHash(id + protocol.toLowerCase());
  return (kind) => `KUBE-${kind}-${hash}`;
}

/** `KUBE-SEP-…` for one endpoint of a Service port. */
export function endpointChain(id: string, protocol: Protocol, endpoint: string): string {
  return `KUBE-SEP-${shortHash(id + protocol.toLowerCase() + endpoint)}`;
}

/** `KUBE-SEG-…` for a group of the endpoints of a balancing chain. */
function groupChain(chain: string, group: number): string {
  return `KUBE-SEG-${shortHash(`${chain} ${group}`)}`;
}

export interface BalancerOptions {
  /** The name of the chain that packets enter. */
  readonly chain: string;
  readonly backends: readonly Backend[];
  /** Rules before the choice. */
  readonly first?: readonly Rule[];
}

/** The chain, and the chains to which it leads. */
export function balancer(
  port: ServicePort,
  { chain, backends, first = [] }: BalancerOptions,
): ReadonlyMap<ChainKey, Chain> {
  const draft: BalancerDraft = { port, chains: new Map() };
  const rules: Rule[] = [...first];
  const sticky = port.affinitySeconds > 0;
  if (sticky) for (const backend of backends) rules.push(rememberedRule(draft, backend));
  if (sticky || backends.length <= MAX_UNGROUPED) addEndpoints(draft, rules, backends);
  else addGroups(draft, { chain, rules, backends });
  addChain(draft, chain, rules);
  return draft.chains;
}

interface BalancerDraft {
  readonly port: ServicePort;
  readonly chains: Map<ChainKey, Chain>;
}

function addChain({ chains }: BalancerDraft, chain: string, rules: Chain): void {
  chains.set(chainKey('nat', chain), compact(rules));
}

function mine({ port }: BalancerDraft, ...parts: (string | undefined)[]): Rule {
  return rule(parts, port.service);
}

/** Rules that choose one backend, each with the same probability, or by their weights. */
function addEndpoints(draft: BalancerDraft, rules: Rule[], backends: readonly Backend[]): void {
  const { protocol: name, id, affinitySeconds } = draft.port;
  let left = totalWeight(backends);
  for (const [i, backend] of backends.entries()) {
    const { weight = 1 } = backend;
    const chance = i === backends.length - 1 ? undefined : weight === 1 ? oneIn(left) : shareOf(weight, left);
    left -= weight;
    // One comment names the owner of the chain: a comment on every endpoint makes each load and change a fifth slower.
    const words = rules.length === 0 ? comment(id) : undefined;
    if (affinitySeconds > 0) rules.push(mine(draft, words, chance, jump(affinityChain(draft, backend))));
    else rules.push(mine(draft, protocol(name), words, chance, dnat(backend)));
  }
}

/** Rules that choose a group, with a probability proportional to its size or weight, and then an endpoint in it. */
function addGroups(
  draft: BalancerDraft,
  { chain, rules, backends }: { chain: string; rules: Rule[]; backends: readonly Backend[] },
): void {
  let left = totalWeight(backends);
  for (const [group, members] of endpointGroups(backends)) {
    const name = groupChain(chain, group);
    const inGroup: Rule[] = [];
    addEndpoints(draft, inGroup, members);
    addChain(draft, name, inGroup);
    const words = rules.length === 0 ? comment(draft.port.id) : undefined;
    const weight = totalWeight(members);
    const chance = weight < left ? shareOf(weight, left) : undefined;
    rules.push(mine(draft, words, chance, jump(name)));
    left -= weight;
  }
}

function dnat(backend: Backend): string {
  return `-j DNAT --to-destination ${backend.text}`;
}

/** The chain of one endpoint, only for ClientIP affinity: remember the client, then translate. */
function affinityChain(draft: BalancerDraft, backend: Backend): string {
  const { port, chains } = draft;
  const chain = endpointChain(port.id, port.protocol, backend.text);
  if (!chains.has(chainKey('nat', chain))) {
    const set = rememberClient(chain, port.family);
    addChain(draft, chain, [mine(draft, protocol(port.protocol), comment(port.id), set, dnat(backend))]);
  }
  return chain;
}

/** A client seen within the timeout returns to its endpoint. */
function rememberedRule(draft: BalancerDraft, backend: Backend): Rule {
  const { port } = draft;
  const chain = endpointChain(port.id, port.protocol, backend.text);
  const match = knownClient(chain, port.family, port.affinitySeconds);
  return mine(draft, comment(port.id), match, jump(chain));
}

// ClientIP affinity by the match `recent` (iptables-extensions(8)). Each endpoint has a list of clients, named like its chain.

const MASKS = { IPv4: '255.255.255.255', IPv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' } as const;

function rememberClient(list: string, family: Family): string {
  return `-m recent --set --name ${list} --mask ${MASKS[family]} --rsource`;
}

/** Matches a client that was seen within `seconds`. */
function knownClient(list: string, family: Family, seconds: number): string {
  return `-m recent --rcheck --seconds ${seconds} --reap --name ${list} --mask ${MASKS[family]} --rsource`;
}

// Groups of the endpoints of one large Service, each with a chain of its own. In a flat chain a packet tries half of the rules
// on average, and a flap of one endpoint rewrites all of them: 2,500 and 5,000 rules at 5,000 endpoints. With groups a packet
// tries about a hundred, and a flap writes about two hundred.

/** Limit of the endpoints of a chain without groups. */
export const MAX_UNGROUPED = 128;
/** The average number of endpoints of a group is at most this, and at least half of it. */
const GROUP = 64;

/**
 * Endpoints by the number of their group; no group is empty. An endpoint's group depends on its text, and changes with the
 * number of endpoints only when that passes a power of two: the other endpoints keep their groups when one comes or goes.
 */
export function endpointGroups<E extends { readonly text: string }>(
  endpoints: readonly E[],
): ReadonlyMap<number, readonly E[]> {
  const bits = Math.ceil(Math.log2(endpoints.length / GROUP));
  const groups = new Map<number, E[]>();
  for (const endpoint of endpoints) {
    const group = mixedHash(endpoint.text) >>> (32 - bits);
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [endpoint]);
    else members.push(endpoint);
  }
  return new Map([...groups].sort(([a], [b]) => a - b));
}
