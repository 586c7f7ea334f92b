/** What the agent says of the versions that are in its kernel: `/programmed` and its stream. It outlives reloads. */
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock } from '../base/clock.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { AnsweredBy } from '../inspect/wire/schema-common.ts';
import type { ChangeLedger } from '../proxy/ledger/change-ledger.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import { EventStreams, PROGRAM_STREAM } from '../serve/event-stream.ts';
import type { QueryRoute, StreamRoute } from '../serve/query-handler.ts';
import type { ObjectFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import { changedEvent, type ProgrammedSnapshot, wholeEvent } from './programmed/stream-events.ts';
import { Waiters } from './programmed/waiters.ts';
import { paceIn, programmedAnswer, readProgrammedQuestion } from './questions/programmed-query.ts';
import { answeredByOf, type QueryParts } from './questions/query-parts.ts';

export interface ProgrammedParts {
  readonly clock: Clock;
  readonly by: () => AnsweredBy;
  readonly health: () => { readonly healthy: boolean; readonly reasons: readonly string[] };
  readonly unserved: () => ProgrammedSnapshot['unserved'];
  /** Faults of objects, now. */
  readonly faults: () => number;
  /** Nodes whose endpoints are kept out of new connections. */
  readonly suspects: () => readonly string[];
  /** An event could not be made, as a sentence. */
  readonly onProblem: (text: string) => void;
}

/** The facts that answers of the agent know as well. */
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

/** Longest wait in milliseconds. */
export const MAX_WAIT_MS = 300_000;
/** Reasons of the health that an event has. */
const MAX_REASONS = 20;

export class ProgrammedAnswers {
  readonly waiters: Waiters;
  readonly #parts: ProgrammedParts;
  readonly #streams: EventStreams<ProgrammedSnapshot>;
  readonly #startedAt: number;
  #feed: ProgrammedFeed;
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
        now: () => this.#said(),
        whole: (said) => wholeEvent(said, clock.now()),
        changed: (before, said) => changedEvent(before, said, clock.now()),
        onThrown: (error) =>
          onProblem(`an event of /programmed/live could not be made: ${causeOf(error)}; its readers ask again`),
      },
      clock,
    );
    this.use(feed);
  }

  /** Services of which older versions are in the kernel, and questions that wait. */
  get counts(): { readonly behind: number; readonly waiters: number } {
    return { behind: this.#ledger.lags.behind.size, waiters: this.waiters.count };
  }

  get #ledger(): ChangeLedger {
    return this.#feed.ledger;
  }

  /** The objects of this feed from now on: another source has other versions. */
  use(feed: ProgrammedFeed): void {
    this.#ledger.onChange(() => undefined);
    this.#feed = feed;
    this.#ledger.onChange(() => {
      this.waiters.check();
      this.#streams.touch();
    });
    this.#streams.touch();
  }

  /** All that follows a sync is done: its marks move. */
  synced({ drift }: Pick<SyncReport, 'drift'>): void {
    if (drift.length > 0) this.#drift += 1;
    this.#ledger.confirmed();
  }

  /** The health, faults or suspects may be other than before. */
  readonly happened = (): void => this.#streams.touch();

  /** What is asked of it, by path. */
  get questions(): ReadonlyMap<string, QueryRoute | StreamRoute> {
    return new Map<string, QueryRoute | StreamRoute>([
      [
        '/programmed',
        {
          parameters: ['service', 'slice', 'version', 'wait'],
          longest: MAX_WAIT_MS + 1000,
          answer: async (query, signal) => {
            const { clock, by, unserved } = this.#parts;
            const question = readProgrammedQuestion(query, MAX_WAIT_MS);
            const wait = this.waiters;
            return await programmedAnswer(question, { clock, by, unserved, feed: () => this.#feed, wait }, signal);
          },
        },
      ],
      ['/programmed/live', { parameters: ['pace'], open: (asked) => this.#streams.open(asked, paceIn(asked.query)) }],
    ]);
  }

  #said(): ProgrammedSnapshot {
    const { by, health, unserved, faults, suspects } = this.#parts;
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
      unserved: unserved(),
      health: { healthy, reasons: reasons.slice(0, MAX_REASONS) },
      counts,
    };
  }
}
