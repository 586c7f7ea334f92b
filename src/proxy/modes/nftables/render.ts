/** One ServicePort as elements of the table's sets, and the chains to which they lead. Pure. */
import { type Address, addressBytes, cidrContains, hostCidr, portBytes } from '../../../base/address.ts';
import type { Latin1Bytes, NftElement } from '../../../kernel/nftables-kernel.ts';
import { type Limit, limitNamed } from '../../model/limits.ts';
import type { HashedBy, ServiceKey } from '../../model/objects.ts';
import { type Backend, type Frontend, isLimitedAt, type ServicePort } from '../../model/service-port.ts';
import { inSlots } from '../../model/slots.ts';
import { hairpinBackends } from '../netfilter/local-traffic.ts';
import {
  numberWord,
  portKey,
  protocolByte,
  rangeOf,
  socketKey,
  targetValue,
  widest,
} from '../nft-table/element-bytes.ts';
import type { NftChain, OwnedElement } from '../nft-table/layout.ts';
import { localPolicyRules, stickyEndpoint, stickyEntry, stickyList } from './balancers.ts';
import type { NftablesSettings } from './chains.ts';
import { limitedEntry, limitRules, overLimitRules } from './limits.ts';
import {
  type BalancerSpec,
  balancerName,
  type EntryPoint,
  LOCAL,
  type LocalPolicySpec,
  limitChain,
  limitedName,
  localPolicyName,
  memorySet,
  ownId,
  portId,
  REFUSE,
  REFUSE_OVER_LIMIT,
  type SetName,
  tallySet,
} from './table-layout.ts';

export interface RenderedElements {
  readonly elements: ReadonlyMap<SetName, readonly OwnedElement[]>;
  readonly balancers: readonly BalancerSpec[];
  readonly localPolicies: readonly LocalPolicySpec[];
  /** The own chains of a Service with affinity or limits by name, and the names of its memories. */
  readonly chains: ReadonlyMap<string, NftChain>;
  readonly memories: readonly string[];
  /** Elements that other ServicePorts may need too: backends that may reach themselves, cluster IPs. */
  readonly shared: readonly (readonly [SetName, NftElement])[];
}

class Rendering {
  readonly elements = new Map<SetName, OwnedElement[]>();
  readonly balancers = new Map<string, BalancerSpec>();
  readonly localPolicies = new Map<string, LocalPolicySpec>();
  readonly #owner: ServiceKey;
  readonly #countsConnections: boolean;

  constructor({ service }: ServicePort, { countsConnections }: NftablesSettings) {
    this.#owner = service;
    this.#countsConnections = countsConnections;
  }

  add(set: SetName, key: string, data = '', end = ''): void {
    this.#put(set, { key, end, data, owner: this.#owner });
  }

  #put(set: SetName, entry: OwnedElement): void {
    const known = this.elements.get(set);
    if (known === undefined) this.elements.set(set, [entry]);
    else known.push(entry);
  }

  /** Lead traffic to an address or a node port to a chain. */
  lead(set: 'services' | 'nodePorts', key: string, chain: string): void {
    this.add(set, key, `goto ${chain}`);
    if (!this.#countsConnections) return;
    const counter = set === 'services' ? 'serviceConnections' : 'nodePortConnections';
    this.#put(counter, { key, end: '', data: '', owner: this.#owner, isCounted: true });
  }

  /** Returns the name of the chain. */
  balance(spec: BalancerSpec): string {
    const name = balancerName(spec);
    this.balancers.set(name, spec);
    return name;
  }

  localPolicy(spec: LocalPolicySpec): string {
    const name = localPolicyName(spec);
    this.localPolicies.set(name, spec);
    return name;
  }
}

export function renderPort(port: ServicePort, settings: NftablesSettings): RenderedElements {
  const into = new Rendering(port, settings);
  const sticky = port.affinitySeconds > 0 ? stickyChains(port, settings) : undefined;
  const numbers = sticky === undefined ? numbersOf(port) : NO_NUMBERS;
  const limited = port.limits === undefined ? undefined : new LimitedChains(port, port.limits);
  for (const frontend of port.frontends) addFrontend(into, { port, numbers, sticky, limited }, frontend);
  guard(into, port, settings);
  return {
    elements: into.elements,
    balancers: [...into.balancers.values()],
    localPolicies: [...into.localPolicies.values()],
    chains: bothMaps(sticky?.chains, limited?.chains),
    memories: bothLists(sticky?.memories, limited?.memories),
    shared: sharedElements(port, settings),
  };
}

function sharedElements(port: ServicePort, { localDetector }: NftablesSettings): RenderedElements['shared'] {
  const hairpin = new Set(hairpinBackends(port, localDetector).map(({ address }) => address));
  const clusterIPs = new Set<Address>();
  for (const { role, address } of port.frontends) {
    if (role === 'cluster-ip' && address !== undefined) clusterIPs.add(address);
  }
  const element = (key: Latin1Bytes): NftElement => ({ key, end: '', data: '' });
  return [
    ...[...hairpin].map(addressBytes).map((own) => ['hairpin', element(own + own)] as const),
    ...[...clusterIPs].map(addressBytes).map((own) => ['clusterIPs', element(own)] as const),
  ];
}

const NO_CHAINS: ReadonlyMap<string, NftChain> = new Map();

// Most ServicePorts have neither affinity nor limits.

function bothMaps(
  sticky: ReadonlyMap<string, NftChain> | undefined,
  limited: ReadonlyMap<string, NftChain> | undefined,
): ReadonlyMap<string, NftChain> {
  if (sticky === undefined || limited === undefined) return sticky ?? limited ?? NO_CHAINS;
  return new Map([...sticky, ...limited]);
}

function bothLists(sticky: readonly string[] = NO_NAMES, limited: readonly string[] = NO_NAMES): readonly string[] {
  return limited.length === 0 ? sticky : [...sticky, ...limited];
}

const NO_NAMES: readonly string[] = [];

/** Shared by all frontends of a ServicePort. */
interface Rendered {
  readonly port: ServicePort;
  readonly numbers: Numbers;
  readonly sticky: StickyChains | undefined;
  readonly limited: LimitedChains | undefined;
}

function addFrontend(into: Rendering, of: Rendered, frontend: Frontend): void {
  const { port, sticky, limited } = of;
  const { role, address, empty } = frontend;
  const isNodePort = role === 'node-port';
  if (!isNodePort && address === undefined) return;
  const key =
    isNodePort || address === undefined
      ? portKey(port.protocol, frontend.port)
      : socketKey(address, port.protocol, frontend.port);
  const chain = sticky === undefined ? balancerOf(into, of, frontend, key) : chainOfSticky(sticky, frontend);
  const before = chain !== undefined && limited !== undefined && isLimitedAt(port, frontend) ? limited : undefined;
  if (chain !== undefined) into.lead(isNodePort ? 'nodePorts' : 'services', key, before?.before(chain) ?? chain);
  // The filter meets what was not translated: connections beyond a limit as well.
  if (empty === undefined && before === undefined) return;
  const end = empty === 'drop' ? 'drop' : `goto ${empty === undefined ? REFUSE_OVER_LIMIT : REFUSE}`;
  into.add(isNodePort ? 'nodePortRefusals' : 'refusals', key, end);
}

function chainOfSticky(sticky: StickyChains, frontend: Frontend): string | undefined {
  return frontend.role === 'cluster-ip' && frontend.empty !== undefined ? undefined : sticky.chainOf(frontend);
}

/** Adds the endpoints of a frontend, and returns its chain; undefined when it has no endpoint. */
function balancerOf(
  into: Rendering,
  { port, numbers }: Rendered,
  { role, policy, empty }: Frontend,
  key: string,
): string | undefined {
  const { cluster, hashes } = port;
  const by = hashes === undefined ? {} : { hashes };
  const isLocal = policy === 'Local';
  const set = role === 'node-port' ? 'nodePortEndpoints' : 'endpoints';
  if (role === 'cluster-ip') {
    if (empty !== undefined) return undefined;
    const backends = isLocal ? numbers.local : numbers.cluster;
    addEndpoints(into, set, key, backends, isLocal);
    return into.balance({ entry: 'cluster-ip', isLocal, masquerades: false, endpoints: backends.length, ...by });
  }
  const entry: Exclude<EntryPoint, 'cluster-ip'> = role === 'node-port' ? 'node-port' : 'external';
  const everywhere = numbers.cluster;
  addEndpoints(into, set, key, everywhere, false);
  if (isLocal) {
    const onNode = numbers.local;
    addEndpoints(into, set, key, onNode, true);
    const [all, here] = [everywhere.length, onNode.length];
    return all + here === 0 ? undefined : into.localPolicy({ entry, all, here, ...by });
  }
  if (cluster.length === 0) return undefined;
  return into.balance({ entry, isLocal: false, masquerades: true, endpoints: everywhere.length, ...by });
}

/** The endpoints of both lists in the order of their numbers. */
interface Numbers {
  readonly cluster: readonly Backend[];
  readonly local: readonly Backend[];
}

/** Endpoints with affinity have chains instead. */
const NO_NUMBERS: Numbers = { cluster: [], local: [] };

function numbersOf({ cluster, local, hashes }: ServicePort): Numbers {
  return { cluster: numbered(cluster, hashes), local: numbered(local, hashes) };
}

/** Endpoints with affinity, each as often as a new client gets it. */
function choiceOf(backends: readonly Backend[]): readonly Backend[] {
  return backends[0]?.weight === undefined ? backends : inSlots(backends, 'affinity');
}

/** The endpoints in the order of their numbers: each once, or as often as its part is where they have weights or clients keep their numbers. */
function numbered(backends: readonly Backend[], hashes?: HashedBy): readonly Backend[] {
  if (hashes !== undefined && backends.length > 1) return inSlots(backends, 'clients');
  return backends[0]?.weight === undefined ? backends : inSlots(backends, 'weights');
}

/** Numbers have no gaps: from 0, and from LOCAL for policy Local. */
function addEndpoints(
  into: Rendering,
  set: 'endpoints' | 'nodePortEndpoints',
  key: string,
  backends: readonly Backend[],
  isLocal: boolean,
): void {
  for (const [i, { address, port }] of backends.entries()) {
    into.add(set, key + numberWord((isLocal ? LOCAL : 0) + i), targetValue(address, port));
  }
}

/** Source ranges of load balancer addresses, while the Service has an endpoint. */
function guard(into: Rendering, port: ServicePort, settings: NftablesSettings): void {
  const { sourceRanges: ranges } = port;
  if (ranges === undefined || !port.hasAny) return;
  const addresses = port.frontends
    .filter(({ role }) => role === 'load-balancer')
    .flatMap(({ address }) => address ?? []);
  const admitsNode = ranges.some((range) => settings.nodeAddresses.some((ip) => cidrContains(range, ip)));
  for (const { role, address, port: number } of port.frontends) {
    if (role !== 'load-balancer' || address === undefined) continue;
    const key = socketKey(address, port.protocol, number);
    into.add('guarded', key);
    // A packet from the node to a load-balancer address of its own has that address as its source.
    const all = admitsNode ? [...ranges, ...addresses.map(hostCidr)] : ranges;
    for (const range of widest(all)) {
      const { first, last } = rangeOf(range);
      into.add('sourceRanges', key + first, '', key + last);
    }
  }
}

/** The chains of a ServicePort with limits: the one that all its frontends share, and one before each chain that they lead to. */
class LimitedChains {
  readonly chains = new Map<string, NftChain>();
  readonly memories: readonly string[];
  readonly #id: string;
  readonly #owner: ServiceKey;

  constructor({ id, protocol, service }: ServicePort, limits: readonly Limit[]) {
    this.#id = portId({ id, protocol });
    this.#owner = service;
    this.#add(limitChain(this.#id), limitRules(this.#id, limits));
    this.chains.set(REFUSE_OVER_LIMIT, overLimitRules());
    const tally = limitNamed(limits, 'max-connections-per-client');
    this.memories = tally === undefined ? [] : [tallySet(this.#id, tally.most).name];
  }

  /** The name of the chain before this one. */
  before(chain: string): string {
    const name = limitedName(this.#id, chain);
    if (!this.chains.has(name)) this.#add(name, limitedEntry(this.#id, chain));
    return name;
  }

  #add(name: string, chain: NftChain): void {
    this.chains.set(name, { ...chain, owner: this.#owner });
  }
}

// The chains of a Service with ClientIP affinity: each endpoint has one, which remembers its clients.

interface StickyChains {
  readonly chains: ReadonlyMap<string, NftChain>;
  readonly memories: readonly string[];
  /** The chain of a frontend; undefined when it has no endpoint. */
  readonly chainOf: (frontend: Frontend) => string | undefined;
}

function stickyChains(port: ServicePort, settings: NftablesSettings): StickyChains {
  const id = portId(port);
  const chains = new Map<string, NftChain>();
  const add = (name: string, chain: NftChain) => chains.set(name, { ...chain, owner: port.service });
  const memories = new Set<string>();
  const protocol = protocolByte(port.protocol);
  const member = (backend: Backend) => {
    const own = ownId(port.id, port.protocol.toLowerCase(), backend.text);
    const [chain, memory] = [`endpoint-${own}`, memorySet(own).name];
    const target = { address: addressBytes(backend.address), protocol, port: portBytes(backend.port) };
    add(chain, stickyEndpoint(memory, port.affinitySeconds, target));
    memories.add(memory);
    return { chain, memory };
  };
  const list = (name: string, backends: readonly Backend[]): string | undefined => {
    if (backends.length === 0) return undefined;
    add(name, stickyList(backends.map(member), choiceOf(backends).map(member)));
    return name;
  };
  const [all, here] = [list(`sticky-${id}`, port.cluster), list(`sticky-here-${id}`, port.local)];
  const entry = (kind: 'cluster-ip' | 'external', to: string | undefined): string | undefined => {
    if (to === undefined) return undefined;
    const name = `${kind}-${to}`;
    add(name, stickyEntry(kind, to, settings));
    return name;
  };
  const chainOf = ({ role, policy }: Frontend): string | undefined => {
    if (role === 'cluster-ip') return entry('cluster-ip', policy === 'Local' ? here : all);
    if (policy === 'Cluster') return entry('external', all);
    if (all === undefined && here === undefined) return undefined;
    const name = `local-policy-${id}`;
    add(name, localPolicyRules({ pods: all, node: entry('external', all), others: here }, settings));
    return name;
  };
  return { chains, memories: [...memories], chainOf };
}
