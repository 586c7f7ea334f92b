/** The answer of `slicewire explain`: where a packet goes, and why. Pure. */
import { API_VERSION, WrongQuestion } from '../wire/envelope.ts';
import type { ExplainedStep, Explanation } from '../wire/explanation.ts';
import { percentText } from '../wire/format.ts';
import { differences } from './differs.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import { notesOf } from './notes.ts';
import type { Effect, Fate, Packet, WalkStep } from './packet.ts';
import { type PacketQuery, readQuery, withRoute } from './packet-query.ts';
import { reasonsOf } from './reasons.ts';
import { explainSlices } from './slice-endpoints.ts';
import { subjectOf } from './subject.ts';
import { verdictOf } from './verdict.ts';
import { walkInPortions, walkRemembering } from './walk.ts';

export interface ExplainRequest {
  readonly from: string;
  readonly to: string;
  /** Whether the answer has the steps through the kernel. */
  readonly rules: boolean;
}

/** Throws WrongQuestion with a sentence for the person who asked. */
export async function explain({ from, to, rules }: ExplainRequest, facts: ExplainFacts): Promise<Explanation> {
  const { query, hasRoute } = await withRoute(readQuery(from, to, facts), facts);
  const family = facts.families.get(query.to.family);
  if (family === undefined) throw new WrongQuestion(`this node does not serve ${query.to.family}`);
  return await explainQuery(query, { facts, family, rules, hasRoute });
}

interface ExplainContext {
  readonly facts: ExplainFacts;
  readonly family: FamilyFacts;
  readonly rules: boolean;
  readonly hasRoute: boolean;
}

async function explainQuery(
  query: PacketQuery,
  { facts, family, rules, hasRoute }: ExplainContext,
): Promise<Explanation> {
  const packet = packetOf(query);
  const { localAddresses } = family;
  const { fresh, walked, remembered, sticky } = await walkRemembering({
    view: family.installed,
    packet,
    localAddresses,
    facts,
  });
  await facts.yieldToEventLoop();
  // The memories of another proxy have names of their own: a client that nobody remembers goes the same way by both.
  const isOfOthers = facts.by.rules !== undefined;
  const node = { localAddresses, remembered: new Set(isOfOthers ? [] : remembered.keys()) };
  const wanted = await walkInPortions({ view: family.desired, packet, facts: node }, () => facts.yieldToEventLoop());
  await facts.yieldToEventLoop();
  const subject = subjectOf(query, facts, family);
  const slices = subject === undefined ? [] : explainSlices(subject, facts);
  await facts.yieldToEventLoop();
  const shared = { query, subject, slices, sticky, family, facts };
  const verdict = verdictOf({ ...shared, fates: walked.fates });
  await facts.yieldToEventLoop();
  const service = subject?.service.key ?? (verdict.service || undefined);
  const differs = differences({
    installed: isOfOthers ? fresh.fates : walked.fates,
    desired: wanted.fates,
    view: family.installed,
    ...{ query, subject, service, facts },
  });
  await facts.yieldToEventLoop();
  const { from, to } = query;
  const refusedBy = subject?.port.limits === undefined ? undefined : await facts.refusedBy?.(subject.port.key);
  return {
    apiVersion: API_VERSION,
    kind: 'Explanation',
    by: facts.by,
    from: { text: from.text, what: from.what, address: from.address },
    to,
    differs,
    ...withSteps(verdict, rules ? walked.fates : []),
    reasons: subject === undefined ? [] : reasonsOf({ ...shared, subject, refusedBy }),
    slices,
    notes: await notesOf({ query, hasRoute, subject, unknown: walked.unknown, family, facts }),
    seen: null,
  };
}

/** The steps of the fates: those of all packets, and those of each endpoint. */
function withSteps(verdict: Explanation['verdict'], fates: readonly Fate[]): Pick<Explanation, 'verdict' | 'steps'> {
  const { shared, own } = waysOf(fates);
  const keyOf = (endpoint: string, masqueraded: boolean) => `${endpoint} ${masqueraded}`;
  const byKey = new Map([...own].map(([fate, steps]) => [keyOf(fate.backend, fate.masqueraded), steps]));
  const endpoints = verdict.endpoints.map((each) => ({
    ...each,
    steps: [...(byKey.get(keyOf(each.endpoint, each.masqueraded)) ?? [])],
  }));
  return { verdict: { ...verdict, endpoints }, steps: [...shared] };
}

/** The first packet of a connection. */
function packetOf({ from, to: { protocol, address, port } }: PacketQuery): Packet {
  return { protocol, source: from.address, destination: address, port, device: from.device, state: 'NEW' };
}

/** The way of a packet through the kernel, as steps of an answer. */
interface Ways {
  /** The steps that all packets share. */
  readonly shared: readonly ExplainedStep[];
  /** The further steps of each fate. */
  readonly own: ReadonlyMap<Fate, readonly ExplainedStep[]>;
}

function waysOf(fates: readonly Fate[]): Ways {
  const [first] = fates;
  if (first === undefined) return { shared: [], own: new Map() };
  let length = fates.length === 1 ? first.way.length : 0;
  if (fates.length > 1) {
    while (length < first.way.length && fates.every(({ way }) => isSame(way[length], first.way[length]))) length += 1;
  }
  const own = new Map(fates.map((fate) => [fate, fate.way.slice(length).map(explained)]));
  return { shared: first.way.slice(0, length).map(explained), own };
}

function isSame(a: WalkStep | undefined, b: WalkStep | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  return a.table === b.table && a.chain === b.chain && a.rule === b.rule && a.share === b.share && does(a) === does(b);
}

function explained(step: WalkStep): ExplainedStep {
  const { table, chain, rule, owner } = step;
  return { table, chain, rule, does: does(step), object: owner ?? '' };
}

function does({ effect, share }: WalkStep): string {
  const words = wordsOf(effect);
  return share < 1 && effect.kind !== 'choose' ? `${words} (${percentText(share)} of the packets)` : words;
}

function wordsOf(effect: Effect): string {
  switch (effect.kind) {
    case 'jump':
    case 'goto':
      return `goes to ${effect.chain}`;
    case 'mark':
      return `sets the mark 0x${effect.mark.toString(16)}`;
    case 'choose':
      return `draws ${effect.number} of ${effect.of} numbers`;
    case 'lookup':
      return effect.found === '' ? 'finds it' : `finds ${effect.found}`;
    case 'translate':
      return `sends it to ${effect.to}`;
    case 'remember':
      return `remembers the client in ${effect.memory}`;
    case 'masquerade':
      return 'masquerades it: the source becomes an address of this node';
    case 'reject':
      return 'refuses it';
    case 'drop':
      return 'drops it';
    case 'accept':
      return 'accepts it';
    case 'return':
      return 'goes back';
  }
}
