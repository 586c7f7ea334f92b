/** Differences between the kernel and the desired state on the packet's way, as the first sentences of an answer. Pure. */

import { firstLine } from '../../base/cause.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import { listText, percentText } from '../wire/format.ts';
import { causesOf } from './causes.ts';
import { type ExplainFacts, MAX_LISTED } from './facts.ts';
import { purposeOf } from './on-purpose.ts';
import { FATE_WORDS, type Fate, type WalkStep } from './packet.ts';
import type { PacketQuery } from './packet-query.ts';
import type { Subject } from './subject.ts';

/** The probabilities of two walks may differ by this: they are sums of fractions. */
const TOLERANCE = 1e-6;

export interface DifferInput {
  readonly installed: readonly Fate[];
  readonly desired: readonly Fate[];
  /** The installed objects. */
  readonly view: FamilyView;
  readonly query: PacketQuery;
  /** undefined where no Service has the destination. */
  readonly subject: Subject | undefined;
  /** The Service of the destination; undefined for none. */
  readonly service: ServiceKey | undefined;
  readonly facts: ExplainFacts;
}

/** Usually empty. */
export function differences(input: DifferInput): string[] {
  const { installed, desired, view, service, facts } = input;
  if (isSame(installed, desired)) return [];
  if (facts.by.rules !== undefined) return ofOthers(input);
  const what = `The kernel differs from the desired state: the packet is ${inWords(installed)}, and should be ${inWords(desired)}.`;
  return [what, ...missingStep({ installed, desired, view }), why(service, facts)];
}

/** Rules of another proxy have another form, so that a step of the desired ones is not looked for in them. */
function ofOthers({ installed, desired, query, subject, service, facts }: DifferInput): string[] {
  const purpose = purposeOf({ installed, desired, query, subject }, facts);
  const what = `${facts.by.rules}'s rules differ from what the objects ask for: the packet is ${inWords(installed)}, and should be ${inWords(desired)}.`;
  if (purpose !== undefined) return [what, `This is on purpose. ${purpose}`];
  return [what, ...causesOf({ installed, desired, service, facts })];
}

export function isSame(a: readonly Fate[], b: readonly Fate[]): boolean {
  if (a.length !== b.length) return false;
  const byKey = new Map(a.map((fate) => [keyOf(fate), fate.probability]));
  return b.every((fate) => Math.abs((byKey.get(keyOf(fate)) ?? -1) - fate.probability) < TOLERANCE);
}

function keyOf({ kind, backend, masqueraded }: Fate): string {
  return `${kind} ${backend} ${masqueraded}`;
}

export function inWords(fates: readonly Fate[]): string {
  const balanced = fates.filter(({ kind }) => kind === 'balanced');
  const words = fates.flatMap(({ kind, probability }) =>
    kind === 'balanced' ? [] : [share(FATE_WORDS[kind], probability)],
  );
  const targets = balanced.map(({ backend, masqueraded }) => (masqueraded ? `${backend} (masqueraded)` : backend));
  const sum = balanced.reduce((total, { probability }) => total + probability, 0);
  const sent = targets.length === 0 ? [] : [share(`sent to ${listText(targets, MAX_LISTED)}`, sum)];
  return [...sent, ...words].join(', or ');
}

function share(words: string, probability: number): string {
  return probability > 1 - TOLERANCE ? words : `${words} (${percentText(probability)})`;
}

/** The first desired step that the kernel lacks: the place to look at. */
function missingStep({ installed, desired, view }: Pick<DifferInput, 'installed' | 'desired' | 'view'>): string[] {
  const met = new Set(installed.flatMap(({ way }) => way.map(({ chain, rule }) => `${chain} ${rule}`)));
  const missing = desired
    .flatMap(({ way }) => way)
    .find((step) => !met.has(`${step.chain} ${step.rule}`) && !isThere(step, view));
  if (missing === undefined)
    return ['All that the packet should meet is there; another rule, order or value leads it elsewhere.'];
  const { table, chain, rule } = missing;
  return [`The kernel lacks this in ${table} ${chain}: ${rule}`];
}

/** Whether the rule or element exists. The packet may not meet one that does. */
function isThere({ table: name, chain, rule, key }: WalkStep, { rules, table }: FamilyView): boolean {
  if (table !== undefined) {
    return key === undefined
      ? table.chain(chain)?.some(({ text }) => text === rule) === true
      : table.element(chain, key) !== undefined;
  }
  const isTable = name === 'nat' || name === 'filter' || name === 'mangle';
  return isTable && rules?.chain(name, chain)?.some(({ text }) => text === rule) === true;
}

function why(service: ServiceKey | undefined, { refused, isPending, lastWriter }: ExplainFacts): string {
  const cause = service === undefined ? undefined : refused.get(service);
  if (cause !== undefined) return `The kernel refuses the rules of Service ${service}: ${causeText(cause)}.`;
  if (service !== undefined && isPending(service)) {
    return `A change of Service ${service} is not written yet; the next sync writes it.`;
  }
  const repaired = 'The next sync that reads the kernel repairs it; "slicewire verify" lists all that differs.';
  if (lastWriter === undefined || lastWriter.isUs) return `Another program changed the kernel. ${repaired}`;
  const { name, pid } = lastWriter;
  return `Another program changed the kernel; the last one that wrote is ${name} (process ${pid}). ${repaired}`;
}

/** The words of the kernel's tool, as a part of a sentence. */
export function causeText(cause: string): string {
  return firstLine(cause).replace(/\.$/, '');
}
