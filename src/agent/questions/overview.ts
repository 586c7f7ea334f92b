/** Answers for the live page: the state of the agent, the list of Services, and one Service. Nothing here writes to the kernel. */
import { inPortions } from '../../base/portions.ts';
import type { Cache } from '../../cluster/cache/cache.ts';
import { nearestService } from '../../inspect/explain/nearest.ts';
import { driftForm } from '../../inspect/history/records.ts';
import { healthSentence } from '../../inspect/overview/sentence.ts';
import { type RowFacts, serviceRow, setAsideRow } from '../../inspect/overview/service-list.ts';
import { API_VERSION, momentOf, WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { Live } from '../../inspect/wire/live.ts';
import type { ServiceAnswer, ServiceRow, Services } from '../../inspect/wire/services.ts';
import type { FaultBook } from '../../proxy/model/fault-book.ts';
import { type Fault, type ServiceKey, shownFault } from '../../proxy/model/objects.ts';
import { answeredByOf, type PageParts, recorderOf, refusedServices } from './query-parts.ts';
import { ServiceSearch } from './service-search.ts';
import { heardOf, sourceText } from './status-answer.ts';

interface ServicesQuestion {
  /** "" for all Services. */
  readonly search: string;
  readonly offset: number;
  readonly limit: number;
}

export class Overview {
  readonly #parts: PageParts;
  readonly #search: ServiceSearch;

  constructor(parts: PageParts) {
    this.#parts = parts;
    this.#search = new ServiceSearch(
      () => parts.feed().cache,
      () => parts.clock.now(),
    );
  }

  /** `revision`: see `liveSchema`. */
  live(revision: number): Live {
    return liveOf(this.#parts, revision);
  }

  /** Drops the lists that are kept for the page. Call it when the last reader is gone. */
  forget(): void {
    this.#search.forget();
  }

  /** Throws NoAnswer when too many requests wait, and the signal's reason. */
  async services({ search, offset, limit }: ServicesQuestion, signal: AbortSignal): Promise<Services> {
    const found = await this.#search.find(search, signal);
    const facts = rowFacts(this.#parts);
    const rows: ServiceRow[] = [];
    await inPortions(found.slice(offset, offset + limit), (key) => rows.push(this.#row(key, facts)), signal);
    const head = { apiVersion: API_VERSION, kind: 'Services', by: answeredByOf(this.#parts) } as const;
    return { ...head, search, total: found.length, offset, rows };
  }

  /** Throws WrongQuestion when there is no such Service, and NetlinkError when the addresses of this node cannot be read. */
  async service(key: ServiceKey): Promise<ServiceAnswer> {
    const { cache } = this.#parts.feed();
    const facts = rowFacts(this.#parts);
    const service = cache.service(key);
    const by = answeredByOf(this.#parts);
    const head = { apiVersion: API_VERSION, kind: 'Service', by } as const;
    const faults = facts.faultsOf(key);
    if (service === undefined) {
      if (!faults.some(isServiceSetAside)) throw new WrongQuestion(unknownService(key, cache));
      const listed = faults.map(shownFault);
      const nothing = { frontends: [], slices: [], affinitySeconds: null, annotations: [], rules: [], rulesOmitted: 0 };
      return { ...head, row: setAsideRow(key, faults), ...nothing, faults: listed };
    }
    // Loaded only here: an agent without such requests needs no explanation.
    const { serviceNow } = await import('./service-now.ts');
    return { ...head, ...(await serviceNow(service, { by, facts, parts: this.#parts })) };
  }

  #row(key: ServiceKey, facts: RowFacts): ServiceRow {
    const service = this.#parts.feed().cache.service(key);
    return service === undefined ? setAsideRow(key, facts.faultsOf(key)) : serviceRow(service, facts);
  }
}

function isServiceSetAside({ kind, effect }: Fault): boolean {
  return kind === 'Service' && effect === 'object set aside';
}

function unknownService(key: ServiceKey, cache: Cache): string {
  const near = nearestService(key, cache.byName.keys());
  if (near !== undefined) return `no Service ${key}; did you mean ${near}?`;
  return `no Service ${key}; headless Services and those of type ExternalName are not served`;
}

/** The present facts for the rows of Services. */
function rowFacts(parts: PageParts): RowFacts {
  const { cache } = parts.feed();
  const agent = parts.agent();
  const pending = parts.feed().ledger.pendingChanges.services();
  const setAside = slicesSetAside(cache.faults);
  return {
    portsOf: (key) => agent?.model.portsOf(key) ?? [],
    faultsOf: (key) => [
      ...cache.faults.of(`service ${key}`),
      ...(agent?.loop.faults.of(key) ?? []),
      ...(cache.faults.counts.size === 0 ? [] : sliceFaults(key, cache)),
      ...(setAside.get(key) ?? []),
    ],
    isPending: (key) => agent === undefined || pending.has(key),
    refused: refusedServices(agent),
    families: agent?.onNode.families ?? [],
  };
}

/** Faults of the slices of a Service that are not set aside as a whole. */
function sliceFaults(key: ServiceKey, cache: Cache): Fault[] {
  return cache.slicesOf(key).flatMap((slice) => cache.faults.of(`slice ${slice.key}`));
}

/** Faults of slices that are set aside as a whole, by the Service of their name, because their content is not known. */
function slicesSetAside(faults: Cache['faults']): ReadonlyMap<ServiceKey, readonly Fault[]> {
  if (!faults.counts.has('object set aside')) return new Map();
  const slices = faults.all.filter(({ kind, effect }) => kind === 'EndpointSlice' && effect === 'object set aside');
  return Map.groupBy(slices, ({ object }) => object.slice(0, object.lastIndexOf('-')));
}

/** Limit of listed faults, and of listed refused Services. */
const MAX_LISTED = 100;
/** The page only mentions changes that wait longer, because most syncs take less. */
const UNREMARKABLE_WAIT_MS = 1000;

/** The state of the agent at a glance. `revision`: see `liveSchema`. */
function liveOf(parts: PageParts, revision: number): Live {
  const { clock, startedAt, config, feed, agent, health } = parts;
  const by = answeredByOf(parts);
  const { cache, watches } = feed();
  const loop = agent()?.loop;
  const books = loop === undefined ? [cache.faults] : [cache.faults, loop.faults];
  const refused = refusedServices(agent());
  const wallAtZero = clock.wall() - clock.now();
  const common = { by, health: health(), objects: { services: cache.serviceCount, slices: cache.slices.count } };
  const flight = flightOf(parts);
  const waiting = parts.feed().ledger.pendingChanges.services(clock.now() - UNREMARKABLE_WAIT_MS);
  const sentence = healthSentence({
    health: common.health,
    services: common.objects.services,
    refused: [...refused.keys()],
    setAside: books.reduce((sum, { counts }) => sum + (counts.get('object set aside') ?? 0), 0),
    suspects: cache.own.suspects,
    waiting: [...waiting].filter((key) => !refused.has(key)).length,
  });
  return {
    ...common,
    startedAt: startedAt === undefined ? null : momentOf(startedAt),
    source: sourceText(config().source),
    sentence,
    heard: watches().map((watch) => heardOf(watch, wallAtZero)),
    faults: firstFaults(books),
    refused: [...refused].slice(0, MAX_LISTED).map(([service, cause]) => ({ service, cause })),
    ...flight,
    revision,
  };
}

type HistoryOfPage = Pick<Live, 'lastChange' | 'latency' | 'syncs' | 'drift'>;

function flightOf(parts: PageParts): HistoryOfPage {
  const statistics = recorderOf(parts)?.statistics;
  if (statistics === undefined) return { lastChange: null, latency: [], syncs: [], drift: [] };
  const now = parts.clock.wall();
  const last = statistics.lastWritten;
  return {
    lastChange:
      last === undefined
        ? null
        : { at: momentOf(last.at), milliseconds: rounded(last.milliseconds), object: objectOf(last.service) },
    latency: statistics.latencySlots(now).map(({ since, changes, p50, p99, most }) => {
      return { at: momentOf(since), changes, p50: rounded(p50), p99: rounded(p99), most: rounded(most) };
    }),
    syncs: statistics.recentSyncs(now),
    drift: statistics.lastDrifts.map(driftForm),
  };
}

/** To a hundredth of a millisecond. */
function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 100) / 100;
}

function objectOf(service: string): string {
  return service === '' ? 'Node' : `Service ${service}`;
}

function firstFaults(books: readonly FaultBook[]): Live['faults'] {
  const first = books.flatMap((book) => book.first(MAX_LISTED)).slice(0, MAX_LISTED);
  return first.map(shownFault);
}
