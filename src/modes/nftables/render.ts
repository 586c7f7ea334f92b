/** One ServicePort as elements of the table's sets, and the chains that they lead to. Pure. */
import { addressBytes, type Cidr, cidrContains, hostCidr } from '../../model/address.ts';
import type { Backend, Frontend, ServicePort } from '../../model/service-port.ts';
import type { NftElement } from '../../host/nftables-kernel.ts';
import { numberWord, portKey, rangeOf, socketKey, targetValue } from './bytes.ts';
import {
  type BalancerSpec,
  balancerName,
  type Entry,
  LOCAL,
  type LocalPolicySpec,
  localPolicyName,
  REFUSE,
  type SetName,
} from './names.ts';
import type { NftablesSettings } from './settings.ts';

export interface RenderedPort {
  readonly elements: readonly (readonly [SetName, NftElement])[];
  readonly balancers: readonly BalancerSpec[];
  readonly localPolicies: readonly LocalPolicySpec[];
  /** Backends that may reach themselves, by address. */
  readonly hairpin: readonly Backend['address'][];
}

class Rendering {
  readonly elements: (readonly [SetName, NftElement])[] = [];
  readonly balancers = new Map<string, BalancerSpec>();
  readonly localPolicies = new Map<string, LocalPolicySpec>();

  add(set: SetName, key: string, data = '', end = ''): void {
    this.elements.push([set, { key, end, data }]);
  }

  /** The verdict that leads to a balancer. */
  balance(spec: BalancerSpec): string {
    const name = balancerName(spec);
    this.balancers.set(name, spec);
    return `goto ${name}`;
  }

  localPolicy(spec: LocalPolicySpec): string {
    const name = localPolicyName(spec);
    this.localPolicies.set(name, spec);
    return `goto ${name}`;
  }
}

export function renderPort(port: ServicePort, settings: NftablesSettings): RenderedPort {
  const into = new Rendering();
  const clusterIP = port.frontends.find(({ role }) => role === 'cluster-ip');
  if (clusterIP?.address === undefined) return { elements: [], balancers: [], localPolicies: [], hairpin: [] };
  const own = socketKey(clusterIP.address, port.protocol, clusterIP.port);
  for (const frontend of port.frontends) addFrontend(into, port, frontend, own);
  addEndpoints(into, port, own);
  guard(into, port, settings);
  const hairpin = [...port.cluster, ...port.local].filter((backend) => backend.hairpin);
  return {
    elements: into.elements,
    balancers: [...into.balancers.values()],
    localPolicies: [...into.localPolicies.values()],
    hairpin: [...new Set(hairpin.map(({ address }) => address))],
  };
}

function addFrontend(into: Rendering, port: ServicePort, frontend: Frontend, own: string): void {
  const { role, address, empty } = frontend;
  const isNodePort = role === 'node-port';
  if (!isNodePort && address === undefined) return;
  const key = address === undefined || isNodePort ? portKey(port.protocol, frontend.port) : socketKey(address, port.protocol, frontend.port);
  const verdict = verdictOf(into, port, frontend);
  if (verdict !== undefined) {
    into.add(isNodePort ? 'nodePorts' : 'services', key, verdict);
    if (role !== 'cluster-ip') into.add(isNodePort ? 'externalNodePorts' : 'external', key, own);
  }
  if (empty !== undefined) {
    into.add(isNodePort ? 'nodePortRefusals' : 'refusals', key, empty === 'drop' ? 'drop' : `goto ${REFUSE}`);
  }
}

/** Where a frontend leads; undefined: nowhere. */
function verdictOf(into: Rendering, port: ServicePort, { role, policy, empty }: Frontend): string | undefined {
  const { affinitySeconds, cluster, local } = port;
  if (role === 'cluster-ip') {
    if (empty !== undefined) return undefined;
    const isLocal = policy === 'Local';
    const endpoints = isLocal ? local.length : cluster.length;
    return into.balance({ entry: 'cluster-ip', isLocal, masquerades: false, endpoints, affinitySeconds });
  }
  const entry: Exclude<Entry, 'cluster-ip'> = role === 'node-port' ? 'node-port' : 'external';
  if (policy === 'Local') {
    const [all, here] = [cluster.length, local.length];
    return all + here === 0 ? undefined : into.localPolicy({ entry, all, here, affinitySeconds });
  }
  if (cluster.length === 0) return undefined;
  return into.balance({ entry, isLocal: false, masquerades: true, endpoints: cluster.length, affinitySeconds });
}

/** Numbered from 0, those of policy Local from LOCAL on: no number is left out. */
function addEndpoints(into: Rendering, { cluster, local, affinitySeconds }: ServicePort, own: string): void {
  const add = (backends: readonly Backend[], first: number, memory: 'sticky' | 'stickyLocal') => {
    for (const [i, { address, port }] of backends.entries()) {
      const target = targetValue(address, port);
      into.add('endpoints', own + numberWord(first + i), target);
      if (affinitySeconds > 0) into.add(memory, own + target);
    }
  };
  add(cluster, 0, 'sticky');
  add(local, LOCAL, 'stickyLocal');
}

/** Source ranges of load balancer addresses, while somebody serves. */
function guard(into: Rendering, port: ServicePort, settings: NftablesSettings): void {
  const { sourceRanges: ranges } = port;
  if (ranges === undefined || !port.hasAny) return;
  const addresses = port.frontends.filter(({ role }) => role === 'load-balancer').flatMap(({ address }) => address ?? []);
  const admitsNode = ranges.some((range) => settings.nodeAddresses.some((ip) => cidrContains(range, ip)));
  for (const { role, address, port: number } of port.frontends) {
    if (role !== 'load-balancer' || address === undefined) continue;
    const key = socketKey(address, port.protocol, number);
    into.add('guarded', key);
    // What the node sends to one of its own load-balancer addresses has that address as its source.
    const all = admitsNode ? [...ranges, ...addresses.map(hostCidr)] : ranges;
    for (const range of apart(all)) {
      const { first, last } = rangeOf(range);
      into.add('sourceRanges', key + first, '', key + last);
    }
  }
}

/** Without those that lie within another: the kernel takes no ranges that overlap. */
function apart(ranges: readonly Cidr[]): Cidr[] {
  const unique = [...new Set(ranges)];
  const length = (range: Cidr) => Number(range.split('/')[1]);
  const base = (range: Cidr) => range.split('/')[0] as Parameters<typeof cidrContains>[1];
  return unique.filter((range) => !unique.some((other) => length(other) < length(range) && cidrContains(other, base(range))));
}

export function hairpinElement(address: Backend['address']): NftElement {
  const bytes = addressBytes(address);
  return { key: bytes + bytes, end: '', data: '' };
}
