/**
 * Verifies the rules of another proxy: each address and port of each Service is asked for from a Pod, from the node and from outside, once by
 * those rules and once by what the objects ask for. The rules themselves cannot be compared, because each proxy has a form of its own. Pure.
 */
import { type Address, endpointText, FAMILIES, type Family, familyOf } from '../../base/address.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { unfiltered } from '../../proxy/modes/netfilter/every-chain.ts';
import { isOurs } from '../../proxy/modes/netfilter/names.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import { API_VERSION } from '../wire/envelope.ts';
import type { Verification, VerifiedDifference } from '../wire/verification.ts';
import { causesOf } from './causes.ts';
import { inWords, isSame } from './differs.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import { purposeOf } from './on-purpose.ts';
import { backendsOf, type Fate, isStop, type NodeOfPacket, type Packet } from './packet.ts';
import { type PacketDestination, type PacketQuery, type PacketSender, senderTo } from './packet-query.ts';
import { subjectOf } from './subject.ts';
import { MAX_DIFFERENCES } from './verify.ts';
import { type Walked, walkInPortions } from './walk.ts';

interface VerifiedRules {
  readonly facts: ExplainFacts;
  /** The destinations that the other proxy's rules name, so that one that no Service has any more is found, too. */
  readonly served: readonly FrontendAt[];
  /** The Services whose frontends are asked for; all by default. */
  readonly services?: ReadonlySet<ServiceKey> | undefined;
  /** `outside`: clients outside alone, and no cluster IPs. `node`: the node alone. */
  readonly senders?: 'all' | 'outside' | 'node';
  readonly signal: AbortSignal;
}

/** Questions between two turns of the event loop. */
const QUESTIONS_AT_ONCE = 20;
/** Sentences about rules that were not interpreted, or are another program's. */
const MAX_NOTES = 20;
/** Source ranges of a frontend from which it is asked for. */
const MAX_RANGES = 100;

/** Resolves with the differences in the order of the Services. Rejects with the signal's reason. */
export async function verifyWalks({ signal, ...asked }: VerifiedRules): Promise<Verification> {
  const { facts } = asked;
  const differences: VerifiedDifference[] = [];
  const onPurpose: VerifiedDifference[] = [];
  const notes = new Set<string>();
  const senders = new Set<PacketSender['what']>();
  let [compared, count, purposes] = [0, 0, 0];
  for (const question of questions(asked)) {
    const answer = await compare(question, facts);
    compared += 1;
    senders.add(question.query.from.what);
    for (const sentence of answer.notes) notes.add(sentence);
    if (answer.difference !== undefined) {
      const list = answer.isOnPurpose ? onPurpose : differences;
      if (answer.isOnPurpose) purposes += 1;
      else count += 1;
      if (list.length < MAX_DIFFERENCES) list.push(answer.difference);
    }
    if (compared % QUESTIONS_AT_ONCE !== 0) continue;
    await facts.yieldToEventLoop();
    signal.throwIfAborted();
  }
  return {
    ...{ apiVersion: API_VERSION, kind: 'Verification', by: facts.by },
    ...{ equal: count === 0, compared, differences, count, lastWriter: null },
    ...{ onPurpose, onPurposeCount: purposes, senders: [...senders], notes: few([...notes]) },
  };
}

function few(notes: readonly string[]): string[] {
  const more = notes.length - MAX_NOTES;
  return more <= 0 ? [...notes] : [...notes.slice(0, MAX_NOTES), `${more} more such rules are not named`];
}

/** A connection to ask about. */
interface Question {
  readonly query: PacketQuery;
  readonly family: FamilyFacts;
}

function* questions({ facts, served, services, senders = 'all' }: Omit<VerifiedRules, 'signal'>): Generator<Question> {
  const isOutsideAlone = senders === 'outside';
  const pods = senders === 'all' ? podsOf(facts) : new Map<Family, Address>();
  const seen = new Set<string>();
  for (const { at, addresses, ranges } of destinations(facts, { served, services, isOutsideAlone })) {
    const family = facts.families.get(at.family);
    if (family === undefined) continue;
    for (const address of addresses) {
      const { port, protocol } = at;
      const text = `${endpointText(address, port)}/${protocol.toLowerCase()}`;
      if (seen.has(text)) continue;
      seen.add(text);
      const to: PacketDestination = { text, address, port, protocol, family: at.family };
      const pod = pods.get(at.family);
      const inside = [
        ...(pod === undefined ? [] : [senderTo(to, { what: 'pod', address: pod }, family)]),
        senderTo(to, { what: 'node' }, family),
      ];
      const outside = [undefined, ...ranges].map((client) =>
        senderTo(to, { what: 'outside', address: client }, family),
      );
      const from = { all: [...inside, ...outside], outside, node: inside }[senders];
      for (const sender of from) yield { query: { from: sender, to }, family };
    }
  }
}

interface AskedFrontend {
  readonly at: FrontendAt;
  readonly addresses: readonly Address[];
  /** Clients that the source ranges of the frontend admit. */
  readonly ranges: readonly Address[];
}

/**
 * Those of the Services first. A node port is asked for at the first address of the node that takes it, and the first node port of a family at all
 * of them: rules lead to all node ports by the same addresses.
 */
function* destinations(
  { model, families }: ExplainFacts,
  {
    served,
    services,
    isOutsideAlone,
  }: Pick<VerifiedRules, 'served' | 'services'> & { readonly isOutsideAlone: boolean },
): Generator<AskedFrontend> {
  const inside = new Set<string>();
  const swept = new Set<Family>();
  const asked = (at: FrontendAt, ranges: readonly Address[] = []): AskedFrontend => {
    if (at.address !== undefined) return { at, addresses: [at.address], ranges };
    const all = families.get(at.family)?.nodePortAddresses ?? [];
    const addresses = swept.has(at.family) ? all.slice(0, 1) : all;
    swept.add(at.family);
    return { at, addresses, ranges };
  };
  const ports = services === undefined ? model.ports.values() : [...services].flatMap((key) => model.portsOf(key));
  for (const { family, protocol, frontends, sourceRanges = [] } of ports) {
    const first = sourceRanges.slice(0, MAX_RANGES).map((range) => range.slice(0, range.indexOf('/')) as Address);
    for (const { role, address, port } of frontends) {
      if (isOutsideAlone && role === 'cluster-ip') inside.add(`${protocol} ${address} ${port}`);
      else yield asked({ family, protocol, address, port }, role === 'load-balancer' ? first : []);
    }
  }
  for (const at of served) if (!inside.has(`${at.protocol} ${at.address} ${at.port}`)) yield asked(at);
}

/** See `podOf`. */
const PODS = new WeakMap<ExplainFacts, ReadonlyMap<Family, Address | undefined>>();

/** By family; found once for all questions about the same facts. */
function podsOf(facts: ExplainFacts): ReadonlyMap<Family, Address | undefined> {
  const pods = PODS.get(facts) ?? new Map(FAMILIES.map((family) => [family, podOf(family, facts)]));
  PODS.set(facts, pods);
  return pods;
}

/** The address of an endpoint that is a Pod of this node. */
function podOf(family: Family, { objects, families, node }: ExplainFacts): Address | undefined {
  const local = families.get(family)?.localAddresses ?? new Set<Address>();
  for (const { key } of objects.services()) {
    for (const { endpoints } of objects.slicesOf(key)) {
      for (const { address, nodeName } of endpoints)
        if (nodeName === node.name && familyOf(address) === family && !local.has(address)) return address;
    }
  }
  return undefined;
}

interface Compared {
  /** undefined where both ways end alike. */
  readonly difference: VerifiedDifference | undefined;
  readonly isOnPurpose: boolean;
  /** Sentences about rules that were not interpreted, or are another program's. */
  readonly notes: readonly string[];
}

/** Two walks of one packet. */
interface Walks {
  readonly installed: Walked;
  readonly desired: Walked;
}

async function compare({ query, family }: Question, facts: ExplainFacts): Promise<Compared> {
  const both = await walks(query, { installed: family.installed, desired: family.desired }, facts);
  const filters = filtersOfOthers([...both.installed.fates, ...both.desired.fates]);
  // A rule that filters for one of them, or for both, would hide where the packets go.
  const compared = filters.length > 0 && isAlike(both) ? await walks(query, bare(family), facts) : both;
  const notes = [...both.installed.unknown, ...filters];
  if (isAlike(compared)) return { difference: undefined, isOnPurpose: false, notes };
  const [installed, desired] = [compared.installed.fates, compared.desired.fates];
  const subject = subjectOf(query, facts, family);
  const service = subject?.service.key;
  const purpose = purposeOf({ installed, desired, query, subject }, facts);
  const forgetful = isSame(installed, desired) ? [memoryText(compared)] : undefined;
  const difference: VerifiedDifference = {
    family: query.to.family,
    object: `from ${senderText(query.from)} to ${query.to.text}`,
    service: service ?? '',
    kind: kindOf(installed, desired),
    wanted: [inWords(desired)],
    found: [inWords(installed)],
    because: '',
    causes: forgetful ?? (purpose === undefined ? causesOf({ installed, desired, service, facts }) : [purpose]),
    repaired: false,
  };
  return { difference, isOnPurpose: forgetful === undefined && purpose !== undefined, notes };
}

async function walks(
  { from, to }: PacketQuery,
  views: { readonly installed: FamilyView; readonly desired: FamilyView },
  facts: ExplainFacts,
): Promise<Walks> {
  const { protocol, address, port, family } = to;
  const packet: Packet = {
    ...{ protocol, source: from.address, destination: address, port },
    ...{ device: from.device, state: 'NEW' },
  };
  const localAddresses = facts.families.get(family)?.localAddresses ?? new Set<string>();
  const around: NodeOfPacket = { localAddresses, remembered: new Set() };
  const walked = (view: FamilyView) => walkInPortions({ view, packet, facts: around }, () => facts.yieldToEventLoop());
  return { installed: await walked(views.installed), desired: await walked(views.desired) };
}

/** Whether packets end alike, and clients are remembered alike where there is a choice. */
function isAlike({ installed, desired }: Walks): boolean {
  if (!isSame(installed.fates, desired.fates)) return false;
  return backendsOf(desired.fates).size < 2 || remembers(installed) === remembers(desired);
}

function remembers({ memories: { lists, destinations: servers } }: Walked): boolean {
  return lists.length + servers.length > 0;
}

function memoryText({ installed }: Walks): string {
  return remembers(installed)
    ? 'The endpoint of a client is remembered, and the Service asks for no session affinity.'
    : 'The endpoint of a client is not remembered, and the Service asks for session affinity.';
}

/** Both views of a family, without the rules by which other programs filter. */
const BARE = new WeakMap<FamilyFacts, { readonly installed: FamilyView; readonly desired: FamilyView }>();

function bare(family: FamilyFacts): { readonly installed: FamilyView; readonly desired: FamilyView } {
  const of = (view: FamilyView): FamilyView =>
    view.rules === undefined ? view : { ...view, rules: unfiltered(view.rules) };
  const made = BARE.get(family) ?? { installed: of(family.installed), desired: of(family.desired) };
  BARE.set(family, made);
  return made;
}

/** Sentences about rules of other programs that stop the packet. */
function filtersOfOthers(fates: readonly Fate[]): string[] {
  const found = new Set<string>();
  for (const { kind, way } of fates) {
    const last = way.at(-1);
    if (!isStop(kind) || last?.table !== 'filter' || isOurs('filter', last.chain)) continue;
    const verb = kind === 'dropped' ? 'drops' : 'refuses';
    found.add(
      `the rule \`${last.rule}\` of filter ${last.chain} is another program's, and ${verb} connections whatever the proxy does`,
    );
  }
  return [...found];
}

function kindOf(installed: readonly Fate[], desired: readonly Fate[]): VerifiedDifference['kind'] {
  const isLeftAlone = (fates: readonly Fate[]) => fates.every(({ kind }) => kind === 'untouched');
  if (isLeftAlone(desired)) return 'foreign';
  return isLeftAlone(installed) ? 'missing' : 'changed';
}

function senderText({ what, address, isExample }: PacketSender): string {
  if (what === 'node') return 'the node';
  if (what === 'pod') return `the Pod at ${address}`;
  return isExample ? 'a client outside' : `a client at ${address}`;
}
