/** Explains where a packet goes, and why: the answer of `slicewire explain`. Pure. */
import type { Explanation } from '../wire/explanation.ts';
import type { Question } from './asked.ts';
import { differences } from './differs.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import type { Fate } from './fates.ts';
import { notesOf } from './notes.ts';
import type { Packet } from './packet.ts';
import { readQuestion } from './question.ts';
import { reasonsOf } from './reasons.ts';
import { asRouted } from './sender.ts';
import { explainSlices } from './slices.ts';
import { waysOf } from './steps.ts';
import { walkRemembering } from './sticky.ts';
import { subjectOf } from './subject.ts';
import { verdictOf } from './verdict.ts';
import { walkInPortions } from './walk.ts';
import { WrongQuestion } from './wrong-question.ts';

export interface AskedText {
  readonly from: string;
  readonly to: string;
  /** Whether the answer has the steps through the kernel. */
  readonly rules: boolean;
}

/** Throws WrongQuestion with a sentence for the person who asked. */
export async function explain({ from, to, rules }: AskedText, facts: ExplainFacts): Promise<Explanation> {
  const { question, hasRoute } = await asRouted(readQuestion(from, to, facts), facts);
  const family = facts.families.get(question.to.family);
  if (family === undefined) throw new WrongQuestion(`this node does not serve ${question.to.family}`);
  return await explainQuestion(question, { facts, family, rules, hasRoute });
}

interface Context {
  readonly facts: ExplainFacts;
  readonly family: FamilyFacts;
  readonly rules: boolean;
  readonly hasRoute: boolean;
}

async function explainQuestion(question: Question, { facts, family, rules, hasRoute }: Context): Promise<Explanation> {
  const packet = packetOf(question);
  const { localAddresses } = family;
  const { walked, remembered, sticky } = await walkRemembering({ view: family.stands, packet, localAddresses, facts });
  await facts.breath();
  const node = { localAddresses, remembered: new Set(remembered.keys()) };
  const wanted = await walkInPortions({ view: family.desired, packet, facts: node }, () => facts.breath());
  await facts.breath();
  const subject = subjectOf(question, facts, family);
  const slices = subject === undefined ? [] : explainSlices(subject, facts);
  await facts.breath();
  const shared = { question, subject, slices, sticky, family, facts };
  const verdict = verdictOf({ ...shared, fates: walked.fates });
  await facts.breath();
  const service = subject?.service.key ?? (verdict.service.split(':')[0] || undefined);
  const differs = differences({ stands: walked.fates, desired: wanted.fates, view: family.stands, service, facts });
  await facts.breath();
  const { from, to } = question;
  return {
    apiVersion: 'slicewire/v1',
    kind: 'Explanation',
    by: facts.by,
    from: { text: from.text, what: from.what, address: from.address },
    to,
    differs,
    ...withSteps(verdict, rules ? walked.fates : []),
    reasons: subject === undefined ? [] : reasonsOf({ ...shared, subject }),
    slices,
    notes: await notesOf({ question, hasRoute, subject, unknown: walked.unknown, family, facts }),
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
function packetOf({ from, to: { protocol, address, port } }: Question): Packet {
  return { protocol, source: from.address, destination: address, port, device: from.device, state: 'NEW' };
}
