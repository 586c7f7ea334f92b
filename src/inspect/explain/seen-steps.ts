/** The steps of a traced packet in words. Pure. */

import { endpointText } from '../../base/address.ts';
import type { RuleOf } from '../../kernel/rule-texts.ts';
import type { TracedStep } from '../../kernel/traced-packets.ts';
import { ownerInComment } from '../../proxy/modes/netfilter/rules.ts';
import type { ExplainedStep } from '../wire/explanation.ts';

type EventStep = Extract<TracedStep, { kind: 'event' }>;
type PacketStep = Extract<TracedStep, { kind: 'packet' }>;

/** Tables of iptables (iptables(8)). A table of these names in another family is not of iptables. */
const OF_IPTABLES: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);

export function isIptables({ family, table }: Pick<EventStep, 'family' | 'table'>): boolean {
  return family !== 'inet' && OF_IPTABLES.has(table);
}

/** The steps that mattered. */
export function explainedSteps(steps: readonly TracedStep[], ruleOf: RuleOf): ExplainedStep[] {
  const changes = translations(steps, ruleOf);
  return withoutDetours(steps).map((step) =>
    step.kind === 'packet' ? packetStep(step) : eventStep(step, ruleOf, changes.get(step)),
  );
}

function eventStep(event: EventStep, ruleOf: RuleOf, change: Translation | undefined): ExplainedStep {
  const { table, family, chain, verdict, type } = event;
  const { text, isReject } = ruleOf(event);
  const rule = type === 'policy' ? `policy ${verdict}` : text;
  const name = isIptables(event) ? table : `${family} ${table}`;
  const does = change?.does ?? whatItDoes(event, isReject);
  return { table: name, chain, rule, does, object: ownerInComment(rule) ?? '' };
}

const HOOK_WORDS = {
  prerouting: 'comes in',
  output: 'is sent by this node',
  input: 'arrives at this node',
  postrouting: 'leaves this node',
} as const;

function packetStep({ hook, packet }: PacketStep): ExplainedStep {
  const { source, sourcePort, destination, port } = packet;
  const ends = `from ${endpointText(source, sourcePort)} to ${endpointText(destination, port)}`;
  const does = hook === undefined ? 'is translated' : HOOK_WORDS[hook];
  return { table: 'kernel', chain: hook ?? 'nat', rule: ends, does, object: '' };
}

/** What a rule of nat did to the packet. */
interface Translation {
  readonly of: 'destination' | 'source';
  readonly does: string;
}

/**
 * The rules that translated the packet: a rule of nat right before the packet was seen changed. A packet of a connection that stood
 * before is changed without a rule.
 */
export function translations(steps: readonly TracedStep[], ruleOf: RuleOf): ReadonlyMap<TracedStep, Translation> {
  const found = new Map<TracedStep, Translation>();
  let before: PacketStep['packet'] | undefined;
  for (const [i, step] of steps.entries()) {
    if (step.kind === 'event') continue;
    const { packet } = step;
    const last = steps[i - 1];
    if (last?.kind === 'event' && ruleOf(last).isNat && before !== undefined) {
      if (packet.destination !== before.destination || packet.port !== before.port)
        found.set(last, { of: 'destination', does: `sends it to ${endpointText(packet.destination, packet.port)}` });
      else if (packet.source !== before.source || packet.sourcePort !== before.sourcePort)
        found.set(last, {
          of: 'source',
          does: `gives it the source ${endpointText(packet.source, packet.sourcePort)}`,
        });
    }
    before = packet;
  }
  return found;
}

/** Without what changes nothing: ends of chains, policies that accept, and jumps into chains of which no rule mattered. */
function withoutDetours(steps: readonly TracedStep[]): TracedStep[] {
  const kept: TracedStep[] = [];
  // From the last one on: a jump matters when the step behind it is in its chain.
  for (const step of steps.toReversed()) {
    const next = kept.at(-1);
    if (step.kind === 'event' && !matters(step, next)) continue;
    kept.push(step);
  }
  return kept.reverse();
}

function matters({ type, handle, verdict, family, table, to }: EventStep, next: TracedStep | undefined): boolean {
  if (type === 'policy') return verdict !== 'accept';
  if (handle === undefined) return false;
  if (verdict !== 'jump' && verdict !== 'goto') return true;
  return next?.kind === 'event' && next.family === family && next.table === table && next.chain === to;
}

/** The effect of a rule or policy on the packet. */
function whatItDoes({ verdict, to, type }: EventStep, isReject: boolean): string {
  switch (verdict) {
    case 'jump':
    case 'goto':
      return `goes to ${to}`;
    case 'return':
      return 'goes back';
    case 'continue':
      return 'matches, and the chain goes on';
    case 'drop':
      if (type === 'policy') return 'drops it, because no rule of the chain accepted it';
      return isReject ? 'refuses it' : 'drops it';
    case 'accept':
      return 'accepts it';
    case 'queue':
      return 'leaves the decision to a program that waits for it';
    case 'stolen':
      return 'hands it to another part of the kernel';
    case 'other':
      return 'has an outcome that slicewire does not know';
  }
}
