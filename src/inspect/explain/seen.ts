/** The ways of real packets, compared with the computed one. Pure. */
import { type Address, endpointText, type Protocol } from '../../base/address.ts';
import type { TrackedConnection } from '../../kernel/conntrack.ts';
import type { RuleOf } from '../../kernel/rule-texts.ts';
import type { TracedPacket, TracedStep } from '../../kernel/traced-packets.ts';
import { MODES } from '../../proxy/model/modes.ts';
import { ownerInComment } from '../../proxy/modes/netfilter/rules.ts';
import type { ExplainedStep, Explanation } from '../wire/explanation.ts';
import { countText } from '../wire/format.ts';
import type { Fate } from './packet.ts';

export type SeenPackets = NonNullable<Explanation['seen']>;

export type ComputedFate = Pick<Fate, 'kind' | 'backend' | 'masqueraded'>;

/** The fates in an explanation. */
export function fatesOf({ kind, endpoints }: Explanation['verdict']): ComputedFate[] {
  if (kind === 'balanced') {
    const possible = endpoints.filter(({ share }) => share > 0);
    return possible.map(({ endpoint, masqueraded }) => ({ kind: 'balanced', backend: endpoint, masqueraded }));
  }
  const other = kind === 'refused' ? 'rejected' : kind === 'dropped' ? 'dropped' : 'untouched';
  return [{ kind: other, backend: '', masqueraded: false }];
}

export interface SeenInput {
  readonly source: Address | undefined;
  /** The node itself, or another sender; undefined for both. */
  readonly origin?: 'node' | 'network' | undefined;
  readonly destination: Address;
  readonly protocol: Protocol;
  readonly port: number;
  /** The sender for which the fates were computed. */
  readonly computedFor: Address | undefined;
  /** The computed fates of such a packet. */
  readonly fates: readonly ComputedFate[];
  readonly packets: readonly TracedPacket[];
  readonly ruleOf: RuleOf;
  readonly mode: Explanation['by']['mode'];
  /** Why packets, steps or connections may be missing, each as a sentence. */
  readonly gaps: readonly string[];
  readonly connections: readonly TrackedConnection[];
  /** The number of connections that are not in `connections`. */
  readonly otherConnections: number;
  readonly seconds: number;
  /** Why packets were not traced; undefined when they were. */
  readonly notTraced: string | undefined;
}

/** The end of a real packet. A lost one ended outside of nftables. */
type PacketEnd =
  | (Omit<ComputedFate, 'masqueraded'> & {
      /** undefined when the node sent it from the address that masquerading gives. */
      readonly masqueraded: boolean | undefined;
    })
  | { readonly kind: 'lost' };

export function seenAnswer(input: SeenInput): SeenPackets {
  const { packets, connections, otherConnections, ruleOf } = input;
  const texts = connections.map(connectionText);
  if (otherConnections > 0) texts.push(`and ${otherConnections} more`);
  return {
    packets: packets.map(({ at, steps }) => ({
      at: new Date(at).toISOString(),
      steps: explainedSteps(steps, ruleOf),
    })),
    connections: texts,
    sentence: sentenceOf(input),
  };
}

/** `10.244.1.12:43802 to 10.96.0.10:80: sent to 10.244.1.11:8080 as 10.244.1.1:43802, answered` */
export function connectionText({ source, destination, sentTo, sentFrom, isAnswered }: TrackedConnection): string {
  const text = ({ address, port }: TrackedConnection['source']) => endpointText(address, port);
  const to = text(sentTo) === text(destination) ? 'not translated' : `sent to ${text(sentTo)}`;
  const as = text(sentFrom) === text(source) ? '' : ` as ${text(sentFrom)}`;
  return `${text(source)} to ${text(destination)}: ${to}${as}, ${isAnswered ? 'answered' : 'not answered'}`;
}

function endOf({ steps }: TracedPacket, ruleOf: RuleOf): PacketEnd {
  const stop = steps.find((step) => step.kind === 'event' && step.verdict === 'drop');
  if (stop?.kind === 'event') {
    return { kind: ruleOf(stop).isReject ? 'rejected' : 'dropped', backend: '', masqueraded: false };
  }
  const seen = steps.filter((step) => step.kind === 'packet');
  const first = seen[0]?.packet;
  const isFromNode = seen[0]?.hook === 'output';
  const last = seen.findLast(({ hook }) => hook === 'input' || hook === 'postrouting');
  // A packet that leaves by the loopback device has yet to arrive.
  const isOnItsWay = last?.hook === 'postrouting' && last.packet.output === LOOPBACK;
  if (first === undefined || last === undefined || isOnItsWay) return { kind: 'lost' };
  const { destination, port, source } = last.packet;
  const isTranslated = destination !== first.destination || port !== first.port;
  return {
    kind: isTranslated ? 'balanced' : 'untouched',
    backend: isTranslated ? endpointText(destination, port) : '',
    masqueraded: source === first.source && isFromNode ? undefined : source !== first.source,
  };
}

/** The index of the loopback device (net/flow.h, LOOPBACK_IFINDEX). */
const LOOPBACK = 1;

function sentenceOf(input: SeenInput): string {
  const { packets, ruleOf, gaps, notTraced, seconds, mode } = input;
  const lost = gaps.map((gap) => ` ${gap}`).join('');
  if (notTraced !== undefined) return `Packets were not traced: ${notTraced}. ${connectionSentence(input)}${lost}`;
  if (packets.length === 0) return `${noneCame(input, seconds)}${lost}`;
  const ends = packets.map((packet) => ({ packet, end: endOf(packet, ruleOf) }));
  const asComputed = ends.filter(({ end }) => isComputed(end, input));
  const others = ends.filter((one) => !asComputed.includes(one));
  const came = `${countText(packets.length, 'packet')} came`;
  if (others.length === 0) {
    const who = packets.length === 1 ? 'it' : 'all';
    return `${came}; ${who} took the computed way: ${grouped(asComputed)}.${lost}`;
  }
  // IPVS translates without a rule.
  const isStale = MODES[mode].balancesBy === 'rules' && others.some(({ packet }) => isOfOldConnection(packet, ruleOf));
  const stale = isStale
    ? ' Its connection is older than the rules that stand now, so that no rule was asked for its destination.'
    : '';
  const rest = asComputed.length === 0 ? '' : ` ${asComputed.length} took the computed way: ${grouped(asComputed)}.`;
  const who = others.length === packets.length ? (packets.length === 1 ? 'it' : 'all') : String(others.length);
  return `${came}; ${who} took another way than computed: ${grouped(others)}.${stale}${otherSender(others, input)}${rest}${lost}`;
}

/** Of packets from other addresses than the computed one, which rules may treat differently. */
function otherSender(
  others: readonly { readonly packet: TracedPacket }[],
  { source, computedFor }: Pick<SeenInput, 'source' | 'computedFor'>,
): string {
  if (source !== undefined || computedFor === undefined) return '';
  const senders = new Set(
    others.map(({ packet }) => packet.steps.find((step) => step.kind === 'packet')?.packet.source),
  );
  senders.delete(undefined);
  if (senders.has(computedFor) || senders.size === 0) return '';
  return ` The sender was ${[...senders].join(', ')}; the computed way is that of ${computedFor}.`;
}

function isComputed(end: PacketEnd, { fates, mode }: Pick<SeenInput, 'fates' | 'mode'>): boolean {
  // IPVS refuses without a rule.
  if (end.kind === 'lost')
    return (
      MODES[mode].balancesBy === 'virtual servers' &&
      fates.some(({ kind }) => kind === 'rejected' || kind === 'dropped')
    );
  const { masqueraded: seen } = end;
  return fates.some(
    ({ kind, backend, masqueraded }) =>
      kind === end.kind &&
      backend === end.backend &&
      (kind !== 'balanced' || seen === undefined || seen === masqueraded),
  );
}

/** `2 to 10.244.1.11:8080, 1 dropped by the policy of filter FORWARD` */
function grouped(ends: readonly { readonly packet: TracedPacket; readonly end: PacketEnd }[]): string {
  const groups = Map.groupBy(ends, ({ packet, end }) => placeOf(packet, end));
  if (groups.size === 1) return [...groups.keys()].join();
  return [...groups].map(([place, all]) => `${all.length} ${place}`).join(', ');
}

function placeOf({ steps }: TracedPacket, end: PacketEnd): string {
  switch (end.kind) {
    case 'balanced':
      return `to ${end.backend}${end.masqueraded === true ? ', masqueraded' : ''}`;
    case 'untouched':
      return `on with the destination that it came with${end.masqueraded === true ? ', masqueraded' : ''}`;
    case 'lost':
      return `lost outside of nftables ${lastPlace(steps)}`;
    default: {
      const stop = steps.find((step) => step.kind === 'event' && step.verdict === 'drop');
      const where =
        stop?.kind === 'event' ? ` in ${isIptables(stop) ? '' : `${stop.family} `}${stop.table} ${stop.chain}` : '';
      return `${end.kind === 'dropped' ? 'dropped' : 'refused'}${where}`;
    }
  }
}

/** Routing and its filters, IPVS and other parts of the kernel report nothing to nftables. */
function lastPlace(steps: readonly TracedStep[]): string {
  const last = steps.at(-1);
  if (last?.kind === 'event') return `behind the chain ${last.chain} of ${last.table}`;
  return `behind the hook ${last?.kind === 'packet' ? (last.hook ?? 'of its translation') : 'prerouting'}`;
}

/** Translated without a rule: the kernel evaluates rules of nat for the first packet of a connection alone. */
function isOfOldConnection({ steps }: TracedPacket, ruleOf: RuleOf): boolean {
  const packets = steps.filter((step) => step.kind === 'packet').map(({ packet }) => packet);
  const [first] = packets;
  const isTranslated = packets.some((one) => one.destination !== first?.destination || one.port !== first.port);
  return isTranslated && ![...translations(steps, ruleOf).values()].some((change) => change.of === 'destination');
}

function noneCame({ source, destination, port, protocol, connections }: SeenInput, seconds: number): string {
  const to = endpointText(destination, port);
  const what = protocol === 'UDP' ? 'No packet' : 'No packet that opens a connection';
  const open = connections.length;
  const older = open === 0 ? '' : ` ${countText(open, 'connection')} ${open === 1 ? 'is' : 'are'} older: see the list.`;
  const ask = protocol === 'TCP' ? `, such as with curl http://${to}` : '';
  return `${what} from ${source ?? 'any address'} to ${to} came to this node within ${seconds} s.${older} Send one meanwhile${ask}, or give it more time with --seconds.`;
}

function connectionSentence(input: SeenInput): string {
  const { connections, otherConnections, destination, port } = input;
  const to = endpointText(destination, port);
  const all = connections.length + otherConnections;
  if (all === 0) return `Conntrack has no connection to ${to}.`;
  const strange = connections.filter((one) => !isComputed(endOfConnection(one, input.origin), input));
  const has = `Conntrack has ${countText(all, 'connection')} to ${to}`;
  if (strange.length === 0) return `${has}, as computed.`;
  const places = [...new Set(strange.map(({ sentTo }) => endpointText(sentTo.address, sentTo.port)))];
  return `${has}; ${strange.length} of them not as computed, to ${places.join(', ')}.`;
}

function endOfConnection(
  { source, destination, sentTo, sentFrom }: TrackedConnection,
  origin: SeenInput['origin'],
): PacketEnd {
  const isTranslated = sentTo.address !== destination.address || sentTo.port !== destination.port;
  return {
    kind: isTranslated ? 'balanced' : 'untouched',
    backend: isTranslated ? endpointText(sentTo.address, sentTo.port) : '',
    masqueraded:
      sentFrom.address === source.address && origin === 'node' ? undefined : sentFrom.address !== source.address,
  };
}

type EventStep = Extract<TracedStep, { kind: 'event' }>;
type PacketStep = Extract<TracedStep, { kind: 'packet' }>;

/** Tables of iptables (iptables(8)). A table of these names in another family is not of iptables. */
const OF_IPTABLES: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);

function isIptables({ family, table }: Pick<EventStep, 'family' | 'table'>): boolean {
  return family !== 'inet' && OF_IPTABLES.has(table);
}

/** The steps of a traced packet that mattered, in words. */
function explainedSteps(steps: readonly TracedStep[], ruleOf: RuleOf): ExplainedStep[] {
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
  const does = change?.does ?? effectOf(event, isReject);
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

/** The translation by a rule of nat. */
interface Translation {
  readonly of: 'destination' | 'source';
  readonly does: string;
}

/**
 * The rules that translated the packet: a rule of nat right before the packet was seen changed. A packet of an older connection
 * is changed without a rule.
 */
function translations(steps: readonly TracedStep[], ruleOf: RuleOf): ReadonlyMap<TracedStep, Translation> {
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

/** Without steps that change nothing: ends of chains, policies that accept, and jumps into chains of which no rule mattered. */
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
function effectOf({ verdict, to, type }: EventStep, isReject: boolean): string {
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
