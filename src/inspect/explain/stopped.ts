/** Why a packet is refused or dropped, as a clause after "because". Pure. */

import { cidrContains, isLoopback } from '../../base/address.ts';
import type { ExplainedSlice } from '../wire/explanation.ts';
import { countText, listText } from '../wire/format.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import type { Fate } from './fates.ts';
import { destinationText, type PacketQuestion } from './packet-question.ts';
import { firstOf } from './phrases.ts';
import { policyField } from './slice-endpoints.ts';
import { backendsOf, type Subject } from './subject.ts';

export interface StoppedInput {
  readonly question: PacketQuestion;
  readonly subject: Subject | undefined;
  readonly slices: readonly ExplainedSlice[];
  readonly family: FamilyFacts;
  readonly facts: ExplainFacts;
}

export function stoppedBecause(input: StoppedInput, fate: Fate): string {
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

function becauseOfService(subject: Subject, input: StoppedInput, fate: Fate): string | undefined {
  const { port, list } = subject;
  if (fate.kind === 'dropped' && isShutOut(subject, input)) {
    const ranges = port.sourceRanges ?? [];
    const admitted = ranges.length === 0 ? `none of ${port.family}` : firstOf(ranges);
    const { what, address } = input.question.from;
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
function isShutOut(
  { frontend, port: { sourceRanges } }: Subject,
  { question: { from }, family }: StoppedInput,
): boolean {
  if (frontend.role !== 'load-balancer' || sourceRanges === undefined) return false;
  const holds = (address: typeof from.address) => sourceRanges.some((range) => cidrContains(range, address));
  return from.what === 'node' ? !family.nodeAddresses.some(holds) : !holds(from.address);
}

/** `has no endpoints: it has no EndpointSlice` */
function noEndpoints(slices: readonly ExplainedSlice[], { port }: Subject, { facts }: StoppedInput): string {
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
function becauseOfAddress({ question: { to }, facts, family }: StoppedInput, fate: Fate): string | undefined {
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
