/** The verdict in one sentence: where the kernel sends the packet, and why. Pure. */
import { cidrContains, endpointText, holdsAll, isLoopback } from '../../base/address.ts';
import { MODES } from '../../proxy/model/modes.ts';
import { type Backend, totalWeight } from '../../proxy/model/service-port.ts';
import { specialKind } from '../../proxy/model/special-address.ts';
import { hairpinBackends } from '../../proxy/modes/netfilter/local-traffic.ts';
import type { ExplainedEndpoint, ExplainedSlice, Explanation } from '../wire/explanation.ts';
import { countText, listText, percentText, secondsText } from '../wire/format.ts';
import { type ExplainFacts, type FamilyFacts, MAX_LISTED } from './facts.ts';
import { FATE_WORDS, type Fate } from './packet.ts';
import { destinationText, type PacketQuery, type PacketSender, packetWord } from './packet-query.ts';
import { socketOf } from './rule.ts';
import { policyField } from './slice-endpoints.ts';
import { backendsOf, type Subject } from './subject.ts';

type PacketVerdict = Explanation['verdict'];

interface VerdictInput extends DropInput {
  /** By the installed objects. */
  readonly fates: readonly Fate[];
  readonly sticky: PacketVerdict['sticky'];
}

export function verdictOf(input: VerdictInput): PacketVerdict {
  const { fates, subject, sticky } = input;
  if (subject?.isRelayed === true && fates.every(({ kind }) => kind === 'untouched'))
    return relayedVerdict({ ...input, subject });
  const balanced = fates.filter(({ kind }) => kind === 'balanced').sort((a, b) => (a.backend < b.backend ? -1 : 1));
  const service = subject?.port.id ?? ownerOf(fates);
  if (balanced.length > 0) {
    const endpoints = explainedEndpoints(balanced, input);
    const sentence = balancedSentence(endpoints, service, input);
    return { kind: 'balanced', sentence, service, endpoints, sticky };
  }
  return { ...unbalanced(input), service, endpoints: [], sticky: null };
}

function explainedEndpoints(balanced: readonly Fate[], input: VerdictInput): ExplainedEndpoint[] {
  const { query, subject, family, facts } = input;
  const backends = new Map(subject === undefined ? [] : backendsOf(subject).map((each) => [each.text, each]));
  const shared = { from: query.from, subject, family, mode: facts.by.mode };
  return balanced.map((fate) => {
    const { masqueraded, why } = masquerading({ ...shared, fate, backend: backends.get(fate.backend) });
    return { endpoint: fate.backend, share: Math.min(1, fate.probability), masqueraded, why, steps: [] };
  });
}

/** The Service that the kernel names, where the model has it no more. */
function ownerOf(fates: readonly Fate[]): string {
  for (const { way } of fates) {
    const owner = way.findLast((step) => step.owner !== undefined)?.owner;
    if (owner !== undefined) return owner;
  }
  return '';
}

function balancedSentence(endpoints: readonly ExplainedEndpoint[], service: string, input: VerdictInput): string {
  const { query, sticky, fates } = input;
  const [first] = endpoints;
  const of = service === '' ? 'a Service that this agent does not know' : `Service ${service}`;
  const others = fates.filter(({ kind }) => kind !== 'balanced');
  const isWhole = others.length === 0;
  const where =
    sticky !== null
      ? `to ${sticky.endpoint}, ${stickyClause(sticky, of)}`
      : endpoints.length === 1 && isWhole
        ? `to ${first?.endpoint}, ${onlyClause(input.subject, of)}`
        : `to one of ${countText(endpoints.length, 'endpoint')} of ${of} (${sharesOf(endpoints)})`;
  const rest = others
    .map(({ kind, probability }) => `; ${percentText(probability)} of them are ${FATE_WORDS[kind]}`)
    .join('');
  return `The ${packetWord(query.to)} goes ${where}, and ${maskClause(endpoints)}${rest}.`;
}

function onlyClause(subject: Subject | undefined, of: string): string {
  const all = subject === undefined ? 1 : backendsOf(subject).length;
  if (all < 2 || subject?.port.hashes !== 'address') return `the only endpoint in use of ${of}`;
  return `which the address of the client selects among the ${all} endpoints in use of ${of}`;
}

/** `which session affinity of Service shop/web remembers for this client for another 9 min` */
function stickyClause({ seconds }: NonNullable<PacketVerdict['sticky']>, of: string): string {
  return `which the session affinity of ${of} remembers for this client for another ${secondsText(seconds)}`;
}

function sharesOf(endpoints: readonly ExplainedEndpoint[]): string {
  const shares = new Set(endpoints.map(({ share }) => percentText(share)));
  return shares.size === 1 ? `${[...shares][0]} each` : 'with the shares below';
}

/** `keeps its source address because …`, with the endpoints that are an exception. */
function maskClause(endpoints: readonly ExplainedEndpoint[]): string {
  // Masquerading is the exception, of an endpoint that is the sender itself.
  const groups = [...Map.groupBy(endpoints, (each) => each.masqueraded)].sort(([a], [b]) => Number(a) - Number(b));
  const [common, exception] = groups.map(([, group]) => ({ group, why: mostCommon(group) }));
  if (common === undefined) return 'keeps its source address';
  if (exception === undefined) return clauseOf(common.why);
  const names = listText(exception.group.slice(0, 3).map(({ endpoint }) => endpoint));
  return `${clauseOf(common.why)}; on the way to ${names} it ${clauseOf(exception.why)}`;
}

function mostCommon(group: readonly ExplainedEndpoint[]): Masquerading {
  const [whys] = [...Map.groupBy(group, ({ why }) => why).values()].sort((a, b) => b.length - a.length);
  return { masqueraded: group[0]?.masqueraded ?? false, why: whys?.[0]?.why ?? '' };
}

function clauseOf({ masqueraded, why }: Masquerading): string {
  return `${masqueraded ? 'is masqueraded' : 'keeps its source address'} because ${why}`;
}

function unbalanced(input: VerdictInput): Pick<PacketVerdict, 'kind' | 'sentence'> {
  const { query, fates, subject } = input;
  const likeliest = [...fates].sort((a, b) => b.probability - a.probability)[0];
  const packet = `The ${packetWord(query.to)}`;
  if (likeliest?.kind === 'rejected' || likeliest?.kind === 'dropped') {
    const kind = likeliest.kind === 'rejected' ? 'refused' : 'dropped';
    return { kind, sentence: `${packet} is ${kind} because ${dropReason(input, likeliest)}.` };
  }
  if (subject !== undefined) {
    const sentence = `${packet} is left alone, although Service ${subject.port.id} has ${destinationText(query.to)}.`;
    return { kind: isLocal(input) ? 'local' : 'not a Service', sentence };
  }
  if (isLocal(input)) {
    const sentence = `${destinationText(query.to)} is this node's own address, and no Service has it: the proxy leaves the ${packetWord(query.to)} to the programs of this node.`;
    return { kind: 'local', sentence };
  }
  return { kind: 'not a Service', sentence: notAService(input) };
}

function isLocal({ query: { to }, family }: VerdictInput): boolean {
  return isLoopback(to.address) || family.localAddresses.has(to.address);
}

function notAService({ query: { to }, family }: VerdictInput): string {
  const range = family.serviceCidrs.find((cidr) => cidrContains(cidr, to.address));
  const where = range === undefined ? '' : `, though its address is in the range of cluster IPs ${range}`;
  return `No Service has ${destinationText(to)}${where}: the proxy leaves the ${packetWord(to)} alone.`;
}

interface DropInput {
  readonly query: PacketQuery;
  readonly subject: Subject | undefined;
  readonly slices: readonly ExplainedSlice[];
  readonly family: FamilyFacts;
  readonly facts: ExplainFacts;
}

/** Why a packet is refused or dropped, as a clause after "because". */
function dropReason(input: DropInput, fate: Fate): string {
  const { subject } = input;
  if (subject !== undefined) {
    const cause = becauseOfService(subject, input, fate);
    if (cause !== undefined) return cause;
  } else {
    const cause = becauseOfAddress(input, fate);
    if (cause !== undefined) return cause;
  }
  return becauseOfRule(fate);
}

function becauseOfService(subject: Subject, input: DropInput, fate: Fate): string | undefined {
  const { port, list } = subject;
  if (fate.kind === 'dropped' && isShutOut(subject, input)) {
    const ranges = port.sourceRanges ?? [];
    const admitted = ranges.length === 0 ? `none of ${port.family}` : listText(ranges, MAX_LISTED);
    const { what, address } = input.query.from;
    const who = what === 'node' ? 'no address of this node is in a range' : `${address} is in no range`;
    return `${who} that Service ${port.service} admits (spec.loadBalancerSourceRanges: ${admitted})`;
  }
  if (backendsOf(subject).length > 0) return undefined;
  if (list === 'Local' && port.hasAny) {
    const { name } = input.facts.node;
    const isHere = input.slices.some(({ endpoints }) => endpoints.some(({ node }) => node === name));
    const none = isHere
      ? `none of its endpoints on this node (${name}) can be used`
      : `it has no endpoint on this node (${name})`;
    return `spec.${policyField(subject)} of Service ${port.service} is Local, and ${none}`;
  }
  return `Service ${port.id} ${noEndpoints(input.slices, subject, input)}`;
}

/** Source ranges shut the sender out (docs/semantics.md 6.12 to 6.14). */
function isShutOut({ frontend, port: { sourceRanges } }: Subject, { query: { from }, family }: DropInput): boolean {
  if (frontend.role !== 'load-balancer' || sourceRanges === undefined) return false;
  const holds = (address: typeof from.address) => sourceRanges.some((range) => cidrContains(range, address));
  return from.what === 'node' ? !family.nodeAddresses.some(holds) : !holds(from.address);
}

/** `has no endpoints: it has no EndpointSlice` */
function noEndpoints(slices: readonly ExplainedSlice[], { port }: Subject, { facts }: DropInput): string {
  const endpoints = slices.flatMap((slice) => slice.endpoints);
  if (slices.length === 0) {
    const others = facts.objects.slicesOf(port.service).length;
    const of = others > 0 ? `no EndpointSlice of ${port.family}` : 'no EndpointSlice';
    return `has no endpoints: it has ${of}`;
  }
  if (endpoints.length === 0) return `has no endpoints: its ${countText(slices.length, 'EndpointSlice')} list none`;
  const reasons = [...Map.groupBy(endpoints, ({ why }) => why)].map(([why, { length }]) => `${length} ${why}`);
  if (reasons.length > 3)
    return `has no endpoint that can be used: see the reason of each of ${endpoints.length} below`;
  return `has no endpoint that can be used (${listText(reasons)})`;
}

/** The address belongs to a Service that has no such port, or to none. */
function becauseOfAddress({ query: { to }, facts, family }: DropInput, fate: Fate): string | undefined {
  for (const { key, clusterIPs, externalIPs, loadBalancerIPs } of facts.objects.services()) {
    if (![clusterIPs, externalIPs, loadBalancerIPs].some((list) => list.includes(to.address))) continue;
    return `${to.address} is an address of Service ${key}, which has no port ${to.port} (${to.protocol})`;
  }
  if (fate.kind !== 'dropped') return undefined;
  const range = family.serviceCidrs.find((cidr) => cidrContains(cidr, to.address));
  if (range !== undefined) return `no Service has ${to.address}, which is in the range of cluster IPs ${range}`;
  if (isLoopback(to.address))
    return `${destinationText(to)} is a loopback address, which other machines must not reach`;
  return undefined;
}

function becauseOfRule({ way }: Fate): string {
  const step = way.at(-1);
  if (step === undefined) return 'the kernel says so';
  return `a rule of the kernel says so: ${step.table} ${step.chain}: ${step.rule}`;
}

const RELAYED = 'the relay of the agent connects to it from an address of this node';

/** Without a listener the kernel answers by a reset. */
const REFUSED: Fate = { kind: 'rejected', backend: '', masqueraded: false, probability: 1, way: [] };

/** Of a connection to a node port on loopback, which the agent's relay takes (docs/semantics.md 6.17). */
function relayedVerdict(input: DropInput & { readonly subject: Subject }): PacketVerdict {
  const { subject, query, facts } = input;
  const { to } = query;
  const service = subject.port.id;
  const endpoints = backendsOf(subject);
  const none = { service, endpoints: [], sticky: null };
  if (endpoints.length === 0) {
    const sentence = `The connection is refused because ${noneBecause(input)}: the relay of the agent does not listen at ${endpointText(to.address, to.port)}.`;
    return { ...none, kind: 'refused', sentence };
  }
  const cause = facts.relay.failures.get(`${to.address} ${to.port}`);
  if (cause !== undefined) {
    const sentence = `The relay of the agent cannot listen at ${endpointText(to.address, to.port)} (${cause}), so the connection does not reach Service ${service}, but the program of this node that has the port.`;
    return { ...none, kind: 'local', sentence };
  }
  const [first] = endpoints;
  const which =
    endpoints.length === 1
      ? `to ${first?.text}, the only endpoint in use of Service ${service}`
      : `to one of ${countText(endpoints.length, 'endpoint')} of Service ${service}`;
  const sentence = `The relay of the agent takes the connection in user space and passes it on ${which}, which sees an address of this node.`;
  const all = totalWeight(endpoints);
  const explained = endpoints.map(({ text, weight = 1 }) => ({
    endpoint: text,
    share: weight / all,
    masqueraded: true,
    why: RELAYED,
    steps: [],
  }));
  return { kind: 'balanced', sentence, service, endpoints: explained, sticky: null };
}

function noneBecause(input: DropInput & { readonly subject: Subject }): string {
  const { port, list } = input.subject;
  const [special] = list === 'Local' ? port.local : port.cluster;
  if (special === undefined) return dropReason(input, REFUSED);
  return `the relay never connects to ${special.text}, ${specialKind(special.address)}`;
}

/** Whether an endpoint sees an address of this node instead of the sender's, and why (docs/semantics.md 7.1 to 7.7): a clause after "because". */
interface Masquerading {
  readonly masqueraded: boolean;
  readonly why: string;
}

interface MasqueradeInput {
  readonly fate: Fate;
  readonly from: PacketSender;
  readonly subject: Subject | undefined;
  /** The endpoint of the fate by the model. */
  readonly backend: Backend | undefined;
  readonly family: FamilyFacts;
  readonly mode: ExplainFacts['by']['mode'];
}

/** The fate as the kernel has it, with the rule of the model where that is the cause. */
function masquerading(input: MasqueradeInput): Masquerading {
  const { fate, from, subject, family, mode } = input;
  const { masqueraded } = fate;
  const rule = subject === undefined ? undefined : byModel(subject, input);
  if (rule?.masqueraded === masqueraded) return rule;
  if (MODES[mode].balancesBy === 'virtual servers' && from.what === 'node') {
    if (masqueraded) return yes('the kernel takes the address of the Service as the source, because this node has it');
    if (subject?.list === 'Local') return no('this node sends it from an own address to an endpoint on this node');
  }
  if (!masqueraded && rule?.masqueraded === true && isOf(fate.backend, family)) {
    return no('the endpoint has an address of this node, and the packet does not leave it');
  }
  const step = fate.way.findLast(({ effect }) => effect.kind === 'masquerade');
  const why =
    step === undefined
      ? 'no rule in the kernel masquerades it'
      : `a rule in the kernel masquerades it (${step.table} ${step.chain}: ${step.rule})`;
  return { masqueraded, why };
}

function byModel(subject: Subject, { fate, from, backend, family }: MasqueradeInput): Masquerading {
  // Services share the entries of endpoints that reach themselves: the rule may be there for another Service.
  if (backend?.address === from.address && (fate.masqueraded || isHairpin(backend, subject, family))) {
    return yes('the endpoint is the sender itself, which would not recognise its own answer');
  }
  return subject.frontend.role === 'cluster-ip' ? toClusterIP(from, family) : toExternal(subject, from);
}

function isHairpin({ text }: Backend, { port }: Subject, { localDetector }: FamilyFacts): boolean {
  return hairpinBackends(port, localDetector).some((backend) => backend.text === text);
}

function toClusterIP(from: PacketSender, { masqueradeAll, localDetector }: FamilyFacts): Masquerading {
  if (masqueradeAll) return yes('--masquerade-all masquerades all connections to cluster IPs');
  if (localDetector.kind === 'none') {
    return no('this node cannot recognise its Pods, and does not masquerade connections to cluster IPs then');
  }
  if (localDetector.kind === 'cidr' && holdsAll(localDetector.cidr)) {
    return no(`the range of Pods, ${localDetector.cidr}, holds every sender`);
  }
  const where = localDetector.kind === 'cidr' ? localDetector.cidr : `the interface ${localDetector.name}`;
  if (from.isLocalPod) return no(`the sender is a Pod (it is in ${where})`);
  const who =
    from.what === 'node' ? 'the sender is this node, not a Pod' : `the sender is not a Pod (it is not in ${where})`;
  return yes(`${who}: the answer must come back through this node`);
}

function toExternal({ frontend: { policy } }: Subject, from: PacketSender): Masquerading {
  if (policy === 'Cluster') {
    return yes('externalTrafficPolicy is Cluster: the answer must come back through this node');
  }
  if (from.what === 'node') return yes('this node itself sends it to an external address');
  if (from.isLocalPod) return no('Pods keep their address under externalTrafficPolicy Local');
  return no('externalTrafficPolicy is Local, which keeps the address of the client');
}

function yes(why: string): Masquerading {
  return { masqueraded: true, why };
}

function no(why: string): Masquerading {
  return { masqueraded: false, why };
}

/** Whether an endpoint, as `ip:port`, has an address of this node: only what leaves the node meets nat POSTROUTING. */
function isOf(endpoint: string, { localAddresses }: FamilyFacts): boolean {
  const address = socketOf(endpoint)?.address;
  return address !== undefined && localAddresses.has(address);
}
