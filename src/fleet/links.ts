/** The connections to all agents: as many as there are nodes with an agent, and none is made at the same moment as all others. */

import type { Clock } from '../base/clock.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import { type AgentAddress, AgentLink } from './link.ts';

/** Hears of all links, by node. */
export interface LinksSink {
  event(node: string, event: ProgrammedEvent, isFirst: boolean): void;
  failed(node: string, why: string, isTooOld: boolean): void;
}

export interface LinksOptions {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly random: () => number;
  readonly token: () => Promise<string | undefined>;
  /** Milliseconds between two events of an agent, at least: more with more agents. */
  readonly pace: () => number;
  readonly sink: LinksSink;
}

/** Milliseconds between two looks for silent connections. */
const SWEEP = 1000;
/** Milliseconds for each agent over which first tries are spread: 5,000 agents are asked within some seconds. */
const SPREAD = 0.5;

export class AgentLinks {
  readonly #options: LinksOptions;
  readonly #links = new Map<string, AgentLink>();
  /** The pace with which most connections were opened. */
  #pace = 0;
  #cancel: () => void;
  #events = 0;

  constructor(options: LinksOptions) {
    this.#options = options;
    this.#cancel = this.#sweepLater();
  }

  /** Connections on which an agent has sent its first event. */
  get open(): number {
    let open = 0;
    for (const link of this.#links.values()) if (link.isOpen) open += 1;
    return open;
  }

  /** Events that came since the start. */
  get events(): number {
    return this.#events;
  }

  /** Where the agent of a node is now; undefined: nowhere. Returns whether it has moved; otherwise nothing happens. */
  set(node: string, at: AgentAddress | undefined): boolean {
    const before = this.#links.get(node);
    if (at === undefined) {
      before?.close();
      return this.#links.delete(node);
    }
    if (before?.at.address === at.address && before.at.port === at.port) return false;
    before?.close();
    const { clock, random, token, pace, sink } = this.#options;
    const options = {
      ...{ node, at, clock, random, token, pace },
      sink: {
        event: (event: ProgrammedEvent, isFirst: boolean) => {
          this.#events += 1;
          sink.event(node, event, isFirst);
        },
        failed: (why: string, isTooOld: boolean) => sink.failed(node, why, isTooOld),
      },
    };
    this.#links.set(node, new AgentLink(options, random() * SPREAD * this.#links.size));
    this.#keepPace();
    return true;
  }

  close(): void {
    this.#cancel();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  /** Where there are twice as many agents as before, all connections are made anew, within some seconds. */
  #keepPace(): void {
    const pace = this.#options.pace();
    if (this.#pace > 0 && pace < 2 * this.#pace) return;
    this.#pace = pace;
    for (const link of this.#links.values()) link.renew();
  }

  #sweepLater(): () => void {
    const { clock } = this.#options;
    return clock.after(SWEEP, () => {
      const now = clock.now();
      for (const link of this.#links.values()) link.check(now);
      this.#cancel = this.#sweepLater();
    });
  }
}
