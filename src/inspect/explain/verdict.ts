/** The verdict in one sentence: where the kernel sends the packet, and why. Pure. */
import { type Address, cidrContains, holdsAll, isLoopback, parseAddress } from '../../base/address.ts';
import { MODES } from '../../proxy/model/modes.ts';
import type { Backend } from '../../proxy/model/service-port.ts';
import { hairpinBackends } from '../../proxy/modes/netfilter/local-traffic.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { ExplainedEndpoint, Explanation } from '../wire/explanation.ts';
import { countText, listText, percentText } from '../wire/format.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import type { Fate } from './fates.ts';
import type { NodeOfPacket, Packet } from './packet.ts';
import { destinationText, type PacketSender, packetWord } from './packet-question.ts';
import { lasting } from './phrases.ts';
import { relayedVerdict } from './relayed.ts';
import { type StoppedInput, stoppedBecause } from './stopped.ts';
import { backendsOf, type Subject } from './subject.ts';
import { type Walked, walk, walkInPortions } from './walk.ts';

type PacketVerdict = Explanation['verdict'];

interface VerdictInput extends StoppedInput {
  /** By the view that stands. */
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
  const { question, subject, family, facts } = input;
  const backends = new Map(subject === undefined ? [] : backendsOf(subject).map((each) => [each.text, each]));
  const shared = { from: question.from, subject, family, mode: facts.by.mode };
  return balanced.map((fate) => {
    const { masqueraded, why } = masquerading({ ...shared, fate, backend: backends.get(fate.backend) });
    return { endpoint: fate.backend, share: Math.min(1, fate.probability), masqueraded, why, steps: [] };
  });
}

/** By the kernel, where the model has no such Service any more. */
function ownerOf(fates: readonly Fate[]): string {
  for (const { way } of fates) {
    const owner = way.findLast((step) => step.owner !== undefined)?.owner;
    if (owner !== undefined) return owner;
  }
  return '';
}

function balancedSentence(endpoints: readonly ExplainedEndpoint[], service: string, input: VerdictInput): string {
  const { question, sticky, fates } = input;
  const [first] = endpoints;
  const of = service === '' ? 'a Service that this agent does not know' : `Service ${service}`;
  const others = fates.filter(({ kind }) => kind !== 'balanced');
  const isWhole = others.length === 0;
  const where =
    sticky !== null
      ? `to ${sticky.endpoint}, ${stickyClause(sticky, of)}`
      : endpoints.length === 1 && isWhole
        ? `to ${first?.endpoint}, the only endpoint in use of ${of}`
        : `to one of ${countText(endpoints.length, 'endpoint')} of ${of} (${sharesOf(endpoints)})`;
  const rest = others
    .map(({ kind, probability }) => `; ${percentText(probability)} of them are ${KINDS[kind]}`)
    .join('');
  return `The ${packetWord(question.to)} goes ${where}, and ${maskClause(endpoints)}${rest}.`;
}

const KINDS: Readonly<Record<Fate['kind'], string>> = {
  balanced: 'balanced',
  rejected: 'refused',
  dropped: 'dropped',
  untouched: 'left alone',
};

function sharesOf(endpoints: readonly ExplainedEndpoint[]): string {
  const shares = new Set(endpoints.map(({ share }) => percentText(share)));
  return shares.size === 1 ? `${[...shares][0]} each` : 'with the shares below';
}

/** `keeps its source address because …`, with the endpoints that are an exception. */
function maskClause(endpoints: readonly ExplainedEndpoint[]): string {
  // Masquerading is the exception, of an endpoint that is the sender itself.
  const groups = [...Map.groupBy(endpoints, (each) => each.masqueraded)].sort(([a], [b]) => Number(a) - Number(b));
  const [most, exception] = groups.map(([, group]) => ({ group, why: mostCommon(group) }));
  if (most === undefined) return 'keeps its source address';
  if (exception === undefined) return clauseOf(most.why);
  const names = listText(exception.group.slice(0, 3).map(({ endpoint }) => endpoint));
  return `${clauseOf(most.why)}; on the way to ${names} it ${clauseOf(exception.why)}`;
}

function mostCommon(group: readonly ExplainedEndpoint[]): Masquerading {
  const [whys] = [...Map.groupBy(group, ({ why }) => why).values()].sort((a, b) => b.length - a.length);
  return { masqueraded: group[0]?.masqueraded ?? false, why: whys?.[0]?.why ?? '' };
}

function clauseOf({ masqueraded, why }: Masquerading): string {
  return `${masqueraded ? 'is masqueraded' : 'keeps its source address'} because ${why}`;
}

function unbalanced(input: VerdictInput): Pick<PacketVerdict, 'kind' | 'sentence'> {
  const { question, fates, subject } = input;
  const likeliest = [...fates].sort((a, b) => b.probability - a.probability)[0];
  const packet = `The ${packetWord(question.to)}`;
  if (likeliest?.kind === 'rejected' || likeliest?.kind === 'dropped') {
    const kind = likeliest.kind === 'rejected' ? 'refused' : 'dropped';
    return { kind, sentence: `${packet} is ${kind} because ${stoppedBecause(input, likeliest)}.` };
  }
  if (subject !== undefined) {
    const sentence = `${packet} is left alone, although Service ${subject.port.id} has ${destinationText(question.to)}.`;
    return { kind: isLocal(input) ? 'local' : 'not a Service', sentence };
  }
  if (isLocal(input)) {
    const sentence = `${destinationText(question.to)} is this node's own address, and no Service has it: the proxy leaves the ${packetWord(question.to)} to the programs of this node.`;
    return { kind: 'local', sentence };
  }
  return { kind: 'not a Service', sentence: notAService(input) };
}

function isLocal({ question: { to }, family }: VerdictInput): boolean {
  return isLoopback(to.address) || family.localAddresses.has(to.address);
}

function notAService({ question: { to }, family }: VerdictInput): string {
  const range = family.serviceCidrs.find((cidr) => cidrContains(cidr, to.address));
  const where = range === undefined ? '' : `, though its address is in the range of cluster IPs ${range}`;
  return `No Service has ${destinationText(to)}${where}: the proxy leaves the ${packetWord(to)} alone.`;
}

// Why an endpoint sees the sender's address or one of this node (docs/semantics.md 7.1 to 7.7). Pure.

/** `why` is a clause that follows "because". */
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
  const address = parseAddress(endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/[[\]]/g, ''));
  return address !== undefined && localAddresses.has(address);
}

// Session affinity: which endpoint the kernel remembers for a client, and for how long (docs/semantics.md 7.8). Pure.

type Sticky = NonNullable<Explanation['verdict']['sticky']>;

/** A walk with what the kernel remembers of the client. */
interface Remembering {
  readonly walked: Walked;
  readonly remembered: ReadonlyMap<string, number>;
  readonly sticky: Sticky | null;
}

interface RememberingInput {
  readonly view: FamilyView;
  readonly packet: Packet;
  readonly localAddresses: ReadonlySet<Address>;
  readonly facts: ExplainFacts;
}

/** Walk, look up the memories that were asked on the way, and walk again with those that know the client. */
export async function walkRemembering({ view, packet, localAddresses, facts }: RememberingInput): Promise<Remembering> {
  const node = (remembered: Iterable<string>): NodeOfPacket => ({ localAddresses, remembered: new Set(remembered) });
  const fresh = await walkInPortions({ view, packet, facts: node([]) }, () => facts.breath());
  const { lists, destinations } = fresh.memories;
  if (lists.length === 0 && destinations.length === 0) return { walked: fresh, remembered: new Map(), sticky: null };
  const remembered = await facts.remembered(view.family, fresh.memories, packet.source);
  if (remembered.size === 0) return { walked: fresh, remembered, sticky: null };
  const walked = await walkInPortions({ view, packet, facts: node(remembered.keys()) }, () => facts.breath());
  const [only, another] = walked.fates;
  if (only?.kind !== 'balanced' || another !== undefined) return { walked, remembered, sticky: null };
  const seconds = [...remembered].find(([memory]) => {
    const [fate, second] = walk(view, packet, node([memory])).fates;
    return second === undefined && fate?.backend === only.backend;
  })?.[1];
  return { walked, remembered, sticky: seconds === undefined ? null : { endpoint: only.backend, seconds } };
}

/** `which session affinity of Service shop/web remembers for this client for another 9 min` */
function stickyClause({ seconds }: Sticky, of: string): string {
  return `which the session affinity of ${of} remembers for this client for another ${lasting(seconds)}`;
}
