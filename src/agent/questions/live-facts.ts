/** What the live page shows at a glance, from the parts of an agent that runs. */

import { driftForm } from '../../inspect/history/recorded-sync.ts';
import { healthSentence } from '../../inspect/overview/sentence.ts';
import { momentOf } from '../../inspect/wire/envelope.ts';
import type { Live } from '../../inspect/wire/live.ts';
import type { FaultBook } from '../../proxy/model/fault-book.ts';
import { shownFault } from '../../proxy/model/objects.ts';
import { answeredByOf, type PageParts, recorderOf, refusedServices } from './query-parts.ts';
import { heardOf, sourceText } from './status-answer.ts';

/** Faults, and refused Services, that are listed. */
const MAX_LISTED = 100;
/** Milliseconds for which a change may wait without being worth a word: most syncs take less. */
const UNREMARKABLE_WAIT_MS = 1000;

/** `revision`: see `liveSchema`. */
export function liveOf(parts: PageParts, revision: number): Live {
  const { clock, startedAt, config, feed, agent, health } = parts;
  const by = answeredByOf(parts);
  const { cache, watches } = feed();
  const loop = agent()?.loop;
  const books = loop === undefined ? [cache.faults] : [cache.faults, loop.faults];
  const recorder = recorderOf(parts);
  const refused = refusedServices(agent());
  const wallAtZero = clock.wall() - clock.now();
  const common = { by, health: health(), objects: { services: cache.serviceCount, slices: cache.slices.count } };
  const flight = flightOf(parts);
  const waiting = recorder?.pending.services(clock.now() - UNREMARKABLE_WAIT_MS) ?? new Set();
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
