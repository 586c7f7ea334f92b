/** The notes of an explanation: near misses, doubts about the sender, and limits of the answer. Pure. */

import { type Address, cidrContains, endpointText, isLoopback } from '../../base/address.ts';
import { schedulerSentence } from '../../proxy/model/ipvs-scheduler.ts';
import { MODES } from '../../proxy/model/modes.ts';
import { faultText, type Service } from '../../proxy/model/objects.ts';
import { listText } from '../wire/format.ts';
import { type ExplainFacts, type FamilyFacts, MAX_LISTED } from './facts.ts';
import type { PacketDestination, PacketQuery } from './packet-query.ts';
import type { Subject } from './subject.ts';

/** Services between two turns of the event loop. */
const SERVICES_AT_ONCE = 1000;
/** Services that are named. */
const MAX_NAMED = 3;

const LIMIT =
  'Only the proxy was looked at: a NetworkPolicy, rules of other programs or the network may still drop the packet.';

const LIMIT_OF_OTHERS =
  'Only rules of iptables in the tables filter and nat, and in mangle PREROUTING and OUTPUT, were looked at: a NetworkPolicy elsewhere or the network may still drop the packet.';

export interface NotesInput {
  readonly query: PacketQuery;
  /** False when this node sends and has no route to the destination. */
  readonly hasRoute: boolean;
  readonly subject: Subject | undefined;
  readonly unknown: readonly string[];
  readonly family: FamilyFacts;
  readonly facts: ExplainFacts;
}

export async function notesOf(input: NotesInput): Promise<string[]> {
  const { unknown, subject, facts } = input;
  const near = subject === undefined ? await nearMisses(input) : rivals(input, subject);
  const others = [...senderNotes(input), ...ownAddressNotes(input), ...schedulerNotes(input)];
  return [...near, ...others, ...unknown, limitOf(facts.by)];
}

/** The rules of another proxy are read with all that other programs have around them, where iptables lists these. */
function limitOf({ rules, mode }: ExplainFacts['by']): string {
  return rules !== undefined && MODES[mode].rulesBy === 'iptables' ? LIMIT_OF_OTHERS : LIMIT;
}

/** The shares of an answer are equal; a scheduler may choose otherwise. Rules balance where Pods and the node use all endpoints (docs/ipvs.md). */
function schedulerNotes({ query: { to }, subject, family }: NotesInput): string[] {
  const isByRules = subject !== undefined && subject.frontend.policy === 'Local' && subject.list === 'Cluster';
  const { protocol, address, port } = to;
  const found = isByRules ? undefined : family.installed.servers?.server({ protocol, address, port });
  const sentence = found && schedulerSentence({ name: found.server.scheduler, flags: found.server.flags });
  return sentence === undefined
    ? []
    : [`${sentence} The shares of this answer are those of many connections of many clients.`];
}

/** As with NodeLocal DNSCache at the cluster IP of kube-dns (docs/neighbours.md). In IPVS mode not even the cache answers then. */
function ownAddressNotes({ query: { to }, subject, family, facts }: NotesInput): string[] {
  if (MODES[facts.by.mode].balancesBy === 'virtual servers' || subject?.frontend.role !== 'cluster-ip') return [];
  if (!family.localAddresses.has(to.address)) return [];
  return [
    `${to.address} is an address of an interface of this node, too: where rules of another program keep its packets from connection tracking (NOTRACK), as those of NodeLocal DNSCache do, a program of this node answers and not the proxy.`,
  ];
}

/** Faults of other Services that want the same address and port. */
function rivals({ query: { to }, facts }: NotesInput, { port }: Subject): string[] {
  const found: string[] = [];
  for (const fault of facts.faults()) {
    const isRival = fault.object !== port.service && fault.holder === port.service;
    const isAbout = fault.value === to.address || fault.value === String(to.port);
    if (isRival && isAbout) found.push(`${faultText(fault)}.`);
    if (found.length === MAX_NAMED) break;
  }
  return found;
}

/** Services that nearly have the destination, each with the difference. */
async function nearMisses(input: NotesInput): Promise<string[]> {
  const { query, facts } = input;
  const { to } = query;
  const holders: Service[] = [];
  const byNodePort: Service[] = [];
  const byEndpoint: Service[] = [];
  let seen = 0;
  for (const service of facts.objects.services()) {
    if (holders.length < MAX_NAMED && has(service, to.address)) holders.push(service);
    if (byNodePort.length < MAX_NAMED && service.ports.some(({ nodePort }) => nodePort === to.port))
      byNodePort.push(service);
    if (byEndpoint.length < MAX_NAMED && hasEndpoint(service, to.address, facts)) byEndpoint.push(service);
    seen += 1;
    if (seen % SERVICES_AT_ONCE === 0) await facts.yieldToEventLoop();
  }
  const claims: string[] = [];
  for (const fault of facts.faults()) {
    if (fault.value === to.address && claims.length < MAX_NAMED) claims.push(`${faultText(fault)}.`);
  }
  return [
    ...holders.map((service) => portMiss(service, input)),
    ...byNodePort.map((service) => nodePortMiss(service, input)).filter((note) => note !== undefined),
    ...(byEndpoint.length === 0 ? [] : [endpointNote(byEndpoint, to)]),
    ...(holders.length + byEndpoint.length === 0 ? await formerOwner(input) : []),
    ...claims,
  ];
}

function hasEndpoint({ key }: Service, address: Address, { objects }: ExplainFacts): boolean {
  return objects.slicesOf(key).some(({ endpoints }) => endpoints.some((endpoint) => endpoint.address === address));
}

/** The destination is an endpoint, to which connections go without the proxy. */
function endpointNote(services: readonly Service[], { address }: PacketDestination): string {
  const names = listText(services.map(({ key }) => `Service ${key}`));
  return `${address} is the address of an endpoint of ${names}: a connection to it does not go through the proxy.`;
}

function has({ clusterIPs, externalIPs, loadBalancerIPs }: Service, address: Address): boolean {
  return clusterIPs.includes(address) || externalIPs.includes(address) || loadBalancerIPs.includes(address);
}

function roleOf({ clusterIPs, loadBalancerIPs }: Service, address: Address): string {
  if (clusterIPs.includes(address)) return 'the cluster IP';
  return loadBalancerIPs.includes(address) ? "a load balancer's address" : 'an external IP';
}

/** `port 80`, `ports 80 and 9090/UDP`: the protocol is written where it is not TCP. */
function portNumbers({ ports }: Pick<Service, 'ports'>): string {
  const numbers = ports.map(({ port, protocol }) => (protocol === 'TCP' ? String(port) : `${port}/${protocol}`));
  return `port${numbers.length === 1 ? '' : 's'} ${listText(numbers, MAX_LISTED)}`;
}

/** `10.96.0.20 has port 80, not 8080` */
function portMiss(service: Service, { query: { to } }: NotesInput): string {
  const { address, port, protocol } = to;
  const whose = `it is ${roleOf(service, address)} of Service ${service.key}`;
  const others = service.ports.filter((spec) => spec.port === port).map((spec) => spec.protocol);
  if (others.includes(protocol))
    return `${endpointText(address, port)} is asked for by Service ${service.key}, which does not have it.`;
  const [other] = others;
  if (other !== undefined) {
    const ask = `${endpointText(address, port)}/${other.toLowerCase()}`;
    return `${address} has port ${port} for ${listText(others, MAX_LISTED)}, not for ${protocol}; ${whose}. Did you mean ${ask}?`;
  }
  const target = service.ports.find((spec) => spec.nodePort === port);
  const isNodePort = target === undefined ? '' : ` ${port} is its node port, which the node's addresses have.`;
  return `${address} has ${portNumbers(service)}, not ${port}; ${whose}.${isNodePort}`;
}

function nodePortMiss(service: Service, { query: { to }, family, facts }: NotesInput): string | undefined {
  const spec = service.ports.find(({ nodePort }) => nodePort === to.port);
  if (spec === undefined || has(service, to.address)) return undefined;
  const what = `Port ${to.port} is the node port of Service ${service.key}`;
  if (spec.protocol !== to.protocol) return `${what} for ${spec.protocol}, not for ${to.protocol}.`;
  if (isLoopback(to.address) && MODES[facts.by.mode].loopbackBy === 'relay') return notRelayed(what, to, facts);
  const { nodePortAddresses } = family;
  if (nodePortAddresses.length === 0) return `${what}, and no address of this node takes node ports.`;
  const only = nodePortAddresses.length === 1 ? ' only' : '';
  return `${what}; on this node the node port is served on ${listText(nodePortAddresses, MAX_LISTED)}${only}.`;
}

/** Why a node port is not served at a loopback address; `what` names it and its Service. */
function notRelayed(what: string, to: PacketDestination, facts: Pick<ExplainFacts, 'relay' | 'by'>): string {
  const { addresses } = facts.relay;
  if (addresses.length === 0) {
    return `${what}; in ${facts.by.mode} mode it is served on loopback only where --nodeport-addresses names a range of loopback, such as localhost.`;
  }
  if (to.protocol !== 'TCP') return `${what}; on loopback the relay of the agent serves TCP alone.`;
  const at = listText(addresses.map((address) => endpointText(address, to.port)));
  return `${what}; on loopback it is served at ${at} alone, to programs of this node.`;
}

/** `no Service has this address; shop/web had it until 12:03:04` */
async function formerOwner({ query: { to }, family, facts }: NotesInput): Promise<string[]> {
  const { protocol, address, port } = to;
  if (family.localAddresses.has(address)) return [];
  const former = await facts.formerOwnerOf?.({ family: to.family, protocol, address, port });
  if (former !== undefined) return [`No Service has ${address} now; ${former.service} had it until ${former.until}.`];
  const range = family.serviceCidrs.find((cidr) => cidrContains(cidr, address));
  return [`No Service has the address ${address}${range === undefined ? '' : `, though it is in ${range}`}.`];
}

function senderNotes({ query: { from, to }, hasRoute, subject, family }: NotesInput): string[] {
  const notes: string[] = [];
  if (!hasRoute) {
    notes.push(
      `This node has no route to ${to.address}: a program on it cannot connect, before the proxy sees any packet. Add a route, such as a default one.`,
    );
  }
  if (from.isExample) {
    const ranges = subject?.frontend.role === 'load-balancer' && subject.port.sourceRanges !== undefined;
    const more = ranges ? '; name an address to know what the source ranges say about it' : '';
    notes.push(`${from.address} stands for any client outside the cluster${more}.`);
  }
  if (from.what === 'outside' && !from.isExample && family.localDetector.kind === 'interface') {
    const { name } = family.localDetector;
    notes.push(
      `${from.address} is taken for a client outside: this node recognises its Pods by the interface ${name} alone.`,
    );
  }
  if (to.protocol === 'UDP' && subject !== undefined) {
    notes.push(
      'The answer is about a new flow: a flow that the kernel knows keeps its endpoint while that one serves.',
    );
  }
  return notes;
}
