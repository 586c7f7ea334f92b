/**
 * Answers questions about the proxy: `status`, `verify`, `explain`, `history`. The agent answers for itself; a command answers from the
 * source and the kernel where no agent is asked. Nothing here writes to the kernel.
 */
import { type AnsweredBy, API_VERSION, momentOf } from '../answers/form.ts';
import type { History } from '../answers/history.ts';
import { WrongQuestion } from '../answers/problem.ts';
import type { Status } from '../answers/status.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/version.ts';
import { flightStatus } from '../history/flight-status.ts';
import { type HistoryQuestion, historyOf } from '../history/history.ts';
import type { Recorder } from '../history/recorder.ts';
import type { Clock } from '../host/clock.ts';
import type { Agent } from './agent.ts';
import type { ObjectFeed } from './feed.ts';
import { OneAtATime } from './one-at-a-time.ts';
import { sourceText, statusOf } from './status-answer.ts';

/** The parts that the answers come from. A reload of the configuration replaces some of them. */
export interface InquiryParts {
  readonly who: AnsweredBy['who'];
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  /** Milliseconds since 1970; undefined: no agent runs. */
  readonly startedAt: number | undefined;
  readonly config: () => Config;
  readonly feed: () => ObjectFeed;
  /** undefined until the first lists are complete. */
  readonly agent: () => Agent | undefined;
  readonly health: () => Status['health'];
  /** undefined where nothing is recorded. */
  readonly recorder: Recorder | undefined;
}

export class Inquiries {
  readonly #parts: InquiryParts;
  readonly #searching = new OneAtATime('history');

  constructor(parts: InquiryParts) {
    this.#parts = parts;
  }

  status(): Status {
    const { clock, startedAt, config, feed, agent, health, recorder } = this.#parts;
    const { cache, watches } = feed();
    const present = agent();
    return statusOf({
      by: this.#by(),
      startedAt,
      families: present?.onNode.families ?? [],
      source: sourceText(config().source),
      health: health(),
      watches: watches(),
      wallAtZero: clock.wall() - clock.now(),
      objects: { services: cache.counts('services').total, slices: cache.counts('slices').total },
      faults: [...cache.faults.all, ...(present?.loop.faults.all ?? [])],
      refused: refusedServices(present),
      flight: recorder && flightStatus(recorder, { now: clock.wall(), folder: config().recording?.folder ?? '' }),
    });
  }

  /** Throws WrongQuestion, NoAnswer and the signal's reason. */
  history(question: HistoryQuestion, signal: AbortSignal): Promise<History> {
    return this.#searching.run(signal, async () => {
      const { recorder } = this.#parts;
      if (recorder === undefined) {
        throw new WrongQuestion(
          'history is kept by an agent that runs, or in a file: ask without a source of objects, or with --recording FILE',
        );
      }
      const content = await historyOf(recorder, question);
      return { apiVersion: API_VERSION, kind: 'History', by: this.#by(question.at), ...content };
    });
  }

  #by(at = this.#parts.clock.wall()): AnsweredBy {
    const { who, config } = this.#parts;
    const { mode, nodeName } = config();
    return { who, mode, node: nodeName, version: version(), at: momentOf(at) };
  }
}

/** The Services that the kernel refuses, with the cause. */
function refusedServices(agent: Agent | undefined): ReadonlyMap<string, string> {
  const refused = new Map<string, string>();
  for (const [key, { cause }] of agent?.loop.refused ?? []) refused.set(key, cause);
  return refused;
}
