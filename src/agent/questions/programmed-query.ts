/** `/programmed`: which versions are in the kernel, of one Service or slice as well, and the wait for one of them. */

import { familyOf } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import { parseDuration } from '../../base/duration.ts';
import { API_VERSION, momentOf, NoAnswer, WrongQuestion } from '../../inspect/wire/envelope.ts';
import { cutText } from '../../inspect/wire/format.ts';
import { serviceKey } from '../../inspect/wire/parse.ts';
import type { Programmed } from '../../inspect/wire/programmed.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import { objectName } from '../../proxy/ledger/change-ledger.ts';
import type { MarkedKind } from '../../proxy/ledger/marks.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { hasReached } from '../../proxy/model/resource-version.ts';
import type { ObjectFeed } from '../feed.ts';
import type { Waiters } from '../programmed/waiters.ts';

/** The question, read. */
export interface ProgrammedQuestion {
  /** The Service or slice that is asked about; undefined: no one. */
  readonly of: { readonly kind: MarkedKind; readonly key: string } | undefined;
  /** The version of it that is asked for. */
  readonly version: string | undefined;
  /** Milliseconds to wait for it. */
  readonly wait: number;
}

export interface ProgrammedFacts {
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  readonly by: () => AnsweredBy;
  readonly unserved: () => Programmed['unserved'];
  /** Another one after a reload that reads another source. */
  readonly feed: () => Pick<ObjectFeed, 'cache' | 'ledger'>;
  readonly wait: Pick<Waiters, 'wait' | 'isFull' | 'count'>;
}

type Feed = ReturnType<ProgrammedFacts['feed']>;
type ProgrammedVersion = Programmed['slices'][number];

const DEFAULT_PACE_MS = 1000;
const MIN_PACE_MS = 50;
const MAX_PACE_MS = 60_000;
/** Characters of a reason. */
const MAX_REASON_LENGTH = 300;

/** Milliseconds between two events, at least. Throws WrongQuestion. */
export function paceIn(query: URLSearchParams): number {
  const text = query.get('pace');
  if (text === null) return DEFAULT_PACE_MS;
  const pace = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (pace >= MIN_PACE_MS && pace <= MAX_PACE_MS) return pace;
  throw new WrongQuestion(`pace: ${text}: must be milliseconds, from ${MIN_PACE_MS} to ${MAX_PACE_MS}`);
}

/** Throws WrongQuestion. `longest`: of a wait, in milliseconds. */
export function readProgrammedQuestion(query: URLSearchParams, longest: number): ProgrammedQuestion {
  const [service, slice, version, wait] = ['service', 'slice', 'version', 'wait'].map((name) => query.get(name));
  if (service != null && slice != null) throw new WrongQuestion('service and slice: ask for one of them');
  const of = service != null ? ofService(service) : slice != null ? ofSlice(slice) : undefined;
  if (version != null && of === undefined)
    throw new WrongQuestion(`version: ${version}: say of which service= or slice= it is`);
  if (version != null && !/^\d{1,40}$/.test(version))
    throw new WrongQuestion(`version: ${version}: must be a resourceVersion that is a number, such as 4711`);
  if (wait == null) return { of, version: version ?? undefined, wait: 0 };
  if (version == null) throw new WrongQuestion(`wait: ${wait}: say for which version= to wait`);
  const milliseconds = parseDuration(wait) ?? -1;
  if (milliseconds < 0 || milliseconds > longest)
    throw new WrongQuestion(`wait: ${wait}: must be a duration up to ${longest / 60_000}m, such as 30s`);
  return { of, version, wait: milliseconds };
}

function ofService(text: string): ProgrammedQuestion['of'] {
  return { kind: 'services', key: serviceKey(text) };
}

function ofSlice(text: string): ProgrammedQuestion['of'] {
  if (/^[a-z0-9][-a-z0-9.]*\/[a-z0-9][-a-z0-9.]*$/.test(text)) return { kind: 'slices', key: text };
  throw new WrongQuestion(`slice: ${text}: write NAMESPACE/NAME, such as shop/web-x7k2p`);
}

/** Waits where the question says so. Throws NoAnswer where too many wait, and the signal's reason. */
export async function programmedAnswer(
  question: ProgrammedQuestion,
  facts: ProgrammedFacts,
  signal: AbortSignal,
): Promise<Programmed> {
  const { of, version, wait } = question;
  if (of !== undefined && version !== undefined && wait > 0) {
    const isDone = () => isReached(facts, of, version);
    if (!isDone() && facts.wait.isFull)
      throw new NoAnswer(`${facts.wait.count} questions wait already, and that is the limit: ask again without wait=`);
    await facts.wait.wait(isDone, wait, signal);
    signal.throwIfAborted();
  }
  return answerNow(question, facts);
}

function answerNow({ of, version }: ProgrammedQuestion, facts: ProgrammedFacts): Programmed {
  const { clock, by, unserved } = facts;
  const feed = facts.feed();
  const { marks, markHistory, lags } = feed.ledger;
  const { stuck, behind } = lags;
  const wallOf = (at: number) => momentOf(clock.wall() - (clock.now() - at));
  const reached = of === undefined || version === undefined ? null : isReached(facts, of, version);
  const versions = (kind: MarkedKind, key: string) => versionOf(feed, { kind, key }, wallOf);
  return {
    apiVersion: API_VERSION,
    kind: 'Programmed',
    by: by(),
    marks,
    at: markHistory.latest === undefined ? null : wallOf(markHistory.latest.at),
    stuck: stuck === undefined ? null : { why: cutText(stuck.why, MAX_REASON_LENGTH), since: wallOf(stuck.since) },
    behind: [...behind].map(([service, { why, since }]) => ({
      service,
      why: cutText(why, MAX_REASON_LENGTH),
      since: wallOf(since),
    })),
    unserved: unserved(),
    reached,
    why: reached === false && of !== undefined && version !== undefined ? whyNot(facts, of, version) : '',
    service: of?.kind === 'services' ? versions('services', of.key) : null,
    slices: slicesOf(feed, of).map((key) => versions('slices', key)),
  };
}

type Of = NonNullable<ProgrammedQuestion['of']>;

function receivedOf({ cache }: Feed, { kind, key }: Of): string {
  return kind === 'services' ? cache.byName.resourceVersion(key) : cache.slices.resourceVersion(key);
}

/** Of a slice that is gone as long as the kernel may have it. */
function serviceOf({ cache, ledger }: Feed, { kind, key }: Of): ServiceKey | undefined {
  return kind === 'services'
    ? key
    : (cache.slices.serviceOf(key) ?? ledger.pendingObjects.get(objectName(kind, key))?.service);
}

function programmedOf(feed: Feed, of: Of): string {
  const known = { service: serviceOf(feed, of), received: receivedOf(feed, of) };
  return feed.ledger.versionOf(of.kind, of.key, known);
}

/**
 * Why nothing of a slice is written, or nothing for some addresses of a Service; undefined: the families are served, or there is no such
 * object any more.
 */
function unservedBy({ feed, unserved }: ProgrammedFacts, { kind, key }: Of): string | undefined {
  const families = unserved();
  if (families.length === 0) return undefined;
  const { slices, byName } = feed().cache;
  const used = kind === 'slices' ? [slices.get(key)?.family] : byName.get(key)?.clusterIPs.map(familyOf);
  return families.find(({ family }) => used?.includes(family))?.why;
}

/** Many may wait: the object is read only where no other version answers. */
function isReached(facts: ProgrammedFacts, of: Of, version: string): boolean {
  const feed = facts.feed();
  const { received, marks, lags } = feed.ledger;
  if (!hasReached(received[of.kind], version) || unservedBy(facts, of) !== undefined) return false;
  if (hasReached(marks[of.kind], version) && lags.behind.size === 0) return true;
  return feed.ledger.hasVersion(of.kind, version, programmedOf(feed, of), serviceOf(feed, of));
}

function versionOf(feed: Feed, of: Of, wallOf: (at: number) => string): ProgrammedVersion {
  const programmed = programmedOf(feed, of);
  const at = programmed === '' ? undefined : feed.ledger.markHistory.reachedAt(of.kind, programmed);
  return { name: of.key, received: receivedOf(feed, of), programmed, at: at === undefined ? null : wallOf(at) };
}

/** The slices of a Service, also those that are gone and still in the kernel. */
function slicesOf({ cache, ledger }: Feed, of: ProgrammedQuestion['of']): string[] {
  if (of === undefined) return [];
  if (of.kind === 'slices') return [of.key];
  const start = objectName('slices', '');
  const pending = [...ledger.pendingObjects.of(of.key).keys()].filter((object) => object.startsWith(start));
  const known = cache.slices.of(of.key).map(({ key }) => key);
  return [...new Set([...known, ...pending.map((object) => object.slice(start.length))])].sort();
}

function whyNot(facts: ProgrammedFacts, of: Of, version: string): string {
  const feed = facts.feed();
  const { marks, received, lags } = feed.ledger;
  const { stuck, behind } = lags;
  const kind = of.kind === 'services' ? 'Services' : 'EndpointSlices';
  const service = serviceOf(feed, of);
  const refused = service === undefined ? undefined : behind.get(service);
  if (received[of.kind] === '') return `no resourceVersion of ${kind} was received yet; manifests have none`;
  if (!hasReached(received[of.kind], version))
    return `changes of ${kind} were received up to version ${received[of.kind]} only`;
  const unserved = unservedBy(facts, of);
  if (unserved !== undefined) return cutText(unserved, MAX_REASON_LENGTH);
  if (stuck !== undefined) return cutText(`nothing can be written: ${stuck.why}`, MAX_REASON_LENGTH);
  if (marks[of.kind] === '') return 'the first sync is not complete';
  if (refused !== undefined) return cutText(`Service ${service}: ${refused.why}`, MAX_REASON_LENGTH);
  return 'the sync that writes it is not complete';
}
