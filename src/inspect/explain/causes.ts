/** Why the rules of another proxy lead a packet elsewhere than the objects say, as sentences. Pure. */
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { isOurs } from '../../proxy/modes/netfilter/names.ts';
import { listText, percentText } from '../wire/format.ts';
import { type ExplainFacts, MAX_LISTED } from './facts.ts';
import { backendsOf, FATE_WORDS, type Fate, isStop, type WalkStep } from './packet.ts';
import { socketOf } from './rule.ts';

interface CausesInput {
  readonly installed: readonly Fate[];
  readonly desired: readonly Fate[];
  /** The Service of the destination; undefined for none. */
  readonly service: ServiceKey | undefined;
  readonly facts: Pick<ExplainFacts, 'objects' | 'by'>;
}

/** At least one where the fates differ. */
export function causesOf({ installed, desired, service, facts }: CausesInput): string[] {
  const stopped = installed.find(({ kind, way }) => isStop(kind) && way.length > 0 && !has(desired, kind));
  const [there, wanted] = [backendsOf(installed), backendsOf(desired)];
  const missing = [...wanted.keys()].filter((backend) => !there.has(backend));
  // The proxy stops a part of the connections: those to endpoints to which its rules lead, and no further.
  const isPart = there.size > 0 && missing.length > 0 && stopped !== undefined && isOfProxy(stopped);
  if (stopped !== undefined && !isPart) return [stoppedText(stopped, service, facts)];
  if (isAlikeButForTheSource(installed, desired)) return [sourceText(installed)];
  if (there.size === 0) return [noneText(service, facts)];
  if (wanted.size === 0) {
    const gone = `No Service has this address and port any more: ${nameOf(facts)} has not removed its rules.`;
    return [service === undefined ? gone : `Service ${service} should send this connection to no endpoint.`];
  }
  const stale = [...there.keys()].filter((backend) => !wanted.has(backend));
  const causes = [
    ...(stale.length === 0 ? [] : [staleText(stale, service, facts)]),
    ...(missing.length === 0
      ? []
      : [`${listText(missing, MAX_LISTED)} ${missing.length === 1 ? 'gets' : 'get'} no new connections.`]),
    ...(stopped === undefined ? [] : [partText(stopped, facts)]),
  ];
  if (causes.length > 0) return causes;
  const changed = [...wanted.values()].filter(
    ({ backend, masqueraded }) => there.get(backend)?.masqueraded !== masqueraded,
  );
  if (changed.length > 0) return [sourceText(changed.map(({ backend }) => there.get(backend) as Fate))];
  return ['The endpoints are the right ones, and their shares of new connections are not.'];
}

/** The packet ends alike, and keeps its source address on one side alone. */
function isAlikeButForTheSource(installed: readonly Fate[], desired: readonly Fate[]): boolean {
  const [there, wanted] = [installed, desired].map((fates) => fates[0]);
  const isOne = installed.length === 1 && desired.length === 1 && there?.kind === 'untouched';
  return isOne && wanted?.kind === 'untouched' && there?.masqueraded !== wanted.masqueraded;
}

/** Of packets whose source address is not as it should be. */
function sourceText(fates: readonly Fate[]): string {
  const names = fates.flatMap(({ backend }) => (backend === '' ? [] : [backend]));
  const way = names.length === 0 ? 'The packet' : `On the way to ${listText(names, MAX_LISTED)} the packet`;
  return fates[0]?.masqueraded === true
    ? `${way} is masqueraded, and should keep its source address.`
    : `${way} keeps its source address, and should be masqueraded.`;
}

function has(fates: readonly Fate[], kind: Fate['kind']): boolean {
  return fates.some((fate) => fate.kind === kind);
}

/** Whether a rule of the proxy decided, and none of a third program. */
function isOfProxy({ way }: Pick<Fate, 'way'>): boolean {
  const { table, chain } = way.at(-1) as WalkStep;
  return table === 'filter' || table === 'nat' || table === 'mangle' ? isOurs(table, chain) : true;
}

/** The last step decided. It may be a rule of a third program. */
function stoppedText({ kind, way }: Fate, service: ServiceKey | undefined, facts: CausesInput['facts']): string {
  const { table, chain, rule } = way.at(-1) as WalkStep;
  const verb = kind === 'dropped' ? 'drops' : 'refuses';
  const of = service === undefined ? 'this destination' : `Service ${service}`;
  if (table === 'ipvs') return `${nameOf(facts)}'s virtual server has no endpoint for ${of}, and ${verb} it.`;
  const at = `rule "${rule}" of ${table} ${chain}`;
  if (!isOfProxy({ way })) return `The ${at} ${verb} it.`;
  return `${nameOf(facts)} ${verb} it by the ${at}: it has no endpoint for ${of}, or a sync of it failed or is late.`;
}

function partText({ kind, probability, way }: Fate, facts: CausesInput['facts']): string {
  const { table, chain, rule } = way.at(-1) as WalkStep;
  return `${percentText(probability)} of the connections are ${FATE_WORDS[kind]} by "${rule}" of ${table} ${chain}: a sync of ${nameOf(facts)} wrote a part of its rules, or another program changed them.`;
}

function noneText(service: ServiceKey | undefined, facts: CausesInput['facts']): string {
  const of = service === undefined ? 'this destination' : `Service ${service}`;
  return `${nameOf(facts)} has no rule for ${of} on this way: a sync of it failed or is late, or another program removed the rule or put one before it.`;
}

function staleText(
  stale: readonly string[],
  service: ServiceKey | undefined,
  { objects }: CausesInput['facts'],
): string {
  const slices = service === undefined ? [] : objects.slicesOf(service);
  const known = new Set(slices.flatMap(({ endpoints }) => endpoints.map(({ address }) => String(address))));
  const gone = stale.filter((backend) => !known.has(socketOf(backend)?.address ?? ''));
  const isAll = gone.length === stale.length;
  const names = listText(gone.length > 0 ? gone : stale, MAX_LISTED);
  const one = (gone.length > 0 ? gone : stale).length === 1;
  const of = service === undefined ? 'any Service' : `Service ${service}`;
  const problem =
    gone.length > 0
      ? `${one ? 'is' : 'are'} in no EndpointSlice of ${of}`
      : `${one ? 'is' : 'are'} in an EndpointSlice of ${of}, and should get no new connections now`;
  return `${names} ${problem}: ${one ? 'it is' : 'they are'} stale${isAll || gone.length === 0 ? '' : ', and so are others'}.`;
}

function nameOf({ by }: CausesInput['facts']): string {
  return by.rules ?? 'slicewire';
}
