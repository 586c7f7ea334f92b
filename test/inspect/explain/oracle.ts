/**
 * What should become of the first packet of a connection by docs/semantics.md, from the ServicePorts alone: independent of the rules that
 * a mode makes of them. Pure.
 */

import { type Address, addressBytes, cidrContains, familyOf, isLoopback } from '../../../src/base/address.ts';
import { jenkinsNumber } from '../../../src/base/jenkins.ts';
import type { Fate, Packet } from '../../../src/inspect/explain/packet.ts';
import type { FrontendAt } from '../../../src/proxy/model/claims.ts';
import type { Backend, Frontend, ServicePort } from '../../../src/proxy/model/service-port.ts';
import { inSlots } from '../../../src/proxy/model/slots.ts';
import type { IptablesSettings } from '../../../src/proxy/modes/iptables/static-chains.ts';
import type { IpvsSettings } from '../../../src/proxy/modes/ipvs/static-chains.ts';
import { isEverybodyLocal } from '../../../src/proxy/modes/netfilter/local-traffic.ts';
import type { NftablesSettings } from '../../../src/proxy/modes/nftables/chains.ts';

/** A mode with its settings of the packet's family. */
export type ModeSettings =
  | { readonly mode: 'iptables'; readonly settings: IptablesSettings }
  | { readonly mode: 'ipvs'; readonly settings: IpvsSettings }
  | { readonly mode: 'nftables'; readonly settings: NftablesSettings };

/** The Services as the model has them. */
export interface ServedFrontends {
  /** All of the packet's family: what lets an endpoint reach itself by one of them counts for all. */
  readonly ports: Iterable<ServicePort>;
  frontend(at: FrontendAt): ServicePort | undefined;
  /** Whether a ServicePort has the address as its cluster IP, as another frontend's address, or none has it. */
  roleOf(address: Address): 'cluster-ip' | 'other' | undefined;
}

export interface OracleInput {
  readonly services: ServedFrontends;
  readonly mode: ModeSettings;
  /** Addresses of the node's own devices; not those that IPVS mode adds. */
  readonly localAddresses: ReadonlySet<string>;
  /** Whether session affinity remembers the sender for this backend. */
  readonly remembers: (port: ServicePort, backend: Backend) => boolean;
}

/** What is expected of a packet; there is no way that leads to it. */
export type Expectation = Omit<Fate, 'way'>;

type Sender = 'pod' | 'node' | 'outside';

/** The probabilities add up to 1. The node's own firewall is not looked at. */
export function expected(packet: Packet, input: OracleInput): readonly Expectation[] {
  const fates = translated(packet, input);
  const isDropped = isOfNeighbour(packet, input.mode) && fates.every(({ kind }) => kind !== 'balanced');
  return isDropped ? [DROPPED] : fates;
}

function translated(packet: Packet, input: OracleInput): readonly Expectation[] {
  if (packet.state === 'INVALID') return [{ ...LEFT_ALONE, kind: invalidKind(packet, input) }];
  const hit = frontendOf(packet, input);
  if (hit === undefined) return [{ ...LEFT_ALONE, kind: unservedKind(packet, input) }];
  return served(packet, hit, input);
}

const LEFT_ALONE: Expectation = { kind: 'untouched', backend: '', masqueraded: false, probability: 1 };
const REFUSED: Expectation = { ...LEFT_ALONE, kind: 'rejected' };
const DROPPED: Expectation = { ...LEFT_ALONE, kind: 'dropped' };

interface Hit {
  readonly port: ServicePort;
  readonly frontend: Frontend;
}

/** The frontend of a destination: an address of a Service before a node port (docs/semantics.md 6). */
function frontendOf({ protocol, destination, port: number }: Packet, input: OracleInput): Hit | undefined {
  const family = familyOf(destination);
  const at = (address: Address | undefined): Hit | undefined => {
    const port = input.services.frontend({ family, protocol, address, port: number });
    const frontend = port?.frontends.find((one) => one.address === address && one.port === number);
    return port === undefined || frontend === undefined ? undefined : { port, frontend };
  };
  return at(destination) ?? (takesNodePorts(destination, input) ? at(undefined) : undefined);
}

/** docs/semantics.md 6.9 and 6.10 */
function takesNodePorts(address: Address, { mode, localAddresses }: OracleInput): boolean {
  if (mode.mode === 'iptables' && isLoopback(address)) {
    const { family, localhostNodePorts, nodePortAddresses } = mode.settings;
    if (family === 'IPv6' || !localhostNodePorts) return false;
    return nodePortAddresses === 'all' || nodePortAddresses.includes(address);
  }
  if (isLoopback(address) || !localAddresses.has(address)) return false;
  if (mode.mode === 'ipvs') {
    const { nodePortCidrs } = mode.settings;
    return nodePortCidrs === 'all' || nodePortCidrs.some((cidr) => cidrContains(cidr, address));
  }
  const { nodePortAddresses } = mode.settings;
  return nodePortAddresses === 'all' || nodePortAddresses.includes(address);
}

/** `ServedFrontends.roleOf` among these. */
export function roleAmong(ports: Iterable<ServicePort>, address: Address): 'cluster-ip' | 'other' | undefined {
  let role: 'other' | undefined;
  for (const { frontends } of ports) {
    for (const frontend of frontends) {
      if (frontend.address !== address) continue;
      if (frontend.role === 'cluster-ip') return 'cluster-ip';
      role = 'other';
    }
  }
  return role;
}

/** docs/semantics.md 6.16: ports that a Service does not have, and addresses that no Service has. */
function unservedKind(packet: Packet, input: OracleInput): Fate['kind'] {
  const { destination } = packet;
  const { mode, services, localAddresses } = input;
  const role = services.roleOf(destination);
  if (mode.mode === 'ipvs') return role !== undefined && !localAddresses.has(destination) ? 'rejected' : 'untouched';
  if (mode.mode === 'iptables') return 'untouched';
  if (role === 'cluster-ip') return 'rejected';
  const isOfServices = mode.settings.serviceCidrs?.some((cidr) => cidrContains(cidr, destination)) === true;
  return isOfServices ? 'dropped' : 'untouched';
}

/** docs/semantics.md 8.1: only forwarded packets are dropped. */
function invalidKind(packet: Packet, { mode, localAddresses }: OracleInput): Fate['kind'] {
  const { destination, device } = packet;
  const isForwarded = device !== undefined && !localAddresses.has(destination) && !isLoopback(destination);
  return mode.mode !== 'ipvs' && mode.settings.dropInvalid && isForwarded ? 'dropped' : 'untouched';
}

/** docs/semantics.md 6.11: such a packet is dropped, unless it is translated. */
function isOfNeighbour({ source, destination }: Packet, { mode, settings }: ModeSettings): boolean {
  if (mode !== 'iptables' || !settings.localhostNodePorts) return false;
  return destination.startsWith('127.') && !source.startsWith('127.');
}

function senderOf({ source, device }: Packet, { mode, localAddresses }: OracleInput): Sender {
  const { localDetector } = mode.settings;
  if (localDetector.kind === 'cidr' && cidrContains(localDetector.cidr, source)) return 'pod';
  if (localDetector.kind === 'interface' && isInterface(localDetector.name, device)) return 'pod';
  return localAddresses.has(source) || isLoopback(source) ? 'node' : 'outside';
}

function isInterface(name: string, device: string | undefined): boolean {
  if (device === undefined) return false;
  return name.endsWith('+') ? device.startsWith(name.slice(0, -1)) : device === name;
}

/** docs/semantics.md 4.1 */
function served(packet: Packet, hit: Hit, input: OracleInput): readonly Expectation[] {
  const { port, frontend } = hit;
  if (!port.hasAny) return [REFUSED];
  if (frontend.role === 'load-balancer' && !isAdmitted(packet, port, input)) return [DROPPED];
  const sender = senderOf(packet, input);
  if (frontend.role === 'cluster-ip') {
    if (frontend.empty !== undefined) return [frontend.empty === 'drop' ? DROPPED : REFUSED];
    const backends = frontend.policy === 'Local' ? port.local : port.cluster;
    return balanced(packet, { port, backends, masquerades: masqueradesClusterIP(sender, input) }, input);
  }
  if (frontend.policy === 'Cluster') {
    return balanced(packet, { port, backends: port.cluster, masquerades: true }, input);
  }
  // Policy Local is for traffic from outside.
  if (sender !== 'outside') {
    return balanced(packet, { port, backends: port.cluster, masquerades: sender === 'node' }, input);
  }
  return port.local.length === 0
    ? [DROPPED]
    : balanced(packet, { port, backends: port.local, masquerades: false }, input);
}

/** docs/semantics.md 6.12 to 6.14 */
function isAdmitted({ source, device }: Packet, { frontends, sourceRanges }: ServicePort, input: OracleInput): boolean {
  if (sourceRanges === undefined) return true;
  const holds = (address: Address) => sourceRanges.some((range) => cidrContains(range, address));
  const admitsNode = input.mode.settings.nodeAddresses.some(holds);
  if (device === undefined && !admitsNode && input.mode.mode === 'ipvs') return false;
  const isOwn = frontends.some(({ role, address }) => role === 'load-balancer' && address === source);
  return holds(source) || (admitsNode && (isOwn || device === undefined));
}

/** docs/semantics.md 7.2 and 7.3 */
function masqueradesClusterIP(sender: Sender, { mode }: OracleInput): boolean {
  const { masqueradeAll, localDetector } = mode.settings;
  return masqueradeAll || (!isEverybodyLocal(localDetector) && sender !== 'pod');
}

interface Balance {
  readonly port: ServicePort;
  readonly backends: readonly Backend[];
  readonly masquerades: boolean;
}

/** Shares by the weights, equal without any, unless a backend remembers the sender (docs/semantics.md 7.8, 7.9). */
function balanced(packet: Packet, { port, backends, masquerades }: Balance, input: OracleInput): Expectation[] {
  const known = port.affinitySeconds > 0 ? backends.find((backend) => input.remembers(port, backend)) : undefined;
  const hashed = known === undefined ? hashedOf(packet, { port, backends, masquerades }, input.mode) : undefined;
  const [only] = [known, hashed].filter((one) => one !== undefined);
  const chosen = only === undefined ? backends : [only];
  const parts = partsOf(chosen, port, input.mode);
  const all = parts.values().reduce((sum, part) => sum + part, 0);
  return chosen.map((backend) => {
    const { text, address } = backend;
    // What comes in and has arrived at an endpoint on an address of the node is not sent on, and keeps its source.
    const hasArrived = packet.device !== undefined && input.localAddresses.has(address);
    const reachesItself = address === packet.source && isHairpin(backend, port, input);
    return {
      kind: 'balanced',
      backend: text,
      masqueraded: !hasArrived && (masquerades || reachesItself),
      probability: (parts.get(backend) ?? 0) / all,
    };
  });
}

/** By the weights; nftables mode rounds them to whole slots (`test/proxy/model/slots.test.ts` bounds the difference). */
function partsOf(
  backends: readonly Backend[],
  port: Pick<ServicePort, 'hashes' | 'affinitySeconds'>,
  { mode }: ModeSettings,
): ReadonlyMap<Backend, number> {
  const { hashes } = port;
  const isInSlots =
    mode === 'nftables' && backends.length > 1 && (hashes !== undefined || backends[0]?.weight !== undefined);
  if (!isInSlots) return new Map(backends.map((backend) => [backend, backend.weight ?? 1]));
  const slots = Map.groupBy(
    inSlots(backends, port.affinitySeconds > 0 ? 'affinity' : hashes === undefined ? 'weights' : 'clients'),
    (backend) => backend,
  );
  return new Map(slots.entries().map(([backend, { length }]) => [backend, length]));
}

/** The backend that the client's address alone decides about. */
function hashedOf({ source }: Packet, { port, backends }: Balance, { mode }: ModeSettings): Backend | undefined {
  if (mode !== 'nftables' || port.hashes !== 'address' || backends.length < 2) return undefined;
  const slots = inSlots(backends, 'clients');
  return slots[jenkinsNumber(addressBytes(source), slots.length, 0x736c6963)];
}

/**
 * docs/semantics.md 7.7. What is kept for it knows the address alone, in IPVS mode also protocol and port: it may come from any
 * ServicePort.
 */
function isHairpin({ address, text }: Backend, { protocol }: ServicePort, input: OracleInput): boolean {
  const isSame = (one: Backend, port: ServicePort) =>
    one.address === address && (input.mode.mode !== 'ipvs' || (one.text === text && port.protocol === protocol));
  for (const port of input.services.ports) {
    const mine = [...port.cluster, ...port.local].filter((one) => isSame(one, port));
    if (mine.some(({ hairpin }) => hairpin) || (mine.length > 0 && keepsPodsAddresses(port, address, input)))
      return true;
  }
  return false;
}

/** Whether packets from the endpoint may be taken for those of a pod of this node, and keep their source on the way to all endpoints. */
function keepsPodsAddresses(port: ServicePort, address: Address, input: OracleInput): boolean {
  const { localDetector } = input.mode.settings;
  if (localDetector.kind === 'none') return false;
  if (localDetector.kind === 'cidr' && !cidrContains(localDetector.cidr, address)) return false;
  return port.frontends.some(({ role, policy }) => role !== 'cluster-ip' && policy === 'Local');
}
