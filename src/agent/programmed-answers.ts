/** Answers which versions of objects are in the kernel: `/programmed`, its wait for one version, and its stream. It outlives reloads. */

import { familyOf } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock } from '../base/clock.ts';
import { parseDuration } from '../base/duration.ts';
import { API_VERSION, momentOf, NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import { cutText } from '../inspect/wire/format.ts';
import { serviceKey } from '../inspect/wire/parse.ts';
import type { Programmed, ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { AnsweredBy } from '../inspect/wire/schema-common.ts';
import { type ChangeLedger, objectName } from '../proxy/ledger/change-ledger.ts';
import type { MarkedKind } from '../proxy/ledger/marks.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { hasReached } from '../proxy/model/resource-version.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import { EventStreams, PROGRAM_STREAM } from '../serve/event-stream.ts';
import type { QueryRoute, StreamRoute } from '../serve/query-handler.ts';
import type { ObjectFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import { changedEvent, type ProgrammedSnapshot, wholeEvent } from './programmed/stream-events.ts';
import { Waiters } from './programmed/waiters.ts';
import { answeredByOf, type QueryParts } from './questions/query-parts.ts';

interface ProgrammedParts {
  readonly clock: Clock;
  readonly by: () => AnsweredBy;
  readonly health: () => { readonly healthy: boolean; readonly reasons: readonly string[] };
  readonly unserved: () => Unserved;
  /** The number of faults of objects now. */
  readonly faults: () => number;
  /** Names of the Nodes whose endpoints are kept out of new connections. */
  readonly suspects: () => readonly string[];
  /** Receives a sentence when an event could not be made. */
  readonly onProblem: (text: string) => void;
}

/** The facts that come from the parts of other answers. */
export function programmedParts(parts: QueryParts): Omit<ProgrammedParts, 'suspects' | 'onProblem'> {
  const { health, agent } = parts;
  return {
    clock: realClock,
    by: () => answeredByOf(parts),
    health,
    unserved: () =>
      (agent()?.unserved ?? []).flatMap(({ family, text }) => (family === undefined ? [] : [{ family, why: text }])),
    faults() {
      const present = agent();
      const counts = present === undefined ? {} : faultCounts(present);
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
  };
}

type ProgrammedFeed = Pick<ObjectFeed, 'cache' | 'ledger'>;

const MAX_WAIT_MS = 300_000;
/** Limit of health reasons in an event. */
const MAX_REASONS = 20;

export class ProgrammedAnswers {
  readonly waiters: Waiters;
  readonly #parts: ProgrammedParts;
  readonly #streams: EventStreams<ProgrammedSnapshot>;
  readonly #startedAt: number;
  #feed: ProgrammedFeed;
  /**
   * The families that the last sync did not serve, and those from before that it could not write. Parts that serve more than those before them
   * have not written there yet.
   */
  #unwritten: Unserved = [];
  #drift = 0;

  constructor(feed: ProgrammedFeed, parts: ProgrammedParts) {
    const { clock, onProblem } = parts;
    this.#parts = parts;
    this.#feed = feed;
    this.#startedAt = clock.now();
    this.waiters = new Waiters(clock);
    this.#streams = new EventStreams(
      PROGRAM_STREAM,
      {
        now: () => this.#snapshot(),
        whole: (snapshot) => wholeEvent(snapshot, clock.now()),
        changed: (before, snapshot) => changedEvent(before, snapshot, clock.now()),
        onThrown: (error) =>
          onProblem(`an event of /programmed/live could not be made: ${causeOf(error)}; its readers ask again`),
      },
      clock,
    );
    this.use(feed);
  }

  /** The number of Services with an older version in the kernel, and of requests that wait. */
  get counts(): { readonly behind: number; readonly waiters: number } {
    return { behind: this.#ledger.lags.behind.size, waiters: this.waiters.count };
  }

  get #ledger(): ChangeLedger {
    return this.#feed.ledger;
  }

  /** Follow the objects of this feed from now on. Another source has other versions. */
  use(feed: ProgrammedFeed): void {
    this.#ledger.onChange(() => undefined);
    this.#feed = feed;
    this.#ledger.onChange(this.#moved);
    this.#streams.touch();
  }

  /** A sync and all that follows it is done, so its marks move. */
  synced({ drift }: Pick<SyncReport, 'drift'>): void {
    if (drift.length > 0) this.#drift += 1;
    const hadUnwritten = this.#unwritten.length > 0;
    this.#ledger.confirmed();
    // The marks may be older than a family that is served again, so while they are stuck they say nothing of it.
    const isStuck = this.#ledger.lags.stuck !== undefined;
    this.#unwritten = together(this.#parts.unserved(), isStuck ? this.#unwritten : []);
    if (hadUnwritten) this.#moved();
  }

  readonly #moved = (): void => {
    this.waiters.check();
    this.#streams.touch();
  };

  /** The health, faults or suspects may have changed. */
  readonly changed = (): void => this.#streams.touch();

  /** The routes by path. */
  get routes(): ReadonlyMap<string, QueryRoute | StreamRoute> {
    return new Map<string, QueryRoute | StreamRoute>([
      [
        '/programmed',
        {
          parameters: ['service', 'slice', 'version', 'wait'],
          timeout: MAX_WAIT_MS + 1000,
          answer: async (query, signal) => {
            const { clock, by } = this.#parts;
            const unserved = this.#unserved;
            const parsed = parseProgrammedQuery(query, MAX_WAIT_MS);
            const wait = this.waiters;
            return await programmedAnswer(parsed, { clock, by, unserved, feed: () => this.#feed, wait }, signal);
          },
        },
      ],
      [
        '/programmed/live',
        { parameters: ['pace'], open: (request) => this.#streams.open(request, parsePace(request.query)) },
      ],
    ]);
  }

  readonly #unserved = (): Unserved => together(this.#parts.unserved(), this.#unwritten);

  #snapshot(): ProgrammedSnapshot {
    const { by, health, faults, suspects } = this.#parts;
    const { node, mode, version } = by();
    const { markHistory: history, lags } = this.#ledger;
    const { healthy, reasons } = health();
    const counts: ProgrammedEvent['counts'] = { faults: faults(), drift: this.#drift, suspects: [...suspects()] };
    return {
      agent: { node, mode, version },
      startedAt: this.#startedAt,
      history,
      number: history.number,
      latest: history.latest,
      stuck: lags.stuck,
      behind: lags.behind,
      unserved: this.#unserved(),
      health: { healthy, reasons: reasons.slice(0, MAX_REASONS) },
      counts,
    };
  }
}

type Unserved = ProgrammedSnapshot['unserved'];

/** Each family once, as it is now if it is not served now. */
function together(now: Unserved, former: Unserved): Unserved {
  if (former.length === 0) return now;
  return [...now, ...former.filter((one) => now.every(({ family }) => family !== one.family))];
}

/** The parsed query of `/programmed`. */
interface ProgrammedQuery {
  /** The Service or slice of the query; undefined when it names none. */
  readonly of: { readonly kind: MarkedKind; readonly key: string } | undefined;
  /** The version that the query asks for. */
  readonly version: string | undefined;
  /** Milliseconds to wait for that version. */
  readonly wait: number;
}

interface ProgrammedFacts {
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  readonly by: () => AnsweredBy;
  readonly unserved: () => Programmed['unserved'];
  /** Read at each use, because a reload may replace the source. */
  readonly feed: () => Pick<ObjectFeed, 'cache' | 'ledger'>;
  readonly wait: Pick<Waiters, 'wait' | 'isFull' | 'count'>;
}

type Feed = ReturnType<ProgrammedFacts['feed']>;
type ProgrammedVersion = Programmed['slices'][number];

const DEFAULT_PACE_MS = 1000;
const MIN_PACE_MS = 50;
const MAX_PACE_MS = 60_000;
/** Limit of characters of a reason. */
const MAX_REASON_LENGTH = 300;

/** The minimum interval of two events in milliseconds. Throws WrongQuestion. */
function parsePace(query: URLSearchParams): number {
  const text = query.get('pace');
  if (text === null) return DEFAULT_PACE_MS;
  const pace = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (pace >= MIN_PACE_MS && pace <= MAX_PACE_MS) return pace;
  throw new WrongQuestion(`pace: ${text}: must be milliseconds, from ${MIN_PACE_MS} to ${MAX_PACE_MS}`);
}

/** Throws WrongQuestion. `maxWait`: milliseconds. */
function parseProgrammedQuery(query: URLSearchParams, maxWait: number): ProgrammedQuery {
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
  if (milliseconds < 0 || milliseconds > maxWait)
    throw new WrongQuestion(`wait: ${wait}: must be a duration up to ${maxWait / 60_000}m, such as 30s`);
  return { of, version, wait: milliseconds };
}

function ofService(text: string): ProgrammedQuery['of'] {
  return { kind: 'services', key: serviceKey(text) };
}

function ofSlice(text: string): ProgrammedQuery['of'] {
  if (/^[a-z0-9][-a-z0-9.]*\/[a-z0-9][-a-z0-9.]*$/.test(text)) return { kind: 'slices', key: text };
  throw new WrongQuestion(`slice: ${text}: write NAMESPACE/NAME, such as shop/web-x7k2p`);
}

/** Waits where the query asks for it. Throws NoAnswer where too many requests wait, and the signal's reason. */
async function programmedAnswer(
  query: ProgrammedQuery,
  facts: ProgrammedFacts,
  signal: AbortSignal,
): Promise<Programmed> {
  const { of, version, wait } = query;
  if (of !== undefined && version !== undefined && wait > 0) {
    const isDone = () => isReached(facts, of, version);
    if (!isDone() && facts.wait.isFull)
      throw new NoAnswer(`${facts.wait.count} requests wait already, which is the limit: ask again without wait=`);
    await facts.wait.wait(isDone, wait, signal);
    signal.throwIfAborted();
  }
  return answerNow(query, facts);
}

function answerNow({ of, version }: ProgrammedQuery, facts: ProgrammedFacts): Programmed {
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
    why: reached === false && of !== undefined && version !== undefined ? reasonOf(facts, of, version) : '',
    service: of?.kind === 'services' ? versions('services', of.key) : null,
    slices: slicesOf(feed, of).map((key) => versions('slices', key)),
  };
}

type Of = NonNullable<ProgrammedQuery['of']>;

function receivedOf({ cache }: Feed, { kind, key }: Of): string {
  return kind === 'services' ? cache.byName.resourceVersion(key) : cache.slices.resourceVersion(key);
}

/** The Service of an object, also of a deleted slice while the kernel may still have it. */
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
 * The reason why a slice, or some addresses of a Service, cannot be written; undefined when their families are served. An object that is gone
 * was of any family: its rules may be left in one that is not served.
 */
function unservedBy({ feed, unserved }: ProgrammedFacts, { kind, key }: Of): string | undefined {
  const families = unserved();
  if (families.length === 0) return undefined;
  const { slices, byName } = feed().cache;
  const slice = slices.get(key);
  const used = kind === 'slices' ? slice && [slice.family] : byName.get(key)?.clusterIPs.map(familyOf);
  return families.find(({ family }) => used?.includes(family) ?? true)?.why;
}

/** Many requests may wait, so the object is read only where the marks of its kind do not decide. */
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

/** The slices of a Service, with deleted ones that are still in the kernel. */
function slicesOf({ cache, ledger }: Feed, of: ProgrammedQuery['of']): string[] {
  if (of === undefined) return [];
  if (of.kind === 'slices') return [of.key];
  const start = objectName('slices', '');
  const pending = [...ledger.pendingObjects.of(of.key).keys()].filter((object) => object.startsWith(start));
  const known = cache.slices.of(of.key).map(({ key }) => key);
  return [...new Set([...known, ...pending.map((object) => object.slice(start.length))])].sort();
}

function reasonOf(facts: ProgrammedFacts, of: Of, version: string): string {
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
