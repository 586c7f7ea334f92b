/**
 * Problems that last, in the log: a line when one begins or has another cause, and every ten minutes; a line when it is over. The tries
 * in between have their lines at `-v 2` (docs/observe.md, "The log").
 */

import { causeOf } from '../base/cause.ts';
import type { Clock } from '../base/clock.ts';
import { LastingProblems } from '../base/lasting-problem.ts';
import type { Log } from './log.ts';

export interface Trouble {
  /** The object, where many objects may have the problem. */
  readonly of?: string;
  readonly cause: string;
  readonly text: string;
  readonly facts?: object;
}

export interface TroubleLogOptions {
  readonly log: Log;
  readonly clock: Pick<Clock, 'now'>;
  /** The level of the lines that report the problem. */
  readonly level: 'info' | 'warn' | 'error';
}

export class TroubleLog {
  readonly #options: TroubleLogOptions;
  readonly #problems = new LastingProblems();

  constructor(options: TroubleLogOptions) {
    this.#options = options;
  }

  /** Returns whether the line has the level of a report. */
  tell({ of = '', cause, text, facts = {} }: Trouble): boolean {
    const { log, clock, level } = this.#options;
    const isReport = this.#problems.met(of, cause, clock.now());
    log[isReport ? level : 'v2'](facts, text);
    return isReport;
  }

  /** The same work succeeded. Where there was a problem, `text` reports its end at the level info. */
  over({
    of = '',
    text,
    facts = {},
  }: {
    readonly of?: string;
    readonly text?: string;
    readonly facts?: object;
  } = {}): void {
    if (this.#problems.over(of) && text !== undefined) this.#options.log.info(facts, text);
  }
}

/** The callbacks of a server that is opened again and again until its port is free. */
export function listenTrouble(troubles: TroubleLog, listen: string) {
  const facts = { listen };
  return {
    onFailure(error: unknown): void {
      const cause = causeOf(error);
      troubles.tell({ of: listen, cause, facts, text: `cannot listen at ${listen}: ${cause}; trying again` });
    },
    onOpen: () => troubles.over({ of: listen, facts, text: `listening at ${listen} now` }),
  };
}
