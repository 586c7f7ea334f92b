/**
 * Verifies the rules of another proxy: each address and port of each Service is asked for from a Pod, from the node and from outside, once by
 * those rules and once by what the objects ask for. The rules themselves cannot be compared, because each proxy has a form of its own. Pure.
 */
import { type Address, endpointText, FAMILIES, type Family, familyOf } from '../../base/address.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import { API_VERSION, WrongQuestion } from '../wire/envelope.ts';
import type { Verification, VerifiedDifference } from '../wire/verification.ts';
import { causesOf } from './causes.ts';
import { inWords, isSame } from './differs.ts';
import type { ExplainFacts } from './facts.ts';
import { purposeOf } from './on-purpose.ts';
import type { Fate, NodeOfPacket, Packet } from './packet.ts';
import { type PacketQuery, readQuery } from './packet-query.ts';
import { subjectOf } from './subject.ts';
import { MAX_DIFFERENCES } from './verify.ts';
import { walkInPortions } from './walk.ts';

interface VerifiedRules {
  readonly facts: ExplainFacts;
  /** The destinations that the other proxy's rules name, so that one that no Service has any more is found, too. */
  readonly served: readonly FrontendAt[];
  /** Leaves out all senders but clients outside, and the cluster IPs of Services. */
  readonly isOutsideAlone?: boolean;
  readonly signal: AbortSignal;
}

/** Questions between two turns of the event loop. */
const QUESTIONS_AT_ONCE = 20;
/** Sentences about rules that were not interpreted. */
const MAX_NOTES = 20;

/** Resolves with the differences in the order of the Services. Rejects with the signal's reason. */
export async function verifyWalks({ signal, ...asked }: VerifiedRules): Promise<Verification> {
  const { facts } = asked;
  const differences: VerifiedDifference[] = [];
  const onPurpose: VerifiedDifference[] = [];
  const notes = new Set<string>();
  let [compared, count] = [0, 0];
  for (const question of questions(asked)) {
    const answer = await compare(question, facts);
    compared += 1;
    for (const sentence of answer.unknown) notes.add(sentence);
    if (answer.difference !== undefined) {
      const list = answer.isOnPurpose ? onPurpose : differences;
      if (!answer.isOnPurpose) count += 1;
      if (list.length < MAX_DIFFERENCES) list.push(answer.difference);
    }
    if (compared % QUESTIONS_AT_ONCE !== 0) continue;
    await facts.yieldToEventLoop();
    signal.throwIfAborted();
  }
  return {
    ...{ apiVersion: API_VERSION, kind: 'Verification', by: facts.by },
    ...{ equal: count === 0, compared, differences, count, lastWriter: null },
    ...{ onPurpose, notes: [...notes].slice(0, MAX_NOTES) },
  };
}

/** A connection to ask about. */
interface Question {
  readonly from: string;
  readonly to: string;
  readonly query: PacketQuery;
}

function* questions({ facts, served, isOutsideAlone = false }: Omit<VerifiedRules, 'signal'>): Generator<Question> {
  const senders = new Map(
    FAMILIES.map((family) => [family, isOutsideAlone ? ['outside'] : sendersOf(family, facts)] as const),
  );
  const seen = new Set<string>();
  for (const at of destinations(facts, served, isOutsideAlone)) {
    for (const address of addressesOf(at, facts)) {
      const to = `${endpointText(address, at.port)}/${at.protocol.toLowerCase()}`;
      if (seen.has(to)) continue;
      seen.add(to);
      for (const from of senders.get(at.family) ?? []) {
        const query = queryOf(from, to, facts);
        if (query !== undefined) yield { from, to, query };
      }
    }
  }
}

/** Those of the Services first. */
function* destinations(
  { model }: ExplainFacts,
  served: readonly FrontendAt[],
  isOutsideAlone: boolean,
): Generator<FrontendAt> {
  const inside = new Set<string>();
  for (const { family, protocol, frontends } of model.ports.values()) {
    for (const { role, address, port } of frontends) {
      if (isOutsideAlone && role === 'cluster-ip') inside.add(`${protocol} ${address} ${port}`);
      else yield { family, protocol, address, port };
    }
  }
  for (const at of served) if (!inside.has(`${at.protocol} ${at.address} ${at.port}`)) yield at;
}

/** A node port is asked for at the first address of the node that takes it. */
function addressesOf({ address, family }: FrontendAt, { families }: ExplainFacts): readonly Address[] {
  if (!families.has(family)) return [];
  return address === undefined ? (families.get(family)?.nodePortAddresses.slice(0, 1) ?? []) : [address];
}

/** Senders as `explain` takes them: a Pod of this node where there is one, the node, and a client outside. */
function sendersOf(family: Family, facts: ExplainFacts): readonly string[] {
  const pod = podOf(family, facts);
  return [...(pod === undefined ? [] : [pod]), 'node', 'outside'];
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

/** undefined for a question that this node cannot ask, such as from a family that it does not serve. */
function queryOf(from: string, to: string, facts: ExplainFacts): PacketQuery | undefined {
  try {
    return readQuery(from, to, facts);
  } catch (error) {
    if (error instanceof WrongQuestion) return undefined;
    throw error;
  }
}

interface Compared {
  /** undefined where both ways end alike. */
  readonly difference: VerifiedDifference | undefined;
  readonly isOnPurpose: boolean;
  /** Sentences about rules that were not interpreted. */
  readonly unknown: readonly string[];
}

async function compare({ from, to, query }: Question, facts: ExplainFacts): Promise<Compared> {
  const family = facts.families.get(query.to.family);
  if (family === undefined) throw new Error(`${query.to.family} is asked about, and not served`);
  const { protocol, address, port } = query.to;
  const packet: Packet = {
    ...{ protocol, source: query.from.address, destination: address, port },
    ...{ device: query.from.device, state: 'NEW' },
  };
  const around: NodeOfPacket = { localAddresses: family.localAddresses, remembered: new Set() };
  const walked = (view: typeof family.installed) =>
    walkInPortions({ view, packet, facts: around }, () => facts.yieldToEventLoop());
  const [{ fates: installed, unknown }, { fates: desired }] = [
    await walked(family.installed),
    await walked(family.desired),
  ];
  if (isSame(installed, desired)) return { difference: undefined, isOnPurpose: false, unknown };
  const subject = subjectOf(query, facts, family);
  const service = subject?.service.key;
  const { mode } = facts.by;
  const purpose = subject && purposeOf({ installed, desired, query, subject, mode, objects: facts.objects });
  const difference: VerifiedDifference = {
    family: query.to.family,
    object: `from ${senderText(from)} to ${to}`,
    service: service ?? '',
    kind: kindOf(installed, desired),
    wanted: [inWords(desired)],
    found: [inWords(installed)],
    because: '',
    causes: purpose === undefined ? causesOf({ installed, desired, service, facts }) : [purpose],
    repaired: false,
  };
  return { difference, isOnPurpose: purpose !== undefined, unknown };
}

function kindOf(installed: readonly Fate[], desired: readonly Fate[]): VerifiedDifference['kind'] {
  const isLeftAlone = (fates: readonly Fate[]) => fates.every(({ kind }) => kind === 'untouched');
  if (isLeftAlone(desired)) return 'foreign';
  return isLeftAlone(installed) ? 'missing' : 'changed';
}

function senderText(from: string): string {
  if (from === 'node') return 'the node';
  return from === 'outside' ? 'a client outside' : `the Pod at ${from}`;
}
