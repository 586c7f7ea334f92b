/** The verdict in one sentence: where the kernel sends the packet, and why. Pure. */

import { cidrContains, isLoopback } from '../../base/address.ts';
import type { ExplainedEndpoint, Explanation } from '../wire/explanation.ts';
import { countText, listText, percentText } from '../wire/format.ts';
import type { Fate } from './fates.ts';
import { type Masquerading, masquerading } from './masquerade.ts';
import { destinationText, packetWord } from './packet-question.ts';
import { relayedVerdict } from './relayed.ts';
import { stickyClause } from './session-affinity.ts';
import { type StoppedInput, stoppedBecause } from './stopped.ts';
import { backendsOf } from './subject.ts';

type PacketVerdict = Explanation['verdict'];

export interface VerdictInput extends StoppedInput {
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
