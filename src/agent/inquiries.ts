/**
 * Answers questions about the proxy: `status`, `verify`, `explain`, `history`. The agent answers for itself; a command answers from the
 * source and the kernel where no agent is asked. Nothing here writes to the kernel.
 */
import { type AnsweredBy, momentOf } from '../answers/form.ts';
import type { Status } from '../answers/status.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/version.ts';
import type { Clock } from '../host/clock.ts';
import type { Agent } from './agent.ts';
import type { ObjectFeed } from './feed.ts';
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
}

export class Inquiries {
  readonly #parts: InquiryParts;

  constructor(parts: InquiryParts) {
    this.#parts = parts;
  }

  status(): Status {
    const { clock, startedAt, config, feed, agent, health } = this.#parts;
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
      flight: undefined,
    });
  }

  #by(at = this.#parts.clock.wall()): AnsweredBy {
    const { who, config } = this.#parts;
    const { mode, nodeName } = config();
    return { who, mode, node: nodeName, version: version(), at: momentOf(at) };
  }
}

/** The Services that the kernel refuses, with the cause. Keys of shared objects are no Services. */
function refusedServices(agent: Agent | undefined): ReadonlyMap<string, string> {
  const refused = new Map<string, string>();
  for (const [key, { cause }] of agent?.loop.refused ?? []) refused.set(key, cause);
  return refused;
}
