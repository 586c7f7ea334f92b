/** One ServicePort in IPVS mode: its virtual servers, their addresses, its entries in sets, its detours (docs/ipvs.md). Pure. */

import { type Address, type Cidr, cidrContains } from '../../../base/address.ts';
import type { Destination, Server } from '../../../kernel/ipvs-kernel.ts';
import { hashingScheduler, schedulerFor } from '../../model/ipvs-scheduler.ts';
import type { Frontend, ServicePort } from '../../model/service-port.ts';
import { balancer, serviceChains } from '../netfilter/balancer.ts';
import { socketKey } from '../netfilter/key-space.ts';
import { hairpinBackends } from '../netfilter/local-traffic.ts';
import { type ChainKey, LOCAL_DETOUR } from '../netfilter/names.ts';
import { type Chain, comment, jump, protocol, type Rule, rule, to, toPort } from '../netfilter/rules.ts';
import type { HostAddresses } from '../virtual-servers/observe.ts';
import type { SetId } from '../virtual-servers/sets.ts';
import { serverEntry } from '../virtual-servers/tracked-objects.ts';
import type { IpvsSettings } from './static-chains.ts';

export interface RenderedServer {
  readonly server: Server;
  readonly destinations: readonly Destination[];
  /** Whether it serves a node port. A server of a Service's own address wins over it. */
  readonly isNodePort: boolean;
}

export interface RenderedServers {
  readonly servers: readonly RenderedServer[];
  /** Addresses that our device must have. */
  readonly addresses: readonly Address[];
  readonly entries: readonly { readonly set: SetId; readonly entry: string }[];
  /** Rules that lead from an external address of policy Local to the chains, by their key in the tree. */
  readonly detours: readonly { readonly key: string; readonly id: string; readonly rule: Rule }[];
  /** Chains that choose among all endpoints, where a detour leads to them. */
  readonly chains: ReadonlyMap<ChainKey, Chain>;
}

/** The tree that finds the detour of a packet. */
export const DETOUR_TREE = { table: 'nat', root: LOCAL_DETOUR, prefix: 'KUBE-DSL' } as const;

const NO_CHAINS: ReadonlyMap<ChainKey, Chain> = new Map();

/** IP_VS_SVC_F_PERSISTENT (linux/ip_vs.h): remember the client. */
const PERSISTENT = 0x1;

interface RenderContext {
  readonly port: ServicePort;
  readonly settings: IpvsSettings;
  readonly servers: RenderedServer[];
  readonly addresses: Set<Address>;
  readonly entries: { set: SetId; entry: string }[];
  readonly detours: { key: string; id: string; rule: Rule }[];
  /** The chain that chooses among all endpoints, for pods and the node; undefined where nothing leads to it. */
  readonly balancerChain: string | undefined;
}

export function renderPort(port: ServicePort, settings: IpvsSettings, host: HostAddresses): RenderedServers {
  const isDetoured = port.cluster.length > 0 && port.frontends.some(isExternalLocal);
  const context: RenderContext = {
    port,
    settings,
    servers: [],
    addresses: new Set(),
    entries: [],
    detours: [],
    // Without any endpoint the servers refuse pods and the node as they refuse all.
    balancerChain: isDetoured ? serviceChains(port.id, port.protocol)('SVC') : undefined,
  };
  for (const frontend of port.frontends) {
    if (frontend.address === undefined) addNodePort(context, frontend, host.nodePorts);
    else addFrontend(context, frontend, frontend.address, host.all);
  }
  for (const { address, port: number } of hairpinBackends(port, settings.localDetector)) {
    addEntry(context, 'KUBE-LOOP-BACK', `${address},${port.protocol.toLowerCase()}:${number},${address}`);
  }
  if (port.healthCheckNodePort !== 0) {
    addEntry(context, 'KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort));
  }
  const { servers, addresses, entries, detours, balancerChain: chain } = context;
  const hasDetours = chain !== undefined && detours.length > 0;
  const chains = hasDetours ? balancer(port, { chain, backends: port.cluster }) : NO_CHAINS;
  return { servers, addresses: [...addresses], entries, detours, chains };
}

function isExternalLocal({ role, policy }: Frontend): boolean {
  return role !== 'cluster-ip' && policy === 'Local';
}

function addEntry({ entries }: RenderContext, set: SetId, entry: string): void {
  entries.push({ set, entry });
}

const SETS = {
  'cluster-ip': { Cluster: ['KUBE-CLUSTER-IP'], Local: ['KUBE-CLUSTER-IP'] },
  'external-ip': { Cluster: ['KUBE-EXTERNAL-IP'], Local: ['KUBE-EXTERNAL-IP-LOCAL'] },
  'load-balancer': { Cluster: ['KUBE-LOAD-BALANCER'], Local: ['KUBE-LOAD-BALANCER', 'KUBE-LOAD-BALANCER-LOCAL'] },
} as const;

function addFrontend(context: RenderContext, frontend: Frontend, address: Address, onHost: ReadonlySet<Address>): void {
  const { role, policy } = frontend;
  const server = addServer(context, frontend, address);
  const entry = serverEntry(server);
  if (role !== 'node-port') for (const set of SETS[role][policy]) addEntry(context, set, entry);
  // No device has the cluster IP. Another address may be on a device of the node already, and stays there.
  if (role === 'cluster-ip' || !onHost.has(address)) {
    context.addresses.add(address);
    addEntry(context, 'KUBE-IPVS-IPS', address);
  }
  const { sourceRanges, hasAny } = context.port;
  if (role === 'load-balancer' && sourceRanges !== undefined && hasAny) addRanges(context, server, sourceRanges);
}

/** Source ranges of a load balancer address: all other sources are dropped, also the node if no range contains it. */
function addRanges(context: RenderContext, server: Server, ranges: readonly Cidr[]): void {
  const entry = serverEntry(server);
  addEntry(context, 'KUBE-LOAD-BALANCER-FW', entry);
  for (const range of ranges) addEntry(context, 'KUBE-LOAD-BALANCER-SOURCE-CIDR', `${entry},${range}`);
  const { nodeAddresses } = context.settings;
  if (ranges.some((range) => nodeAddresses.some((address) => cidrContains(range, address)))) {
    addEntry(context, 'KUBE-LOAD-BALANCER-SOURCE-IP', `${entry},${server.address}`);
  } else addEntry(context, 'KUBE-IPVS-OUT-DROP', entry);
}

const PORT_SETS = {
  TCP: { Cluster: ['KUBE-NODE-PORT-TCP'], Local: ['KUBE-NODE-PORT-TCP', 'KUBE-NODE-PORT-LOCAL-TCP'] },
  UDP: { Cluster: ['KUBE-NODE-PORT-UDP'], Local: ['KUBE-NODE-PORT-UDP', 'KUBE-NODE-PORT-LOCAL-UDP'] },
  SCTP: {
    Cluster: ['KUBE-NODE-PORT-SCTP-HASH'],
    Local: ['KUBE-NODE-PORT-SCTP-HASH', 'KUBE-NODE-PORT-LOCAL-SCTP-HASH'],
  },
} as const;

function addNodePort(context: RenderContext, frontend: Frontend, addresses: readonly Address[]): void {
  const sets: readonly SetId[] = PORT_SETS[context.port.protocol][frontend.policy];
  for (const address of addresses) {
    const entry = serverEntry(addServer(context, frontend, address));
    for (const set of sets) if (set.endsWith('-HASH')) addEntry(context, set, entry);
  }
  for (const set of sets) if (!set.endsWith('-HASH')) addEntry(context, set, String(frontend.port));
}

/** Adds a virtual server, with the entries that frontends of every role need. */
function addServer(context: RenderContext, frontend: Frontend, address: Address): Server {
  const { port, settings, balancerChain } = context;
  const sticky = port.affinitySeconds > 0;
  const backends = frontend.policy === 'Local' ? port.local : port.cluster;
  const { name, flags } =
    port.ipvsScheduler === undefined && port.hashes !== undefined
      ? hashingScheduler(port.hashes === 'address and port')
      : schedulerFor(port.ipvsScheduler ?? settings.scheduler, backends[0]?.weight !== undefined);
  const server: Server = {
    protocol: port.protocol,
    address,
    port: frontend.port,
    scheduler: name,
    flags: (sticky ? PERSISTENT : 0) | flags,
    timeout: port.affinitySeconds,
  };
  const destinations = backends.map(({ address, port: number, weight = 1 }) => ({ address, port: number, weight }));
  context.servers.push({ server, destinations, isNodePort: frontend.role === 'node-port' });
  const entry = serverEntry(server);
  addEntry(context, 'KUBE-IPVS-SERVERS', entry);
  const isDetoured = balancerChain !== undefined && isExternalLocal(frontend);
  if (isDetoured) addDetour(context, server, balancerChain);
  if (frontend.empty === 'drop') {
    addEntry(context, 'KUBE-IPVS-DROP', entry);
    if (!isDetoured) addEntry(context, 'KUBE-IPVS-OUT-DROP', entry);
  }
  return server;
}

/**
 * Pods and the node use all endpoints: the policy is only for outside traffic (docs/semantics.md 4.1). Rules translate their packets to an
 * endpoint, and IPVS never sees them. A translation to another virtual server would be seen by IPVS only at first: it gives conntrack the
 * endpoint as the sender of the answers (net/netfilter/ipvs/ip_vs_nfct.c, ip_vs_update_conntrack), so conntrack translates the
 * client's later packets to the endpoint itself. Its FIN or RST passes IPVS by, where the connection stays.
 */
function addDetour(context: RenderContext, server: Server, chain: string): void {
  const { port, detours } = context;
  addEntry(context, 'KUBE-IPVS-DETOUR', serverEntry(server));
  const words = comment(`${port.id} pods and the node use all endpoints`);
  const parts = [to(server.address), protocol(port.protocol), words, toPort(port.protocol, server.port), jump(chain)];
  const key = socketKey(server.address, port.protocol, server.port);
  detours.push({ key, id: port.key, rule: rule(parts, port.service) });
}
